# SPDX-License-Identifier: MIT
"""Rules: one way to write them, also by columns, the kernel's way to look them up, differences that lead there."""

from __future__ import annotations

from ipaddress import IPv4Network, ip_address, ip_network
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.errors import BadInput
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Reach, Rules
from configtron.tune.ipv4_columns import format_ipv4, parse_ipv4
from configtron.tune.rules import after, canonical, check, difference, lookup

NAMES = ("a", "b", "c")
PROFILES = {name: Profile(name, (("initcwnd", position + 1),)) for position, name in enumerate(NAMES)}

BITS = (st.integers(0, 2**32 - 1), st.integers(0, 32))
prefixes = st.dictionaries(
    st.builds(lambda bits, length: str(ip_network((bits & 0xFF00FFFF, length), strict=False)), *BITS),
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


ODD = (
    "0.0.0.0/0 1.2.3.4/32 255.255.255.255/32 1.2.3.4 010.0.0.0/8 00.0.0.0/8 10.0.0.0/33 10.0.0.0/08 10.0.0.1/24 "
    "256.0.0.0/8 999.0.0.0/8 ::/0 ::ffff:1.2.3.0/120 1.2.3./24 1..2.3/4 .1.2.3/1 1.2.3.4/ 1/2.3.4.0 1.2.3.0.0/24 "
    "1234.0.0.0/8 1.2.3.0/024 1.2.3.0/2x default a.b.c.d/8 1.2.3.0/240 1.2.3.0/24/ -1.2.3.0/24"
).split()


def is_ipv4(text: str) -> bool:
    try:
        return canonical(text) == text and ":" not in text
    except BadInput:
        return False


@pytest.mark.parametrize("seed", range(3))
def test_they_are_taken_as_one_by_one(seed: int) -> None:
    random = Random(seed)
    letters = ["".join(random.choices("0123456789./", k=random.randrange(1, 19))) for _ in range(2000)]
    near = [str(IPv4Network((random.getrandbits(32), random.randrange(33)), strict=False)) for _ in range(2000)]
    broken = [one.replace(random.choice(one), random.choice("01239./"), 1) for one in near]
    texts = [*ODD, *letters, *near, *broken]
    found = parse_ipv4(np.array([text.encode() for text in texts]))
    right = [text for text in texts if is_ipv4(text)]
    assert [text for text, taken in zip(texts, found.rows, strict=True) if taken] == right
    networks = [IPv4Network(text) for text in right]
    assert found.addresses.tolist() == [int(one.network_address) for one in networks]
    assert found.lengths.tolist() == [one.prefixlen for one in networks]
    assert [text.decode() for text in format_ipv4(found.addresses, found.lengths).tolist()] == right


def test_none_is_none() -> None:
    found = parse_ipv4(np.array([b"::/0"]))
    assert not found.rows.any() and len(format_ipv4(found.addresses, found.lengths)) == 0


@pytest.mark.parametrize("wrong", [Rules(PROFILES, {"192.0.2.0/24": "z"}), Rules(PROFILES, default="z")])
def test_names_without_a_profile_are_refused(wrong: Rules) -> None:
    with pytest.raises(BadInput, match="no profile is called 'z'"):
        check(wrong)


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
    assert not [prefix for prefix, name in changes.prefixes.items() if have.prefixes.get(prefix) == name]
    assert changes.dropped_prefixes <= have.prefixes.keys()


@pytest.mark.parametrize(
    ("reach", "value", "taken"),
    [
        (Reach("initcwnd", least=1, most=1000), 10, True),
        (Reach("initcwnd", least=1, most=1000), 0, False),
        (Reach("initcwnd", least=1), "ten", False),
        (Reach("pacing", values=("pfifo_fast", "fq")), "fq", True),
        (Reach("pacing", values=("pfifo_fast", "fq")), "on", False),
        (Reach("pacing", values=("fq", "lp"), refused=(("lp", "it needs ECN"),)), "lp", False),
    ],
)
def test_reach(reach: Reach, value: Value, taken: bool) -> None:
    assert reach.takes(value) == taken
