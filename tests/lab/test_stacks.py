# SPDX-License-Identifier: MIT
"""Stacks on the wire: each namespace agrees to what its row says, and to nothing else."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from configtron.lab.internet.draw import REGIONS, draw
from configtron.lab.internet.sites import PROGRAM_OCTET, octet, prefix
from configtron.lab.internet.stacks import NAMED, PROGRAM, STACKS
from configtron.lab.internet.truth import oracle
from configtron.lab.internet.world import world
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from tests.lab.test_world import LOOK, boot

NA = REGIONS[0]
# Of look.py: a SYN left alone, one that offers everything, one with timestamps; and its columns.
ALONE, STAMPED, ASKING, FEATURED = "20000", "30000", "40000", "50000"
FLAGS, LENGTH, WINDOW, SCALE, OPTIONS = 1, 3, 4, 5, 8
SYN_ACK, ECE = 0x12, 0x40


def test_no_two_farms_share_addresses() -> None:
    octets = [*PROGRAM_OCTET.values(), *(stack.octet for stack in NAMED)]
    assert len(octets) == len(set(octets))
    assert octet("nginx") == PROGRAM_OCTET["nginx"] != octet("nginx", "cookies") == STACKS["cookies"].octet
    assert str(prefix("nginx", 50, 1460, "no-sack")[0]) == "10.22.0.0"


def test_shares_are_dealt_among_the_programs_sites() -> None:
    internet = draw(3, [f"s{n}.example" for n in range(1000)], impairments=True)
    sites = [site for site in internet.sites if any(server.stack for server in site.servers)]
    assert {site.program for site in sites} == {PROGRAM}
    found = Counter(site.servers[0].stack for site in sites if not site.servers[0].impairment)
    assert {stack.name for stack in NAMED if stack.share} == set(found)
    assert {server.stack for site in draw(3, ["a.example"]).sites for server in site.servers} == {""}


def test_only_raised_where_needed() -> None:
    raised = world(draw(3, [f"s{n}.example" for n in range(20)]))
    assert {pool.name for pool in raised.server_pools} <= set(PROGRAM_OCTET)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[list[Any]]]]:
    """Stack -> flow of look.py -> packets."""
    drawn = draw(1, [f"s{n}.example" for n in range(40)], (NA,))
    site = next(site for site in drawn.sites if site.program == PROGRAM)
    server = replace(site.servers[0], icw=10, synack_rto_ms=1000, rto_min_ms=200, advmss=1460, rwin_packets=20)
    sites = []
    for n, stack in enumerate(STACKS.values()):
        first, _ = prefix(PROGRAM, 200, 1460, stack.name)
        host = replace(server, stack=stack.name, address=str(first + 1 + n))
        sites.append(replace(site, host=f"{stack.name or 'plain'}.example", servers=(host,)))
    internet = replace(drawn, sites=tuple(sites), plants=())
    raised = world(internet)
    link = raised.links[0]
    output = tmp_path_factory.mktemp("stacks")
    gateway = f"02:00:00:3c:{link.number:02x}:02"
    vantage = {"name": link.name, "source_address": link.prober_address, "gateway_mac": gateway}
    names = {site.servers[0].address: site.servers[0].stack for site in sites}
    ports = [int(port) for port in (ALONE, STAMPED, ASKING, FEATURED)]
    (output / "asked.json").write_text(
        json.dumps({"vantage": vantage, "addresses": list(names), "ports": ports, "listen_s": 4.0})
    )
    places = (f"{GUEST_OUTPUT}/asked.json", f"{GUEST_OUTPUT}/seen.json")
    code, console = boot(raised, output, [sys.executable, str(LOOK), *places])
    assert code == 0, console[-3000:]
    found: dict[str, dict[str, list[list[Any]]]] = {}
    for flow, packets in json.loads((output / "seen.json").read_text()).items():
        address, port = flow.split("/")
        found.setdefault(names[address], {})[port] = packets[1:]
    for site in sites:
        expected = oracle(internet, "na", site.host)
        flows = found[site.servers[0].stack]
        assert expected["rwin"].admits(flows[ALONE][0][WINDOW]), site.host
        assert expected["rwin_ts"].admits(flows[STAMPED][0][WINDOW]), site.host
    return found


def kinds(options: str) -> list[int]:
    """The kinds of a SYN-ACK's options, without padding."""
    data, found = bytes.fromhex(options), []
    while data and data[0]:
        if data[0] == 1:
            data = data[1:]
        else:
            found.append(data[0])
            data = data[data[1] :]
    return found


@pytest.mark.lab
@pytest.mark.root
@pytest.mark.parametrize("name", STACKS, ids=lambda name: name or "plain")
def test_each_agrees_to_what_its_row_says(name: str, seen: dict[str, dict[str, list[list[Any]]]]) -> None:
    stack, flows = STACKS[name], seen[name]
    synack = flows[FEATURED][0]
    offered = kinds(synack[OPTIONS])
    assert (4 in offered, 8 in offered, 3 in offered, 34 in offered) == (
        stack.sack, stack.timestamps, stack.scaling, stack.tfo,
    )  # fmt: skip
    assert bool(synack[FLAGS] & ECE) == stack.ecn
    repeats = [packet for packet in flows[ALONE] if packet[FLAGS] == SYN_ACK]
    assert (len(repeats) == 1) == stack.cookies
    # whatever was agreed, the page comes, in the window that was set
    assert max(packet[LENGTH] for packet in flows[ASKING]) == 536 - 12 * stack.timestamps
