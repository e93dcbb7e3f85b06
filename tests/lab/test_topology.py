# SPDX-License-Identifier: MIT
"""IPv6 in a raised world: the same servers, by the other family, seen by tools that are not the product's."""

from __future__ import annotations

import json
import sys
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from configtron.lab.internet.addresses import bracketed, six, six_prefix
from configtron.lab.internet.draw import REGIONS, draw
from configtron.lab.internet.sites import PROGRAM_OCTET
from configtron.lab.internet.world import read, world
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from tests.lab.test_world import boot

NAMES = [f"s{n}.example" for n in range(60)]
NA = REGIONS[0]


def test_each_address_has_one_other() -> None:
    assert six("10.11.16.200") == "fd10:b:10::c8"
    assert six_prefix("10.11.0.0/16") == "fd10:b::/32" and six_prefix("10.11.16.0/20") == "fd10:b:10::/44"
    assert six_prefix("10.60.1.0/24") == "fd10:3c:1::/48"
    assert (bracketed("fd10::1"), bracketed("10.0.0.1")) == ("[fd10::1]", "10.0.0.1")


@pytest.mark.parametrize("prefix", ["10.11.0.0/16", "10.11.16.0/20", "10.14.224.0/20", "10.60.5.0/24"])
def test_a_prefix_holds_the_others_of_its_own_and_no_neighbours(prefix: str) -> None:
    four, other = ip_network(prefix), ip_network(six_prefix(prefix))
    assert all(ip_address(six(str(four[n]))) in other for n in (1, four.num_addresses - 2))
    assert ip_address(six(str(four[0] - 1))) not in other
    assert ip_address(six(str(four[-1] + 1))) not in other


def test_worlds_have_one_family_unless_asked(tmp_path: Path) -> None:
    plain, both = world(draw(2, NAMES[:8])), world(draw(2, NAMES[:8], versions=(6,)))
    assert plain.versions == (4,) and both.versions == (4, 6)
    assert not any(":" in setting.address for setting in plain.settings)
    assert len(both.settings) == 2 * len(plain.settings)
    assert all(vantage.source_address6 for vantage in both.vantages)
    assert not any(vantage.source_address6 for vantage in plain.vantages)
    both.write(tmp_path / "world.json")
    assert read(tmp_path / "world.json") == both


# A curl by name of the family's address, from North America, through the region's own name server.
ASK = """
import json, subprocess, sys
import dns.message, dns.query, ctypes
asked = json.load(open(sys.argv[1]))
with open('/run/netns/v-na') as there:
    assert ctypes.CDLL(None).setns(there.fileno(), 0x40000000) == 0
found = {}
for host in asked['hosts']:
    row = found[host] = {}
    for kind in ('A', 'AAAA'):
        answer = dns.query.udp(dns.message.make_query(host, kind), asked['resolver'], timeout=5)
        address = row[kind] = answer.answer[0][0].address
        place = f'[{address}]' if ':' in address else address
        for scheme in ('http', 'https'):
            form = '%{http_code} %{size_download} %{time_connect}'
            curl = ['curl', '-gsk', '-m', '10', '-o', '/dev/null', '-w', form, f'{scheme}://{place}/']
            row[kind + scheme] = subprocess.run(curl, capture_output=True, text=True).stdout
json.dump(found, open(sys.argv[2], 'w'))
"""


@pytest.mark.lab
@pytest.mark.root
def test_every_program_answers_both_families_alike(tmp_path: Path) -> None:
    internet = draw(2, NAMES, (NA,), versions=(4, 6))
    sites = {site.program: site for site in internet.sites}
    assert set(sites) == set(PROGRAM_OCTET) - {"odd"}
    raised = world(internet, [site.host for site in sites.values()])
    hosts = [site.host for site in sites.values()]
    (tmp_path / "asked.json").write_text(json.dumps({"hosts": hosts, "resolver": raised.links[0].resolver}))
    (tmp_path / "ask.py").write_text(ASK)
    places = (f"{GUEST_OUTPUT}/{name}" for name in ("ask.py", "asked.json", "seen.json"))
    code, console = boot(raised, tmp_path, [sys.executable, *places])
    assert code == 0, console[-3000:]
    for host, row in json.loads((tmp_path / "seen.json").read_text()).items():
        server = internet.server("na", host)
        assert (row["A"], row["AAAA"]) == (server.address, six(server.address))
        for kind in ("Ahttp", "Ahttps", "AAAAhttp", "AAAAhttps"):
            status, size, connected = row[kind].split()
            assert (status, int(size)) == ("200", server.page_bytes), (host, kind)
            assert float(connected) == pytest.approx(NA.rtt_ms / 1000, abs=0.001), (host, kind)
