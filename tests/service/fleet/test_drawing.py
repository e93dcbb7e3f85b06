# SPDX-License-Identifier: MIT
"""Which arm clients of a record's prefix have under a map of wider and longer prefixes; what of a map may be drawn."""

from __future__ import annotations

from configtron.model.draw import Key, Mix, Plan, draw
from configtron.model.fleet import Band, FleetMap
from configtron.model.nouns import Profile
from configtron.service.fleet.drawing import DrawnPrefixes, prefix_unit
from configtron.service.fleet.map_maker import FixedMapMaker, without_barred

MIXES = {"near": Mix(("fast", "slow"), (32_768, 32_768)), "far": Mix(("slow",), (65_536,))}
PLAN = Plan(Key(3, 4), 7, 0, 6_554)


def test_the_longest_prefix_of_the_map_is_drawn_for() -> None:
    prefixes = {"10.0.0.0/8": "far", "10.1.0.0/16": "near", "10.1.2.0/24": "far", "2001:db8::/32": "near"}
    found = DrawnPrefixes(PLAN, MIXES, prefixes)
    for prefix, of in (("10.1.3.0/24", "10.1.0.0/16"), ("10.1.2.0/24", "10.1.2.0/24"), ("10.9.9.0/24", "10.0.0.0/8"),
                       ("2001:db8:5::/48", "2001:db8::/32")):  # fmt: skip
        seen, drawn = found(prefix), draw(PLAN, MIXES[prefixes[of]], prefix_unit(of))
        assert seen is not None and (seen.class_name, seen.prefix) == (prefixes[of], of)
        assert (seen.arm, seen.held) == (drawn.arm, drawn.held)
    outside = found("192.0.2.0/24")
    assert outside is not None and outside.class_name == "" and outside.arm is None


def test_a_prefix_in_which_longer_ones_lie_is_not_guessed() -> None:
    found = DrawnPrefixes(PLAN, MIXES, {"10.1.2.128/25": "near", "2001:db8:1:2::/64": "near", "10.0.0.0/8": "far"})
    assert found("10.1.2.0/24") is None and found("2001:db8:1::/48") is None
    assert found("10.1.3.0/24") is not None


def test_barred_profiles_leave_a_map_before_it_is_made() -> None:
    profiles = {"fast": Profile("fast", (("initcwnd", 40),)), "slow": Profile("slow")}
    mixes = {"near": (("fast", 65_000), ("slow", 536)), "far": (("fast", 65_536),)}
    found = FleetMap(0, 0, profiles, mixes, {"192.0.2.0/24": "near", "10.0.0.0/8": "far"}, b"k" * 16, 1,
                     (Band(9, "near"), Band(99, "far")))  # fmt: skip
    maker = FixedMapMaker(found)
    made = maker.make(10**9, lambda profile: "beyond a bound" if profile.name == "fast" else "")
    assert made is not None and made.mixes == {"near": (("slow", 65_536),)} and set(made.profiles) == {"slow"}
    assert made.prefixes == {"192.0.2.0/24": "near"} and made.bands == (Band(9, "near"),)
    assert made.not_after_ns == 3601 * 10**9
    assert maker.make(2 * 10**9, lambda profile: "x" if profile.name == "fast" else "") is None
    assert without_barred(found, lambda _: "") is found
    for text, rows in (("", "0"), ("7", "7")):
        maker.restore(text)
        assert maker.save() == rows
