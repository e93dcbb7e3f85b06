# SPDX-License-Identifier: MIT
"""Regions, operators and single differences say what the row of Table 2 says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.fingerprint.diversity import IN_COMMON, NOT_ASKED, bare, compare, diversity, why, wilson
from configtron.fingerprint.region_comparison import RegionDifference, operators, parameter
from configtron.model.nouns import Observation, Value


def seen(value: Value, grade: str = "B") -> Observation:
    return Observation("icw", value, unit="segments", grade=grade)


NOTHING = Observation("icw", reason="too-short")
VERDICTS = {
    "a": {"na": seen(10), "as": seen(4), "eu": seen(4)},
    "b": {"na": seen(10), "as": seen(10), "eu": seen(4, "C")},
    "c": {"na": NOTHING, "as": seen(4), "eu": seen(4)},
    "m": {"na": seen(10), "as": seen(4), "eu": seen(4)},
}


def test_a_parameter_region_by_region() -> None:
    found = parameter("icw", "na", ("na", "as", "eu"), VERDICTS, {"m"})
    here, asia, europe = found.regions
    assert (here.known, here.compared) == (2, 0)
    assert (asia.same, asia.differs, asia.undetermined, asia.compared) == (1, 1, 1, 2)
    assert (europe.same, europe.differs, europe.undetermined) == (0, 1, 2)
    assert asia.interval == wilson(1, 2)
    assert found.differences == (RegionDifference("icw", "a", "as", 10, 4), RegionDifference("icw", "a", "eu", 10, 4))
    assert found.obstacles == (("too-short", 1),)
    assert (found.unit, found.row) == ("segments", diversity("icw", "na", VERDICTS, {"m"}))


def test_operators_count_targets_and_not_differences() -> None:
    found = parameter("icw", "na", ("na", "as", "eu"), VERDICTS, {"m"})
    runs = {"a": "X", "b": "X", "c": "Y"}
    first, second = operators({"icw": VERDICTS}, [found], runs, "na")
    assert (first.name, first.targets, first.compared, first.differing) == ("X", ("a", "b"), 2, 1)
    assert first.differences == found.differences and first.interval == wilson(1, 2)
    assert (second.name, second.compared, second.differing, second.differences) == ("Y", 0, 0, ())


def test_why_a_pair_is_undetermined() -> None:
    torn = Observation("icw", 10, grade="B", trials=(seen(10, "C"), seen(4, "C")))
    assert why(None, seen(4)) == NOT_ASKED == why(seen(4), None)
    assert why(NOTHING, NOTHING) == "too-short" == why(seen(4), NOTHING)
    assert (why(seen(4, "L"), seen(4)), why(seen(4), seen(4, "C"))) == ("grade L", "grade C")
    assert compare(torn, seen(4)) == "undetermined" and why(torn, seen(4)) == IN_COMMON


VALUES = st.sampled_from([1.0, 1.1, 2.0, 10, 4, "absent"])
DETAILS = st.sampled_from([(), (("effective", 4),), (("class", 1.0), ("rtt", 0.2))])
TRIAL = st.builds(
    Observation, st.just("icw"), VALUES, unit=st.just("s"), grade=st.sampled_from("CL"), method=st.text(max_size=3),
    evidence=st.just((1, 2)), details=DETAILS,
)  # fmt: skip
VERDICT = st.one_of(
    st.just(NOTHING),
    st.builds(
        Observation,
        st.just("icw"),
        VALUES,
        unit=st.just("s"),
        grade=st.sampled_from("ABCL"),
        details=DETAILS,
        trials=st.lists(TRIAL, max_size=4).map(tuple),
    ),  # fmt: skip
)


@given(VERDICT, VERDICT)
def test_a_bare_verdict_compares_as_the_whole_one(here: Observation, there: Observation) -> None:
    assert compare(bare(here), bare(there)) == compare(here, there)
    assert why(bare(here), bare(there)) == why(here, there)


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
