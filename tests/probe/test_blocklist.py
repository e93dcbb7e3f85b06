# SPDX-License-Identifier: MIT
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.errors import BadInput
from configtron.probe.blocklist import Blocklist
from configtron.probe.special import SPECIAL
from configtron.probe.targets import Source

DEFAULT = Blocklist()
addresses = st.ip_addresses().map(str)


@pytest.mark.parametrize("block", [block for block, _, _ in SPECIAL])
def test_each_special_range_is_blocked_to_its_edges(block: str) -> None:
    network = ip_network(block)
    assert DEFAULT.address(str(network.network_address))
    assert DEFAULT.address(str(network.broadcast_address))


def test_the_reason_names_the_document() -> None:
    assert DEFAULT.address("192.168.1.1") == "192.168.0.0/16 (private use, RFC 1918)"


@pytest.mark.parametrize("address", "1.1.1.1 9.255.255.255 11.0.0.0 172.32.0.0 223.255.255.255 2606:4700::1".split())
def test_public_addresses_are_free(address: str) -> None:
    assert DEFAULT.address(address) == ""


@given(addresses)
def test_agrees_with_a_search_through_the_table(address: str) -> None:
    parsed = ip_address(address)
    blocked = any(parsed in ip_network(block) for block, _, _ in SPECIAL)
    assert bool(DEFAULT.address(address)) == blocked


@given(addresses)
def test_what_python_calls_private_is_blocked(address: str) -> None:
    parsed = ip_address(address)
    if parsed.is_private or parsed.is_multicast or parsed.is_reserved and parsed.version == 4:
        assert DEFAULT.address(address)


FILE = Source("blocked.txt", "# by mail\n1.2.3.0/24\n2606:4700::/32 # v6\n*.example.org\n4.4.4.4\n")


def test_files_of_addresses_blocks_and_names() -> None:
    blocklist = Blocklist([FILE])
    assert blocklist.address("1.2.3.4") == "1.2.3.0/24 (blocked.txt:2)"
    assert blocklist.address("4.4.4.4") and not blocklist.address("4.4.4.5")
    assert blocklist.host("a.b.example.org") == "example.org (blocked.txt:4)"
    assert blocklist.host("Example.ORG.") and not blocklist.host("notexample.org")
    assert blocklist.host("2606:4700::1") == "2606:4700::/32 (blocked.txt:3)"
    assert blocklist.host("127.0.0.1").startswith("127.0.0.0/8")


def test_a_lab_has_no_special_ranges() -> None:
    assert Blocklist([FILE], special=False).address("10.0.0.1") == ""
    assert Blocklist([FILE], special=False).address("1.2.3.4")


def test_allowlist_exempts_from_special_but_not_from_blocklist() -> None:
    blocklist = Blocklist([FILE], allowed=[Source("allow.txt", "10.0.0.0/8\n1.2.3.0/24\n")])
    assert blocklist.address("10.1.2.3") == ""
    assert blocklist.address("1.2.3.4") == "1.2.3.0/24 (blocked.txt:2)"
    assert blocklist.address("8.8.8.8") == "not in the allowlist"


@pytest.mark.parametrize("line", ["300.1.1.1", "1.2.3.4/40", "a b", "::g", "-"])
def test_bad_lines_say_where(line: str) -> None:
    with pytest.raises(BadInput, match="^b.txt:2: "):
        Blocklist([Source("b.txt", f"\n{line}")])


@pytest.mark.slow
@given(st.text(max_size=40) | st.text(alphabet="a.:/0123456789*-#", max_size=30))
def test_any_text_is_a_list_or_bad_input(text: str) -> None:
    try:
        Blocklist([Source("f", text)])
    except BadInput:
        pass
