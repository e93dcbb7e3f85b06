# SPDX-License-Identifier: MIT
"""The longest logged prefix around an address: by the long way round, and for words that are no address."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from configtron.learner.prefixes import longest, network_of


def drawn(bits: int) -> st.SearchStrategy[str]:
    """Prefixes of all lengths up to 12, so that many hold the same address."""
    return st.builds(
        lambda at, n: str(ip_network((at << (bits - 8), n), strict=False)), st.integers(0, 255), st.integers(0, 12)
    )


@given(st.lists(drawn(32) | drawn(128)), st.integers(0, 255), st.booleans())
def test_it_is_the_longest_of_those_that_hold_the_address(prefixes: list[str], at: int, six: bool) -> None:
    address = ip_address((at << 120) + 5) if six else ip_address((at << 24) + 5)
    asked = network_of(str(address))
    assert asked is not None
    holding = [prefix for prefix in prefixes if address in ip_network(prefix)]
    found = longest(asked, prefixes)
    most = max((ip_network(prefix).prefixlen for prefix in holding), default=0)
    assert found == tuple(prefix for prefix in holding if ip_network(prefix).prefixlen == most)


def test_prefixes_stay_as_they_were_logged() -> None:
    logged = ("192.0.2.7/24", " 198.51.100.0/24", "2001:DB8:0::/48", "::ffff:203.0.113.0/120", "house 7", "fe80::%1/64")
    for asked, prefix in (
        ("192.0.2.9", logged[0]), ("198.51.100.1", logged[1]), ("2001:db8::1", logged[2]), ("203.0.113.5", logged[3]),
        ("fe80::1", ""), ("192.0.3.9", ""), ("192.0.2.0/23", ""),
    ):  # fmt: skip
        network = network_of(asked)
        assert network is not None and longest(network, logged) == ((prefix,) if prefix else ()), asked
    network = network_of("192.0.2.9")
    spelt = ("192.0.2.7/24", "192.0.0.0/16", "192.0.2.0/24", "::ffff:192.0.2.1/120")
    assert network is not None and longest(network, spelt) == (spelt[0], *spelt[2:]), "one network, three times"
    for word in ("house 7", "fe80::1%eth0", "", "192.0.2.7/33", "\udcff"):
        assert network_of(word) is None
    both = network_of("::ffff:192.0.2.0/100")
    assert both is not None and str(both) == "192.0.0.0/4", "IPv4 inside IPv6 is IPv4"
