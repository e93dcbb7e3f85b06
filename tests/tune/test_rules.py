# SPDX-License-Identifier: MIT
"""Rules: one way to write them, the kernel's way to look them up, and differences that lead where they say."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.model.tuning import Reach, Rules
from configtron.tune.rules import after, canonical, check, difference, lookup

NAMES = ("a", "b", "c")
PROFILES = {name: Profile(name, (("initcwnd", position + 1),)) for position, name in enumerate(NAMES)}

prefixes = st.dictionaries(
    st.builds(
        lambda bits, length: str(ip_network((bits & 0xFF00FFFF, length), strict=False)),
        st.integers(0, 2**32 - 1),
        st.integers(0, 32),
    ),
    st.sampled_from(NAMES),
    max_size=12,
)
rules = st.builds(Rules, st.just(PROFILES), prefixes, st.sampled_from(("", *NAMES)))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("192.0.2.0/24", "192.0.2.0/24"),
        (" 192.0.2.7", "192.0.2.7/32"),
        ("2001:DB8:0::/48", "2001:db8::/48"),
        ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
        ("::/0", "::/0"),
    ],
)
def test_a_prefix_is_written_one_way(written: str, meant: str) -> None:
    assert canonical(written) == meant


@given(
    st.lists(st.sampled_from(["0", "00", "01", "1", "128", "255", "256", "\u0663"]), min_size=4, max_size=4),
    st.sampled_from(["0", "08", "8", "16", "24", "31", "32", "33", ""]),
)
def test_the_short_way_to_a_prefix_is_that_of_ipaddress(octets: list[str], length: str) -> None:
    written = f"{'.'.join(octets)}/{length}"
    try:
        meant = str(ip_network(written))
    except ValueError:
        with pytest.raises(BadInput):
            canonical(written)
    else:
        assert canonical(written) == meant


@pytest.mark.parametrize(
    "written",
    ["192.0.2.1/24", "example.org", "", "192.0.2.0/33", "2001:db8::1/48", "fe80::%eth0", "fe80::%x;\nevil;#/128"],
)
def test_what_is_no_prefix_is_refused(written: str) -> None:
    with pytest.raises(BadInput, match="is no prefix"):
        canonical(written)


def test_names_without_a_profile_are_refused() -> None:
    with pytest.raises(BadInput, match="no profile is called 'z'"):
        check(Rules(PROFILES, {"192.0.2.0/24": "z"}))
    with pytest.raises(BadInput, match="no profile is called 'y'"):
        check(Rules(PROFILES, default="y"))


@pytest.mark.slow
@given(rules, st.integers(0, 2**32 - 1))
def test_the_longest_prefix_wins(held: Rules, bits: int) -> None:
    address = ip_address(bits & 0xFF00FFFF)
    holding = [prefix for prefix in held.prefixes if address in ip_network(prefix)]
    best = max(holding, key=lambda prefix: ip_network(prefix).prefixlen, default=None)
    name = held.prefixes[best] if best else held.default
    assert lookup(held, str(address)) == (PROFILES[name] if name else None)
    assert lookup(held, f"::ffff:{address}") == lookup(held, str(address))


@given(rules, rules)
def test_a_difference_leads_where_it_says(have: Rules, want: Rules) -> None:
    changes = difference(have, want)
    assert after(have, changes) == want
    assert bool(changes) == (have != want)


@pytest.mark.slow
@given(rules, rules)
def test_a_difference_says_nothing_twice(have: Rules, want: Rules) -> None:
    changes = difference(have, want)
    assert not [prefix for prefix, name in changes.prefixes.items() if have.prefixes.get(prefix) == name]
    assert changes.dropped_prefixes <= have.prefixes.keys()


def test_reach() -> None:
    assert Reach("initcwnd", least=1, most=1000).takes(10)
    assert not Reach("initcwnd", least=1, most=1000).takes(0)
    assert not Reach("initcwnd", least=1).takes("ten")
    assert Reach("pacing", values=("pfifo_fast", "fq")).takes("fq")
    assert not Reach("pacing", values=("pfifo_fast", "fq")).takes("on")
