"""A run against the truth: how often each parameter is right, at which grade, and where it claims too much.

    right      an exact verdict (A, B, C) that the truth admits; a lower bound that is true; no verdict where there is
               nothing to find
    wrong      any other
    usable     a verdict that can be used as it stands: A or B, a bound where the truth allows no more, nothing where
               there is nothing
    overclaim  a wrong value at A, B or C, or a bound above the truth: anything wrong but a reason

Pure: the truth comes in as objects that can be asked (`Expectation`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from configtron.nouns import Observation, Value
from configtron.records import Json, canonical, observation_form, value_form

# What a reader says of a setting that the server leaves out: a finding, whose truth is an expectation without values.
ABSENT = "absent"


class Expectation(Protocol):
    """What may be reported: any of `values`; none if empty, and `reason` says why; `bound`: also "at least n"."""

    @property
    def values(self) -> tuple[Value, ...]:
        """The right answers."""

    @property
    def bound(self) -> bool:
        """Whether a bound is all that can be seen."""

    @property
    def reason(self) -> str:
        """Why there is nothing to find."""

    def admits(self, value: Value | None, *, lower_bound: bool = False) -> bool:
        """Whether a reported value (None: nothing was found) is right."""


class Judged(NamedTuple):
    """One verdict and its truth."""

    region: str
    host: str
    knob: str
    observation: Observation
    expectation: Expectation


class Mismatch(NamedTuple):
    """A wrong verdict with its true value, and whether it claims too much."""

    region: str
    host: str
    knob: str
    observation: Observation
    truth: str
    overclaim: bool


@dataclass(slots=True)
class KnobScore:
    """Counts for one parameter; `right` and `wrong` by grade."""

    knob: str
    total: int = 0
    usable: int = 0
    overclaims: int = 0
    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)

    @property
    def right_share(self) -> str:
        """Of the verdicts at grades A and B, how many are right."""
        right, wrong = (sum(counts[grade] for grade in "AB") for counts in (self.right, self.wrong))
        return percent(right, right + wrong)


@dataclass(frozen=True, slots=True)
class Score:
    """The whole score: a row per parameter, and every mismatch."""

    knobs: tuple[KnobScore, ...]
    mismatches: tuple[Mismatch, ...]


def score(judged: Iterable[Judged]) -> Score:
    """Count."""
    rows: dict[str, KnobScore] = {}
    misses = []
    for one in judged:
        row = rows.setdefault(one.knob, KnobScore(one.knob))
        right, grade = is_right(one), one.observation.grade
        row.total += 1
        row.usable += is_usable(one)
        (row.right if right else row.wrong)[grade] += 1
        if not right:
            overclaim = grade != "N"
            row.overclaims += overclaim
            misses.append(Mismatch(one.region, one.host, one.knob, one.observation, told(one.expectation), overclaim))
    return Score(tuple(rows.values()), tuple(sorted(misses, key=lambda miss: (miss.knob, miss.host, miss.region))))


def is_right(one: Judged) -> bool:
    """Whether the truth admits the verdict."""
    value = one.observation.value
    if one.observation.grade == "L":
        return _is_below(value, one.expectation.values)
    return one.expectation.admits(None if value == ABSENT else value)


def is_usable(one: Judged) -> bool:
    """Whether the verdict says all that could be said, firmly enough to use."""
    grade = one.observation.grade
    if grade == "L":
        return one.expectation.bound
    return grade in ("A", "B") or (grade == "N" and not one.expectation.values)


def _is_below(bound: Value | None, values: Iterable[Value]) -> bool:
    return isinstance(bound, int | float) and any(isinstance(v, int | float) and bound <= v for v in values)


def told(expectation: Expectation) -> str:
    """The truth in words."""
    if not expectation.values:
        return f"nothing ({expectation.reason})"
    values = " or ".join(v if isinstance(v, str) else canonical(value_form(v)) for v in expectation.values)
    return f"{values} (or a bound)" if expectation.bound else values


def score_lines(result: Score) -> list[str]:
    """JSON lines: one per parameter, then one per mismatch."""
    lines = [
        canonical(
            {
                "schema": "configtron.score/1",
                "knob": row.knob,
                "total": row.total,
                "usable": row.usable,
                "overclaims": row.overclaims,
                "right": _counts(row.right),
                "wrong": _counts(row.wrong),
            }
        )
        for row in result.knobs
    ]
    for miss in result.mismatches:
        reported = observation_form(miss.observation)
        lines.append(canonical({"schema": "configtron.mismatch/1", **miss._asdict(), "observation": reported}))
    return lines


def _counts(counts: Mapping[str, int]) -> dict[str, Json]:
    return {grade: counts.get(grade, 0) for grade in "ABCLN"}


def percent(part: int, whole: int) -> str:
    """A share as printed; "-" of nothing."""
    return f"{100 * part / whole:.1f} %" if whole else "-"
