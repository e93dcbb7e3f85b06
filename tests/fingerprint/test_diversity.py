# SPDX-License-Identifier: MIT
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.fingerprint.diversity import Example, ValueShare, compare, diversity, in_force, is_mixed, wilson
from configtron.model.nouns import Observation, Value


def seen(value: Value, grade: str = "B", unit: str = "segments") -> Observation:
    return Observation("icw", value, unit=unit, grade=grade)


NOTHING = Observation("icw", reason="too-short")


@pytest.mark.parametrize(
    ("here", "there", "outcome"),
    [
        (seen(10), seen(10, "A"), "same"),
        (seen(10), seen(4), "differs"),
        (seen(10), seen(4, "C"), "undetermined"),
        (seen(10, "L"), seen(4), "undetermined"),
        (seen(10), NOTHING, "undetermined"),
        (None, seen(10), "undetermined"),
        (seen(1.0, unit="s"), seen(1.1, unit="s"), "same"),
        (seen(1.0, unit="s"), seen(1.3, unit="s"), "differs"),
        (seen((1, 2)), seen((2, 1)), "differs"),
    ],
)
def test_when_two_settings_differ(here: Observation | None, there: Observation | None, outcome: str) -> None:
    assert compare(here, there) == outcome == compare(there, here)


def test_a_reading_in_common_makes_no_difference() -> None:
    """Two of three runs found 10, one found 4, as all find elsewhere: servers take turns, or packets were lost."""
    once = Observation("icw", 4, unit="segments", grade="C")
    torn = Observation("icw", 10, unit="segments", grade="B", trials=(seen(10, "C"), seen(10, "C"), once))
    assert compare(torn, seen(4)) == "undetermined" == compare(seen(4), torn)
    assert compare(torn, seen(24)) == "differs" and compare(torn, seen(10)) == "same"
    below = Observation("icw", 4, unit="segments", grade="L")
    assert compare(Observation("icw", 10, grade="B", trials=(seen(10, "C"), below)), seen(4)) == "differs"


VALUES = st.sampled_from([1.0, 1.1, 2.0, 3.0, 10, 4])
TRIALS = st.lists(st.builds(Observation, st.just("icw"), VALUES, unit=st.just("s"), grade=st.sampled_from("CL")))
VERDICTS = st.builds(
    Observation, st.just("icw"), VALUES, unit=st.just("s"), grade=st.sampled_from("ABCL"), trials=TRIALS.map(tuple)
)


@given(VERDICTS, VERDICTS)
def test_comparing_has_no_direction(here: Observation, there: Observation) -> None:
    assert compare(here, there) == compare(there, here)
    assert compare(here, here) == ("same" if here.grade in "AB" else "undetermined")


def test_one_witness_makes_a_target_mixed() -> None:
    mixed = Observation("load_balancing", "mixed", grade="C")
    assert is_mixed({"load_balancing": mixed}) and not is_mixed({"icw": seen(10)})
    assert not is_mixed({"load_balancing": Observation("load_balancing", "one", grade="A")})


def test_mixed_targets_stand_apart() -> None:
    there = {"a": {"na": seen(10), "as": seen(4)}, "b": {"na": seen(10), "as": seen(10)}}
    row = diversity("icw", "na", there, {"a", "elsewhere"})
    assert (row.known, row.compared, row.differing, row.undetermined, row.mixed) == (1, 1, 0, 0, 1)


def test_what_is_not_announced_stands_for_its_default() -> None:
    silent = Observation("h2_max_frame_size", "absent", grade="A", details=(("effective", 16384),))
    assert in_force(silent) == 16384
    assert compare(silent, Observation("h2_max_frame_size", 16384, grade="A")) == "same"


def test_wilson_by_hand() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(69, 1000) == pytest.approx((0.05489, 0.08640), abs=1e-4)
    assert wilson(0, 100) == pytest.approx((0.0, 0.03699), abs=1e-4)


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
    assert row.example == Example("b", 24, "as", 10)


def test_timers_are_counted_in_tenths() -> None:
    verdicts = {name: {"na": Observation("rto", t, unit="s", grade="B")} for name, t in (("a", 0.98), ("b", 1.04))}
    assert diversity("rto", "na", verdicts).shares == (ValueShare(1.0, 2, 1.0),)
