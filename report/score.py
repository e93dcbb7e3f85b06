"""A run against the truth: how often each parameter is right, at which grade, and where it claims too much.

    right      an exact verdict (A, B, C) that the truth admits; a lower bound that is true; no verdict where there is
               nothing to find
    wrong      any other
    usable     a verdict that can be used as it stands: A or B, a bound where the truth allows no more, nothing where
               there is nothing, or where the truth admits the reason
    overclaim  a wrong value at A, B or C, or a bound above the truth: anything wrong but a reason

Where sites have troubles, each trouble has a row: its cases (sites times vantages), what was said of them, and in how
many of the reachable ones the initial window is usable (A, B, or a true bound), the measure that other tools give.
A case is reachable if the truth has a value for any parameter.

Pure: the truth comes in as objects that can be asked (`Expectation`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from configtron.nouns import Observation, Value
from configtron.records import Json, canonical, observation_form, value_form

# The parameter by whose verdicts a tool's yield is told, and the grades that count if they are right.
YIELD_KNOB, USABLE = "icw", "ABL"
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

    def admits(self, value: Value | None, *, lower_bound: bool = False, reason: str = "") -> bool:
        """Whether a reported value (None: nothing was found, for that reason) is right."""


class Judged(NamedTuple):
    """One verdict and its truth; `trouble` names what is the matter with that site's server, if anything."""

    region: str
    host: str
    knob: str
    observation: Observation
    expectation: Expectation
    trouble: str = ""


class Mismatch(NamedTuple):
    """A wrong verdict with its true value, and whether it claims too much."""

    region: str
    host: str
    knob: str
    observation: Observation
    truth: str
    overclaim: bool
    trouble: str = ""


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


@dataclass(slots=True)
class TroubleScore:
    """Counts for one trouble ("": none): of verdicts, what was rightly said and what wrongly; of cases, the yield."""

    trouble: str
    value: int = 0
    bound: int = 0
    reason: int = 0
    unexcused: int = 0
    overclaims: int = 0
    cases: set[tuple[str, str]] = field(default_factory=set)
    reachable: set[tuple[str, str]] = field(default_factory=set)
    usable: set[tuple[str, str]] = field(default_factory=set)

    def count(self, one: Judged) -> None:
        """Take one verdict in."""
        case, right, grade = (one.region, one.host), is_right(one), one.observation.grade
        self.cases.add(case)
        if one.expectation.values:
            self.reachable.add(case)
        if one.knob == YIELD_KNOB and right and grade in USABLE and one.expectation.values:
            self.usable.add(case)
        self.value += right and grade in "ABC"
        self.bound += right and grade == "L"
        self.reason += right and grade == "N"
        self.unexcused += not right and grade == "N"
        self.overclaims += not right and grade != "N"


@dataclass(frozen=True, slots=True)
class Score:
    """The whole score: a row per parameter and per trouble, the reasons given (families), and every mismatch."""

    knobs: tuple[KnobScore, ...]
    troubles: tuple[TroubleScore, ...]
    reasons: Mapping[str, int]
    mismatches: tuple[Mismatch, ...]


def score(judged: Iterable[Judged]) -> Score:
    """Count."""
    rows: dict[str, KnobScore] = {}
    troubles: dict[str, TroubleScore] = {}
    reasons: Counter[str] = Counter()
    misses = []
    for one in judged:
        troubles.setdefault(one.trouble, TroubleScore(one.trouble)).count(one)
        if one.observation.reason is not None:
            reasons[family(one.observation.reason)] += 1
        row = rows.setdefault(one.knob, KnobScore(one.knob))
        right, grade = is_right(one), one.observation.grade
        row.total += 1
        row.usable += is_usable(one)
        (row.right if right else row.wrong)[grade] += 1
        if not right:
            overclaim = grade != "N"
            row.overclaims += overclaim
            truth = told(one.expectation)
            misses.append(Mismatch(one.region, one.host, one.knob, one.observation, truth, overclaim, one.trouble))
    misses.sort(key=lambda miss: (miss.knob, miss.host, miss.region))
    by_name = tuple(troubles[name] for name in sorted(troubles))
    return Score(tuple(rows.values()), by_name, dict(sorted(reasons.items())), tuple(misses))


def total(result: Score) -> TroubleScore:
    """All troubles, and none, in one row."""
    every = TroubleScore("all")
    for row in result.troubles:
        for name in ("value", "bound", "reason", "unexcused", "overclaims"):
            setattr(every, name, getattr(every, name) + getattr(row, name))
        every.cases |= row.cases
        every.reachable |= row.reachable
        every.usable |= row.usable
    return every


def family(reason: str) -> str:
    """The row of docs/reasons.md: `tls:*` of "tls:not-tls"."""
    name, colon, _ = reason.partition(":")
    return f"{name}:*" if colon else reason


def is_right(one: Judged) -> bool:
    """Whether the truth admits the verdict."""
    value = one.observation.value
    if one.observation.grade == "L":
        return _is_below(value, one.expectation.values)
    if value == ABSENT:
        return one.expectation.admits(None)
    return one.expectation.admits(value, reason=one.observation.reason or "")


def is_usable(one: Judged) -> bool:
    """Whether the verdict says all that could be said, firmly enough to use."""
    grade = one.observation.grade
    if grade == "L":
        return one.expectation.bound
    return grade in ("A", "B") or (grade == "N" and is_right(one))


def _is_below(bound: Value | None, values: Iterable[Value]) -> bool:
    if isinstance(bound, tuple):
        return any(isinstance(value, tuple) and set(bound) <= set(value) for value in values)
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
    for trouble in result.troubles:
        counts = {name: getattr(trouble, name) for name in ("value", "bound", "reason", "unexcused", "overclaims")}
        cases = {name: len(getattr(trouble, name)) for name in ("cases", "reachable", "usable")}
        lines.append(canonical({"schema": "configtron.trouble/1", "trouble": trouble.trouble, **counts, **cases}))
    for miss in result.mismatches:
        reported = observation_form(miss.observation)
        lines.append(canonical({"schema": "configtron.mismatch/1", **miss._asdict(), "observation": reported}))
    return lines


def _counts(counts: Mapping[str, int]) -> dict[str, Json]:
    return {grade: counts.get(grade, 0) for grade in "ABCLN"}


def percent(part: int, whole: int) -> str:
    """A share as printed; "-" of nothing."""
    return f"{100 * part / whole:.1f} %" if whole else "-"
