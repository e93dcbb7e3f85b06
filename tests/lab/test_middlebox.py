# SPDX-License-Identifier: MIT
"""Middleboxes on the wire: each rule does what it says to its own address, and nothing to the others."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.internet import bpf, middlebox
from configtron.lab.internet.draw import REGIONS, draw
from configtron.lab.internet.impair import impaired
from configtron.lab.internet.impairments import BY_NAME, IMPAIRMENTS
from configtron.lab.internet.middlebox import MiddleboxRule, SecondBackend
from configtron.lab.internet.sites import Site
from configtron.lab.internet.world import read, world
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from tests.lab.test_world import LOOK, boot

NA = REGIONS[0]
# Of look.py, and its rows' columns.
ALONE, STAMPED, ASKING = 20000, 30000, 40000
AT, FLAGS, SEQ, LENGTH, WINDOW, _SCALE, TTL, MSS_AT = range(8)
SYN_ACK = 0x12
# One hop from the pool to the vantage.
HOPS = 1
FILTERED = [impairment for impairment in IMPAIRMENTS if impairment.middlebox]


def test_a_rule_fills_the_kernels_struct() -> None:
    rule = MiddleboxRule(drop="ack", loss_per_mille=1, copy_ms=4, mss_least=5, window=6, rotate=True)
    assert middlebox.RULE.unpack(rule.packed()) == (2, 1, 0, 0, 4, 0, 5, 0, 0, 6, 0, 1)
    assert len(fields(MiddleboxRule)) == len(middlebox.RULE.unpack(rule.packed()))


def test_only_rules_that_hold_packets_back_ask_for_a_queue() -> None:
    late = MiddleboxRule(late_per_mille=1, late_ms=2)
    assert MiddleboxRule(copy_ms=1).delays and MiddleboxRule(step_ms=1).delays and late.delays
    assert not MiddleboxRule(drop="syn", loss_per_mille=9, rewrite=True, ttl=7, mss_most=5).delays


def test_addresses_of_both_families_are_one_key() -> None:
    assert bpf.key("10.1.2.3") == bytes(10) + b"\xff\xff\x0a\x01\x02\x03"
    assert bpf.key("fd00::1") == b"\xfd" + bytes(14) + b"\x01"


def test_a_world_without_impairments_has_no_boxes(tmp_path: Path) -> None:
    calm = world(draw(5, ["a.example", "b.example"]))
    assert calm.rules == () and calm.second_backends == ()
    calm.write(tmp_path / "world.json")
    assert not (tmp_path / middlebox.OBJECT).exists()


def test_rules_survive_their_file(tmp_path: Path) -> None:
    rules, backends = (("10.11.0.1", MiddleboxRule(ttl=3)),), (SecondBackend("a", "b", 5),)
    drawn = replace(world(draw(5, ["a.example"])), rules=rules, second_backends=backends)
    (tmp_path / "x").mkdir()
    drawn.write(tmp_path / "x" / "world.json")
    assert read(tmp_path / "x" / "world.json") == drawn and (tmp_path / "x" / middlebox.OBJECT).exists()


def sites() -> list[Site]:
    """One site an impairment by a middlebox, and a calm one, all in North America; each as its row needs it."""
    programs = {impairment.only[0] if impairment.only else "nginx" for impairment in FILTERED}
    drawn = {site.program: site for site in draw(1, [f"s{n}.example" for n in range(40)], (NA,)).sites}
    assert programs <= set(drawn)
    made = []
    for n, impairment in enumerate(FILTERED):
        site = drawn[impairment.only[0] if impairment.only else "nginx"]
        calm = replace(site.servers[0], address=site.servers[0].address.rsplit(".", 1)[0] + f".{n + 10}")
        calm = replace(calm, icw=10, synack_rto_ms=1000, rto_min_ms=site.servers[0].rto_min_ms)
        made.append(impaired(replace(site, host=f"{impairment.name}.example", servers=(calm,)), impairment))
    site = drawn["nginx"]
    calm = replace(site.servers[0], icw=10, synack_rto_ms=1000)
    return [*made, replace(site, host="calm.example", servers=(calm,))]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, list[list[float]]]]:
    """Impairment -> flow of look.py -> packets."""
    internet = replace(draw(1, ["a.example"], (NA,)), sites=tuple(sites()))
    raised = world(internet)
    link = raised.links[0]
    output = tmp_path_factory.mktemp("box")
    gateway = f"02:00:00:3c:{link.number:02x}:02"
    vantage = {"name": link.name, "source_address": link.prober_address, "gateway_mac": gateway}
    names = {site.servers[0].address: site.host.removesuffix(".example") for site in internet.sites}
    asked = {"vantage": vantage, "addresses": list(names), "ports": [ALONE, STAMPED, ASKING], "listen_s": 8.0}
    (output / "asked.json").write_text(json.dumps(asked))
    code, console = boot(raised, output, [sys.executable, str(LOOK), *(f"{GUEST_OUTPUT}/{f}" for f in FILES)])
    assert code == 0, console[-3000:]
    found: dict[str, dict[int, list[list[float]]]] = {}
    for flow, packets in json.loads((output / "seen.json").read_text()).items():
        address, port = flow.split("/")
        found.setdefault(names[address], {})[int(port)] = packets[1:]
    return found


FILES = ("asked.json", "seen.json")


def synacks(packets: list[list[float]]) -> list[list[float]]:
    return [packet for packet in packets if packet[FLAGS] == SYN_ACK]


def gaps_ms(packets: list[list[float]]) -> list[float]:
    at = [packet[AT] for packet in packets]
    return [1000 * (later - earlier) for earlier, later in zip(at, at[1:], strict=False)]


def payload(packets: list[list[float]]) -> list[list[float]]:
    return [packet for packet in packets if packet[LENGTH]]


@pytest.mark.lab
@pytest.mark.root
class TestOnTheWire:
    """One guest for all."""

    def test_the_calm_site_is_untouched(self, seen: dict[str, Any]) -> None:
        flow = seen["calm"]
        assert len(synacks(flow[ASKING])) == 1 and len(synacks(flow[ALONE])) >= 3
        assert {packet[TTL] for packet in flow[ASKING]} == {64 - HOPS}
        assert {packet[MSS_AT] for packet in synacks(flow[STAMPED])} == {0}
        assert max(packet[LENGTH] for packet in flow[ASKING]) == 524

    def test_dropped(self, seen: dict[str, Any]) -> None:
        assert not any(seen["syn-dropped"].values())
        for name in ("ack-dropped", "request-dropped"):
            assert payload(seen[name][ASKING]) == [] and len(synacks(seen[name][ALONE])) >= 3
        assert len(synacks(seen["ack-dropped"][ASKING])) >= 3
        assert len(synacks(seen["request-dropped"][ASKING])) == 1

    def test_doubled(self, seen: dict[str, Any]) -> None:
        for name in ("synack-twice", "synack-twice-later"):
            rule = BY_NAME[name].middlebox
            assert rule
            gaps = gaps_ms(synacks(seen[name][ALONE]))
            assert gaps[0] == pytest.approx(rule.copy_ms, abs=0.1)
            assert gaps[0] + gaps[1] == pytest.approx(1000, rel=0.13)
            assert payload(seen[name][ASKING])

    def test_linear(self, seen: dict[str, Any]) -> None:
        gaps = gaps_ms(synacks(seen["synack-linear"][ALONE]))
        assert len(gaps) == 3 and gaps == pytest.approx([1000] * 3, rel=0.05)
        assert len(synacks(seen["synack-linear"][ASKING])) == 1 and payload(seen["synack-linear"][ASKING])

    def test_split(self, seen: dict[str, Any]) -> None:
        for name in ("stack-split", "stack-split-near"):
            rule = BY_NAME[name].middlebox
            assert rule
            for port in (ALONE, STAMPED, ASKING):
                assert {(p[TTL], p[WINDOW]) for p in synacks(seen[name][port])} == {(rule.ttl - HOPS, rule.window)}
            assert {packet[TTL] for packet in payload(seen[name][ASKING])} == {64 - HOPS}
        # behind timestamps (12) and scale (4)
        assert {packet[MSS_AT] for packet in synacks(seen["stack-split"][STAMPED])} == {16}
        assert {packet[WINDOW] for packet in synacks(seen["zero-window"][ASKING])} == {0}
        assert payload(seen["zero-window"][ASKING])

    def test_segments_are_as_large_as_the_middlebox_lets_the_server(self, seen: dict[str, Any]) -> None:
        # look.py asks for 536, which is what mss-raised raises to; mss-lowered has no work there
        for name in ("mss-raised", "mss-lowered"):
            assert max(packet[LENGTH] for packet in seen[name][ASKING]) == 524

    def test_lossy_and_late_still_answer(self, seen: dict[str, Any]) -> None:
        assert payload(seen["late"][ASKING]) and any(seen["lossy"].values())


LOAD = """
import sys
from pathlib import Path
from configtron.lab.internet import middlebox
middlebox.load(*map(Path, sys.argv[1:]))
"""


@pytest.mark.lab
@pytest.mark.root
def test_the_programs_load_and_attach_nowhere_else(tmp_path: Path) -> None:
    """The compiled object passes this kernel's verifier; a missing interface is an error in words."""
    built = bpf.compiled(middlebox.SOURCE, tmp_path)
    script = f"mount -t bpf none {tmp_path}/pins && exec {sys.executable} -c '{LOAD}' {built} {tmp_path}/pins"
    (tmp_path / "pins").mkdir()
    done = subprocess.run(["unshare", "-nm", "sh", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
