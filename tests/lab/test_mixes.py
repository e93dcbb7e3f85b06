# SPDX-License-Identifier: MIT
"""Two servers behind one address: drawn as the table says, and met on the wire in the share that was set."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from configtron.lab.internet import truth
from configtron.lab.internet.draw import REGIONS, Internet, draw
from configtron.lab.internet.mixes import ServerMix, mixed
from configtron.lab.internet.sites import BASELINE, Site
from configtron.lab.internet.truth import oracle
from configtron.lab.internet.world import GuestInternet, world
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from tests.lab.test_world import boot

NAMES = [f"s{n}.example" for n in range(600)]
NA = REGIONS[0]
# Connections to each address: enough that a share of 40 % cannot be taken for none or for half of that.
TIMES = 200


@pytest.fixture(scope="module")
def internet() -> Internet:
    return draw(4, NAMES, impairments=True)


def sites_with(internet: Internet, impairment: str) -> list[Site]:
    return [site for site in internet.sites if any(server.impairment == impairment for server in site.servers)]


def test_faces_differ_in_what_the_mix_says_only(internet: Internet) -> None:
    for impairment, same, other in (
        ("mixed-icw", {"max_concurrent_streams", "initial_window_size"}, {"icw"}),
        ("mixed-settings", {"icw", "http_version"}, {"max_concurrent_streams", "initial_window_size"}),
        ("mixed-programs", {"icw", "http_version"}, {"program"}),
    ):
        found = sites_with(internet, impairment)
        assert found
        for server in (server for site in found for server in site.servers):
            assert server.other and server.other.address != server.address
            for name in same:
                assert getattr(server, name) == getattr(server.other, name), (impairment, name)
            assert all(getattr(server, name) != getattr(server.other, name) for name in other), impairment


def test_a_mix_abroad_is_in_one_region_and_never_in_the_baseline(internet: Internet) -> None:
    found = sites_with(internet, "mixed-abroad")
    assert len(found) >= 10
    for site in found:
        where = [region.name for region, server in zip(REGIONS, site.servers, strict=True) if server.other]
        assert len(where) == 1 and where != [BASELINE]
    assert len({site.servers.index(next(s for s in site.servers if s.other)) for site in found}) > 1


def test_the_oracle_admits_either_face_and_no_third(internet: Internet) -> None:
    site = sites_with(internet, "mixed-icw")[0]
    server = site.servers[0]
    assert server.other
    expected = oracle(internet, "na", site.host)
    assert set(expected["icw"].values) == {server.icw, server.other.icw}
    assert not expected["icw"].admits(server.icw + server.other.icw)
    assert expected["load_balancing"].values == ("mixed",)
    abroad = sites_with(internet, "mixed-abroad")[0]
    assert oracle(internet, BASELINE, abroad.host)["load_balancing"].values == ("one",)


def test_both_faces_survive_their_file_and_have_their_own_seats(internet: Internet) -> None:
    assert truth.from_json(truth.to_json(internet)) == internet
    addresses = [face.address for site in internet.sites for face in site.faces]
    assert len(addresses) == len(set(addresses))
    raised = world(internet)
    assert {setting.address for setting in raised.settings} == set(addresses)
    zones = next(text for name, text in raised.files if name == "zones.json")
    assert raised.second_backends
    assert all(f'"{second.other}"' not in zones and f'"{second.address}"' in zones for second in raised.second_backends)


# Runs inside: the size of the window that each connection is sent before it acknowledges anything cannot be seen from a
# socket, so this asks the server's program for its name, which a mix of programs changes.
ASK = """
import ctypes, json, socket, sys
asked = json.load(open(sys.argv[1]))
with open('/run/netns/v-na') as there:
    assert ctypes.CDLL(None).setns(there.fileno(), 0x40000000) == 0
found = {}
for address in asked['addresses']:
    names = []
    for _ in range(asked['times']):
        with socket.create_connection((address, 80), 10) as s:
            s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
            data = b''
            while b'\\r\\n\\r\\n' not in data:
                data += s.recv(4096)
            names.append('nginx' if b'Server: nginx' in data else 'apache')
    found[address] = names
json.dump(found, open(sys.argv[2], 'w'))
"""


def raised_mix() -> tuple[GuestInternet, Site, Site]:
    """A mixed site and a plain one, in one region."""
    drawn = draw(1, [f"s{n}.example" for n in range(40)], (NA,), impairments=True)
    calm = (site for site in drawn.sites if site.program == "nginx" and not site.servers[0].impairment)
    plain, site, *_ = (site for site in calm if not site.servers[0].stack)
    two = mixed(random.Random(1), site, ServerMix("program", 40), (NA,))
    first = two.servers[0]
    assert first.other
    other = replace(first.other, address="10.12.255.9")
    two = replace(two, servers=(replace(first, other=other),))
    return world(replace(drawn, sites=(plain, two), plants=())), plain, two


@pytest.mark.lab
@pytest.mark.root
def test_connections_are_shared_out_by_hash(tmp_path: Any) -> None:
    raised, plain, two = raised_mix()
    addresses = [plain.servers[0].address, two.servers[0].address]
    (tmp_path / "asked.json").write_text(json.dumps({"addresses": addresses, "times": TIMES}))
    (tmp_path / "ask.py").write_text(ASK)
    places = (f"{GUEST_OUTPUT}/{name}" for name in ("ask.py", "asked.json", "seen.json"))
    code, console = boot(raised, tmp_path, [sys.executable, *places])
    assert code == 0, console[-3000:]
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert Counter(seen[addresses[0]]) == {"nginx": TIMES}
    share = Counter(seen[addresses[1]])["apache"] / TIMES
    assert 0.3 < share < 0.5
    # neighbouring ports are not led to one server in long rows
    assert max(len(row) for row in "".join(name[0] for name in seen[addresses[1]]).split("n")) < 12
