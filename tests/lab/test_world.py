# SPDX-License-Identifier: MIT
"""A raised world: every server answers as the truth says, seen by tools that share no code with prober or oracle."""

from __future__ import annotations

import json
import struct
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.internet.draw import REGIONS, Internet, draw
from configtron.lab.internet.server_pools import H2LIB_WINDOW_UPDATE
from configtron.lab.internet.shares import UNKNOWN_SETTING
from configtron.lab.internet.truth import NOT_ANNOUNCED, oracle
from configtron.lab.internet.wheel import late_s
from configtron.lab.internet.world import GuestInternet, world
from configtron.lab.uml import user_mode_linux as uml
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT, GuestJob
from configtron.model.errors import PRIVILEGE
from tests.support import ROOT
from tests.support.waiting import GUEST_S

LOOK = ROOT / "tests" / "support" / "lab" / "look.py"
SITES = [f"site{n}.example" for n in range(30)]
# An internet that has one of each: programs with HTTP/2, a short page, h2c, an unknown setting, all minimum RTOs,
# a SYN-ACK timeout below its region's round trip, a BBR server with a wide window. `test_has_one_of_each` says so.
SEED = 12
# Of look.py: the flow left alone, the one with timestamps, the one that asks.
ALONE, STAMPED, ASKING = "20000", "30000", "40000"
SYN_ACK = 0x12
Seen = dict[str, Any]

pytestmark = [pytest.mark.lab, pytest.mark.root]


def boot(raised: GuestInternet, output: Path, command: list[str]) -> tuple[int, str]:
    """That world, raised in virtual time."""
    backend = uml.UmlVirtual()
    if reason := backend.available():
        pytest.skip(reason)
    truth = output / "truth"
    truth.mkdir()
    raised.write(truth / "world.json")
    guest = (sys.executable, "-m", "configtron.lab.internet.guest", f"{GUEST_OUTPUT}/truth/world.json", "--", *command)
    running = backend.boot(GuestJob(guest, output, SEED, 0, limit_s=GUEST_S))
    return running.wait(GUEST_S), running.console.read_text()


def look(internet: Internet, output: Path) -> Seen:
    vantages = [
        {
            "name": link.name, "source_address": link.prober_address, "resolver": link.resolver,
            "gateway_mac": f"02:00:00:3c:{link.number:02x}:02",
        }
        for link in world(internet).links
    ]  # fmt: skip
    asked = {
        "vantages": vantages, "hosts": [site.host for site in internet.sites],
        "server_pools": [pool.netns for pool in world(internet).server_pools], "truth": f"{GUEST_OUTPUT}/truth",
    }  # fmt: skip
    (output / "asked.json").write_text(json.dumps(asked))
    command = [sys.executable, str(LOOK), f"{GUEST_OUTPUT}/asked.json", f"{GUEST_OUTPUT}/seen.json"]
    code, console = boot(world(internet), output, command)
    assert code == 0, console[-3000:]
    return dict(json.loads((output / "seen.json").read_text()))


@pytest.fixture(scope="module")
def internet() -> Internet:
    return draw(SEED, SITES)


