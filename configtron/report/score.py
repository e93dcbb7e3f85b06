# SPDX-License-Identifier: MIT
"""A run's score against the truth: for each parameter, how often it is right, at which grade, and what it overclaims.

    right      an exact verdict (A, B, C) that the truth admits; a lower bound that is true; no verdict, for a reason
               that the truth names
    wrong      any other
    answered   reports all that the truth allows (`allowed_verdict.py`): the value at A or B, the largest bound that can
               be proven, or the right reason where there is nothing. An excused reason answers nothing
    yield      how far the run exceeds a constant answer: (mean - constant) / (1 - constant), 0 if below. `mean` is
               the share of pairs that is answered, averaged over the parameter's distinct truths; `constant` is the
               share of these truths that the best constant answer answers. So a prober that reports the same of all
               servers has 0, and a parameter that is the same on all servers has no yield
    overclaim  a wrong value at A, B or C, or a bound above the truth: anything wrong but a reason

A pair is one parameter of one site at one vantage. Where sites have troubles, each trouble has a row: its cases (sites
times vantages), their verdicts, and in how many of the cases that allow an answer the initial window is answered. A
case is reachable if the truth has a value for any parameter.

Pure: the truth is passed in as objects with methods (`AllowedVerdict`).
Source of the yield: Youden (1950), "Index for rating diagnostic tests"; balanced accuracy, adjusted for chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from configtron.model.nouns import Observation
from configtron.model.records import Json, canonical, observation_form
from configtron.report.allowed_verdict import (
    ABSENT,
    KINDS,
    TRIVIAL,
    AllowedVerdict,
    Judged,
    allowed,
    is_answered,
    is_right,
    truth_class,
    words,
)

# Grades of a value or a bound.
GIVEN = "ABCL"
# The parameter whose yield is reported for each trouble.
YIELD_KNOB = "icw"


class WrongVerdict(NamedTuple):
    """A wrong verdict with its true value, and whether it claims too much."""

    region: str
    host: str
    knob: str
    observation: Observation
    truth: str
    overclaim: bool
    trouble: str = ""


@dataclass(slots=True)
class Truth:
    """One distinct truth of a parameter: how many pairs have it, and how many of them are answered."""

    expectation: AllowedVerdict
    answered: int = 0
    pairs: int = 0


@dataclass(slots=True)
class KnobScore:
    """Counts for one parameter; `right` and `wrong` by grade, `answered` and `allowed` by kind of truth.

    truths      name of a truth -> pairs of it, and those answered
    not_asked   pairs that the run had no need, or no means, to measure
    """

    knob: str
    total: int = 0
    overclaims: int = 0
    not_asked: int = 0
    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    allowed: Counter[str] = field(default_factory=Counter)
    truths: dict[str, Truth] = field(default_factory=dict)

    def count(self, one: Judged) -> None:
        """Take one verdict in."""
        if not one.asked:
            self.not_asked += 1
            return
        right, grade, kind, answered = is_right(one), one.observation.grade, allowed(one.expectation), is_answered(one)
        self.total += 1
        (self.right if right else self.wrong)[grade] += 1
        self.overclaims += not right and grade != "N"
        self.allowed[kind] += 1
        self.answered[kind] += answered
        if kind != TRIVIAL:
            truth = self.truths.setdefault(truth_class(one.expectation), Truth(one.expectation))
            truth.answered += answered
            truth.pairs += 1

    @property
    def is_perfect(self) -> bool:
        """Return whether nothing is wrong, and all that the truth allows is reported."""
        return not any(self.wrong.values()) and self.answered == self.allowed

    @property
    def right_share(self) -> str:
        """Return the share of the verdicts at grades A and B that is right, as printed."""
        right, wrong = (sum(counts[grade] for grade in "AB") for counts in (self.right, self.wrong))
        return percent(right, right + wrong)

    @property
    def yielded(self) -> float | None:
        """Return the yield, 0 to 1; None if the truth is the same on all servers."""
        if len(self.truths) < 2:
            return None
        mean = sum(truth.answered / truth.pairs for truth in self.truths.values()) / len(self.truths)
        constant = best_constant(self.knob, [truth.expectation for truth in self.truths.values()])
        return max((mean - constant) / (1 - constant), 0.0) if constant < 1 else None


def best_constant(knob: str, truths: Sequence[AllowedVerdict]) -> float:
    """Return the largest share of these truths that one constant answer answers."""
    answers = {answer for truth in truths for answer in _full_answers(knob, truth)}
    given = (sum(is_answered(Judged("", "", knob, answer, truth)) for truth in truths) for answer in answers)
    return max(given, default=0) / max(len(truths), 1)


def _full_answers(knob: str, truth: AllowedVerdict) -> Iterator[Observation]:
    """Yield the reports that answer this truth: each of its values, the largest number that passes for it, its largest
    bound, each of its reasons."""
    yield from (Observation(knob, value, grade="A") for value in (*truth.values, *truth.edges))
    if truth.bound and truth.least:
        yield Observation(knob, truth.least, grade="L")
    if not truth.values:
        yield Observation(knob, ABSENT, grade="A")
        yield from (Observation(knob, reason=reason) for reason in truth.reason.split(" or "))


@dataclass(slots=True)
class TroubleScore:
    """Counts for one trouble ("": none).

    value, bound, reason     right verdicts, by what they report
    unexcused, overclaims    wrong verdicts: a reason that the truth does not name; a value or bound
    cases, reachable         (region, host) pairs: all, and those with a value to find
    allowed, answered        cases whose `YIELD_KNOB` allows an answer, and those that have it
    """

    trouble: str
    value: int = 0
    bound: int = 0
    reason: int = 0
    unexcused: int = 0
    overclaims: int = 0
    cases: set[tuple[str, str]] = field(default_factory=set)
    reachable: set[tuple[str, str]] = field(default_factory=set)
    allowed: set[tuple[str, str]] = field(default_factory=set)
    answered: set[tuple[str, str]] = field(default_factory=set)

    def count(self, one: Judged) -> None:
        """Take one verdict in."""
        case, right, grade = (one.region, one.host), is_right(one), one.observation.grade
        self.cases.add(case)
        if one.expectation.values:
            self.reachable.add(case)
        if one.knob == YIELD_KNOB and allowed(one.expectation) != TRIVIAL:
            self.allowed.add(case)
            if is_answered(one):
                self.answered.add(case)
        self.value += right and grade in "ABC"
        self.bound += right and grade == "L"
        self.reason += right and grade == "N"
        self.unexcused += not right and grade == "N"
        self.overclaims += not right and grade != "N"


@dataclass(frozen=True, slots=True)
class Score:
    """The whole score: rows by parameter and by trouble, how often each family of reasons is given, all mismatches.

    troubled   `YIELD_KNOB` on the sites that have a trouble
    """

    knobs: tuple[KnobScore, ...]
    troubles: tuple[TroubleScore, ...]
    reasons: Mapping[str, int]
    mismatches: tuple[WrongVerdict, ...]
    troubled: KnobScore

    @property
    def yielded(self) -> float | None:
        """Return the mean yield of the parameters that have one; None if none has."""
        found = [row.yielded for row in self.knobs if row.yielded is not None]
        return sum(found) / len(found) if found else None

    def answered(self, kind: str = "") -> tuple[int, int]:
        """Return (answered, allowed): the counts of one kind of truth, or of all."""
        kinds = (kind,) if kind else KINDS
        counts = ((sum(getattr(row, what)[k] for row in self.knobs for k in kinds)) for what in ("answered", "allowed"))
        given, of = counts
        return given, of

    @property
    def overclaims(self) -> int:
        """Return how many values and bounds are wrong."""
        return sum(row.overclaims for row in self.knobs)

    @property
    def given(self) -> tuple[int, int]:
        """Return (right, all) of the values and bounds that are given."""
        right = sum(row.right[grade] for row in self.knobs for grade in GIVEN)
        return right, right + self.overclaims

    @property
    def wrong_reasons(self) -> int:
        """Return how many reasons are given that the truth does not name."""
        return sum(row.wrong["N"] for row in self.knobs)


def score(judged: Iterable[Judged]) -> Score:
    """Count verdicts into a score. Mismatches are sorted by parameter, host and region."""
    rows: dict[str, KnobScore] = {}
    troubles: dict[str, TroubleScore] = {}
    reasons: Counter[str] = Counter()
    troubled = KnobScore(YIELD_KNOB)
    misses = []
    for one in judged:
        rows.setdefault(one.knob, KnobScore(one.knob)).count(one)
        if one.knob == YIELD_KNOB and one.trouble:
            troubled.count(one)
        if not one.asked:
            continue
        troubles.setdefault(one.trouble, TroubleScore(one.trouble)).count(one)
        if one.observation.reason is not None:
            reasons[family(one.observation.reason)] += 1
        if not is_right(one):
            overclaim, truth = one.observation.grade != "N", words(one.expectation)
            misses.append(WrongVerdict(one.region, one.host, one.knob, one.observation, truth, overclaim, one.trouble))
    misses.sort(key=lambda miss: (miss.knob, miss.host, miss.region))
    by_name = tuple(troubles[name] for name in sorted(troubles))
    return Score(tuple(rows.values()), by_name, dict(sorted(reasons.items())), tuple(misses), troubled)


def total(result: Score) -> TroubleScore:
    """Return the sum of all rows of troubles, sites without a trouble among them."""
    every = TroubleScore("all")
    for row in result.troubles:
        for name in ("value", "bound", "reason", "unexcused", "overclaims"):
            setattr(every, name, getattr(every, name) + getattr(row, name))
        for name in ("cases", "reachable", "allowed", "answered"):
            setattr(every, name, getattr(every, name) | getattr(row, name))
    return every


def family(reason: str) -> str:
    """Return the family of a reason, as docs/fingerprint.md lists it: "tls:*" for "tls:not-tls"."""
    name, colon, _ = reason.partition(":")
    return f"{name}:*" if colon else reason


def score_lines(result: Score, probers: Mapping[str, Score] | None = None) -> list[str]:
    """Return JSON lines: one per parameter, per trouble, per constant prober (report/constants.py), per mismatch."""
    lines = [
        canonical(
            {
                "schema": "configtron.score/2",
                "knob": row.knob,
                "total": row.total,
                "not_asked": row.not_asked,
                "overclaims": row.overclaims,
                "right": _counts(row.right),
                "wrong": _counts(row.wrong),
                "answered": {kind: row.answered[kind] for kind in KINDS},
                "allowed": {kind: row.allowed[kind] for kind in KINDS},
                "yield": _rounded(row.yielded),
            }
        )
        for row in result.knobs
    ]
    for trouble in result.troubles:
        counts = {name: getattr(trouble, name) for name in ("value", "bound", "reason", "unexcused", "overclaims")}
        cases = {name: len(getattr(trouble, name)) for name in ("cases", "reachable", "allowed", "answered")}
        lines.append(canonical({"schema": "configtron.trouble/2", "trouble": trouble.trouble, **counts, **cases}))
    lines += [prober_line(name, theirs) for name, theirs in (probers or {}).items()]
    for miss in result.mismatches:
        reported = observation_form(miss.observation)
        lines.append(canonical({"schema": "configtron.mismatch/1", **miss._asdict(), "observation": reported}))
    return lines


def prober_line(name: str, result: Score) -> str:
    """Return one JSON line (configtron.prober/1) with the totals of a score."""
    kinds: dict[str, Json] = {kind: list(result.answered(kind)) for kind in KINDS}
    yields = {"yield": _rounded(result.yielded), f"{YIELD_KNOB}_troubled_yield": _rounded(result.troubled.yielded)}
    counts = {"overclaims": result.overclaims, "wrong_reasons": result.wrong_reasons}
    return canonical({"schema": "configtron.prober/1", "prober": name, **kinds, **yields, **counts})


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def _counts(counts: Mapping[str, int]) -> dict[str, Json]:
    return {grade: counts.get(grade, 0) for grade in "ABCLN"}


def percent(part: int, whole: int) -> str:
    """Return a share in percent as printed; "-" if `whole` is 0."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def share(part: float | None) -> str:
    """Return a share (0 to 1) in percent as printed; "-" for None."""
    return "-" if part is None else f"{100 * part:.1f} %"
