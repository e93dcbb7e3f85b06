# SPDX-License-Identifier: MIT
"""Verdicts of regions compared: when two differ, and what rows, regions and operators say of many."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.fingerprint.diversity import (
    IN_COMMON,
    NOT_ASKED,
    RegionDifference,
    ValueShare,
    bare,
    compare,
    diversity,
    in_force,
    is_mixed,
    why,
    wilson,
)  # fmt: skip
from configtron.fingerprint.region_comparison import operators, parameter
from configtron.model.nouns import Observation, Value


def seen(value: Value, grade: str = "B", unit: str = "segments", **more: Any) -> Observation:
    return Observation("icw", value, unit=unit, grade=grade, **more)


NOTHING = Observation("icw", reason="too-short")
# Two of three runs found 10, one found 4, as all find elsewhere: servers take turns, or packets were lost.
TORN = seen(10, trials=(seen(10, "C"), seen(10, "C"), seen(4, "C")))
BOUND = seen(10, trials=(seen(10, "C"), seen(4, "L")))
# What is not announced stands for its default.
SILENT = seen("absent", "A", details=(("effective", 16384),))


@pytest.mark.parametrize(("here", "there", "outcome"), [
    (seen(10), seen(10, "A"), "same"), (seen(10), seen(4), "differs"), (seen(10), seen(4, "C"), "grade C"),
    (seen(10, "L"), seen(4), "grade L"), (seen(10), NOTHING, "too-short"), (NOTHING, NOTHING, "too-short"),
    (None, seen(10), NOT_ASKED), (seen(1.0, unit="s"), seen(1.1, unit="s"), "same"),
    (seen(1.0, unit="s"), seen(1.3, unit="s"), "differs"), (seen((1, 2)), seen((2, 1)), "differs"),
    (TORN, seen(4), IN_COMMON), (TORN, seen(24), "differs"), (TORN, seen(10), "same"), (BOUND, seen(4), "differs"),
    (SILENT, seen(16384, "A"), "same"),
])  # fmt: skip
def test_when_two_settings_differ(here: Observation | None, there: Observation | None, outcome: str) -> None:
    compared = outcome if outcome in ("same", "differs") else "undetermined"
    assert compare(here, there) == compared == compare(there, here)
    assert compared != "undetermined" or why(here, there) == outcome == why(there, here)


def test_one_witness_makes_a_target_mixed() -> None:
    assert is_mixed({"load_balancing": Observation("load_balancing", "mixed", grade="C")})
    assert not is_mixed({"load_balancing": Observation("load_balancing", "one", grade="A")})
    assert not is_mixed({"icw": seen(10)}) and in_force(SILENT) == 16384


VALUES = st.sampled_from([1.0, 1.1, 2.0, 3.0, 10, 4, "absent"])
DETAILS = st.sampled_from([(), (("effective", 4),), (("class", 1.0), ("rtt", 0.2))])


def observations(grades: str, **more: Any) -> st.SearchStrategy[Observation]:
    return st.builds(Observation, st.just("icw"), VALUES, unit=st.just("s"), grade=st.sampled_from(grades),
                     details=DETAILS, **more)  # fmt: skip


TRIAL = observations("CL", method=st.text(max_size=3), evidence=st.just((1, 2)))
VERDICT = st.just(NOTHING) | observations("ABCL", trials=st.lists(TRIAL, max_size=4).map(tuple))


@given(VERDICT, VERDICT)
def test_comparing_has_no_direction_and_a_bare_verdict_compares_as_the_whole(
    here: Observation, there: Observation
) -> None:
    assert compare(here, there) == compare(there, here) == compare(bare(here), bare(there))
    assert why(bare(here), bare(there)) == why(here, there)
    assert compare(here, here) == ("same" if here.grade in "AB" else "undetermined")


@pytest.mark.parametrize(("hits", "of", "low", "high"), [
    (0, 0, 0.0, 1.0), (69, 1000, 0.05489, 0.08640), (0, 100, 0.0, 0.03699),
])  # fmt: skip
def test_wilson_by_hand(hits: int, of: int, low: float, high: float) -> None:
    assert wilson(hits, of) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(0, 500), st.integers(0, 500))
def test_wilson_holds_the_share(hits: int, misses: int) -> None:
    low, high = wilson(hits, hits + misses)
    assert 0 <= low <= high <= 1
    assert not hits + misses or low - 1e-12 <= hits / (hits + misses) <= high + 1e-12


def test_a_row_of_table_2() -> None:
    row = diversity(
        "icw",
        "na",
        {
            "a": {"na": seen(10), "as": seen(10), "eu": seen(10)},
            "b": {"na": seen(24), "as": seen(10), "eu": seen(24)},
            "c": {"na": seen(10), "as": NOTHING, "eu": seen(4, "C")},
            "d": {"na": NOTHING, "as": seen(4)},
            "e": {"na": seen(10), "as": seen(10)},
        },
    )
    assert row.shares == (ValueShare(10, 3, 0.75), ValueShare(24, 1, 0.25))
    assert (row.known, row.compared, row.differing, row.undetermined) == (4, 3, 1, 2)
    assert (row.low, row.high) == wilson(1, 3)
    assert row.example == RegionDifference("icw", "b", "as", 24, 10)
    timers = {name: {"na": Observation("rto", t, unit="s", grade="B")} for name, t in (("a", 0.98), ("b", 1.04))}
    assert diversity("rto", "na", timers).shares == (ValueShare(1.0, 2, 1.0),), "timers are counted in tenths"


VERDICTS = {
    "a": {"na": seen(10), "as": seen(4), "eu": seen(4)}, "b": {"na": seen(10), "as": seen(10), "eu": seen(4, "C")},
    "c": {"na": NOTHING, "as": seen(4), "eu": seen(4)}, "m": {"na": seen(10), "as": seen(4), "eu": seen(4)},
}  # fmt: skip


def test_regions_and_operators_count_targets_and_mixed_ones_stand_apart() -> None:
    found = parameter("icw", "na", ("na", "as", "eu"), VERDICTS, {"m"})
    here, asia, europe = found.regions
    assert (here.known, here.compared) == (2, 0)
    assert (asia.same, asia.differs, asia.undetermined, asia.compared) == (1, 1, 1, 2)
    assert (europe.same, europe.differs, europe.undetermined) == (0, 1, 2)
    assert asia.interval == wilson(1, 2)
    assert found.differences == (RegionDifference("icw", "a", "as", 10, 4), RegionDifference("icw", "a", "eu", 10, 4))
    assert found.obstacles == (("too-short", 1),)
    assert (found.unit, found.row) == ("segments", diversity("icw", "na", VERDICTS, {"m", "elsewhere"}))
    assert (found.row.known, found.row.compared, found.row.differing, found.row.undetermined, found.row.mixed) == (
        2, 2, 1, 1, 1
    )  # fmt: skip
    first, second = operators({"icw": VERDICTS}, [found], {"a": "X", "b": "X", "c": "Y"}, "na")
    assert (first.name, first.targets, first.compared, first.differing) == ("X", ("a", "b"), 2, 1)
    assert first.differences == found.differences and first.interval == wilson(1, 2)
    assert (second.name, second.compared, second.differing, second.differences) == ("Y", 0, 0, ())


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from("abcdef"), st.dictionaries(st.sampled_from(["na", "eu", "as"]), VERDICT)))
def test_the_parts_add_up(verdicts: dict[str, dict[str, Observation]]) -> None:
    found = parameter("icw", "na", ("na", "as", "eu"), verdicts, {"f"})
    here, *others = found.regions
    assert (here.known, here.shares) == (found.row.known, found.row.shares)
    assert sum(region.differs for region in others) == len(found.differences)
    assert len({each.target for each in found.differences}) == found.row.differing
    assert sum(n for _, n in found.obstacles) == found.row.undetermined
    assert all(region.differs + region.same <= region.compared <= len(verdicts) for region in others)