@pytest.fixture(scope="module")
def looked(internet: Internet, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return look(internet, tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def rows(internet: Internet, looked: Seen) -> list[tuple[str, str, Seen]]:
    """(region, host, what was seen) of all."""
    return [(r.name, s.host, looked["seen"][f"{r.name}/{s.host}"]) for r in REGIONS for s in internet.sites]


def synacks(flow: list[list[float]]) -> list[list[float]]:
    return [packet for packet in flow[1:] if packet[1] == SYN_ACK]


def test_each_region_is_sent_to_its_own_servers(internet: Internet, rows: list[tuple[str, str, Seen]]) -> None:
    for region, host, row in rows:
        assert row["address"] == internet.server(region, host).address


def test_names_that_are_not_there(looked: Seen) -> None:
    assert {looked["seen"][f"{region.name}/nxdomain"]["rcode"] for region in REGIONS} == {3}


def test_round_trips_are_the_regions(internet: Internet, rows: list[tuple[str, str, Seen]]) -> None:
    for region, _, row in rows:
        flow = row[ASKING]
        assert 1000 * (flow[1][0] - flow[0][0]) == pytest.approx(internet.region(region).rtt_ms, abs=0.5)


def test_windows_and_scale(internet: Internet, rows: list[tuple[str, str, Seen]]) -> None:
    for region, host, row in rows:
        expected = oracle(internet, region, host)
        assert expected["rwin"].admits(row[ALONE][1][4]), (region, host)
        assert expected["rwin_ts"].admits(row[STAMPED][1][4]), (region, host)
        assert expected["wscale"].admits(row[STAMPED][1][5]), (region, host)


def test_synack_timers(internet: Internet, rows: list[tuple[str, str, Seen]]) -> None:
    for region, host, row in rows:
        expected = oracle(internet, region, host)
        at = [packet[0] for packet in synacks(row[ALONE])]
        gaps = [later - earlier for earlier, later in zip(at, at[1:], strict=False)]
        assert expected["synack_rto"].admits(gaps[0]), (region, host, gaps)
        assert expected["synack_retries"].admits(len(gaps)), (region, host, gaps)
        for i, gap in enumerate(gaps):
            due = 2**i * internet.server(region, host).synack_rto_ms / 1000
            assert due * 0.99 <= gap <= due + late_s(due) + 0.02, (region, host, gaps)


def test_first_flight_and_its_repetition(internet: Internet, rows: list[tuple[str, str, Seen]]) -> None:
    for region, host, row in rows:
        expected = oracle(internet, region, host)
        data = [packet for packet in row[ASKING] if packet[3]]
        again = next(i for i, packet in enumerate(data) if packet[2] in [p[2] for p in data[:i]])
        assert expected["icw"].admits(again, lower_bound=expected["icw"].bound), (region, host, data)
        assert expected["data_rto"].admits(data[again][0] - data[0][0]), (region, host)
        assert len({packet[2] for packet in data[again:]} - {packet[2] for packet in data[:again]}) == 0


def test_congestion_control(internet: Internet, looked: Seen, rows: list[tuple[str, str, Seen]]) -> None:
    for region, host, row in rows:
        lines = [line.split() for line in looked["seen"][f"{region}/ss"]["lines"]]
        of_server = [words for words in lines if f"{row['address']}:80" in words]
        assert of_server, (region, host)
        assert all(internet.server(region, host).congestion_control in words for words in of_server), (region, host)


def test_versions_certificates_and_pages(internet: Internet, rows: list[tuple[str, str, Seen]]) -> None:
    for region, host, row in rows:
        site, server, expected = internet.site(host), internet.server(region, host), oracle(internet, region, host)
        assert expected["http_version"].admits(row["alpn"] or "http/1.1"), (region, host)
        assert f"O = {site.provider}" in row["subject"]
        size, version = row["page"].split()
        assert (int(size), version) == (server.page_bytes, "2" if server.http_version == "h2" else "1.1"), (
            region,
            host,
        )
        assert expected["h2c"].admits("accepted" if row["h2c"] else "not-accepted"), (region, host)


def test_settings_are_announced_as_configured(internet: Internet, rows: list[tuple[str, str, Seen]]) -> None:
    h2 = [(region, host, bytes.fromhex(row["frames"])) for region, host, row in rows if row["alpn"] == "h2"]
    assert {internet.site(host).program for _, host, _ in h2} >= {"nginx"}
    for region, host, frames in h2:
        expected = oracle(internet, region, host)
        length = int.from_bytes(frames[:3], "big")
        assert frames[3] == 4, (region, host)
        pairs = tuple(struct.unpack("!HI", frames[9 + i : 15 + i]) for i in range(0, length, 6))
        assert expected["h2_settings"].admits(pairs), (region, host, pairs)
        rest = frames[9 + length :]
        increment = int.from_bytes(rest[9:13], "big") if rest[3:4] == b"\x08" else None
        assert expected["h2_window_update"].admits(increment, reason=NOT_ANNOUNCED), (region, host, increment)
        assert (increment == H2LIB_WINDOW_UPDATE) == (internet.site(host).program == "h2lib")


def test_truth_is_hidden_and_vantages_are_not(looked: Seen) -> None:
    assert all(listed == [] for listed in looked["hidden"].values())
    vantages = tomllib.loads(looked["vantages"])["vantage"]
    assert [v["name"] for v in vantages] == [region.name for region in REGIONS]
    assert all(v["source_address"].endswith(".2") and v["netns"] == f"v-{v['name']}" for v in vantages)


def test_the_same_seed_sees_the_same_to_the_microsecond(tmp_path: Path) -> None:
    few = draw(SEED, SITES[:6], loss_percent=1.0)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        look(few, tmp_path / name)
    assert (tmp_path / "one/seen.json").read_bytes() == (tmp_path / "two/seen.json").read_bytes()


def test_lossy_links_lose(tmp_path: Path) -> None:
    script = "ip netns exec v-na ping -q -c 400 -i 0.05 10.62.11.1"
    _, console = boot(world(draw(SEED, SITES, loss_percent=5.0)), tmp_path, ["sh", "-c", script])
    received = int(console.split(" received")[0].rsplit(" ", 1)[1])
    # 0.95**2 of 400 are 361; ten are more than two standard deviations of it
    assert 345 <= received <= 377, console


def test_the_commands_exit_code_is_the_guests(tmp_path: Path) -> None:
    assert boot(world(draw(SEED, SITES[:4])), tmp_path, ["sh", "-c", "exit 7"])[0] == 7


def test_a_setting_that_reads_back_otherwise_ends_the_guest(tmp_path: Path) -> None:
    raised = world(draw(SEED, SITES[:4]))
    # the kernel takes it for five, and says "5"
    pool = replace(raised.server_pools[0], sysctls=(("net/ipv4/tcp_synack_retries", "05"),))
    code, console = boot(replace(raised, server_pools=(pool, *raised.server_pools[1:])), tmp_path, ["echo", "ran"])
    assert code == PRIVILEGE and "tcp_synack_retries is '5'" in console and "ran" not in console


def test_has_one_of_each(internet: Internet) -> None:
    servers = [(site.program, server) for site in internet.sites for server in site.servers]
    programs = {program for program, server in servers if server.http_version == "h2"}
    assert programs == {"nginx", "apache", "h2lib", "node"}
    assert any(server.h2c for _, server in servers) and any(server.page_bytes < 1000 for _, server in servers)
    assert {server.rto_min_ms for _, server in servers} == {50, 100, 200, 400, 1000}
    assert any(server.congestion_control == "bbr" and server.icw > 10 for _, server in servers)
    assert any(internet.server("au", site.host).synack_rto_ms < 400 for site in internet.sites)
    assert any(dict(server.extra_settings).get(UNKNOWN_SETTING) for _, server in servers)
    assert {plant.knob for plant in internet.plants} >= {"icw", "rwin", "synack_rto", "http_version"}
