"""What a truth allows a prober to say in full, and whether it did.

    exact     the truth has a value that can be proven: right at grade A or B
    bound     the answer ends before the window does: that value at A or B, or "at least n" with n up to it and not
              below `least`, the largest n that the answer can prove
    reason    there is nothing to find: one of the truth's own reasons; another one is wrong, however honest it sounds
    trivial   "at least 1" is all that can be proven: nobody can learn anything, so nothing is counted

A reason that the truth excuses where it has a value is not wrong, and answers nothing.

Pure: the truth comes in as objects that can be asked (`Expectation`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from configtron.nouns import Observation, Value
from configtron.records import canonical, value_form

EXACT, BOUND, REASON, TRIVIAL = "exact", "bound", "reason", "trivial"
KINDS = (EXACT, BOUND, REASON)
# What a reader gives as the value of a setting that the server leaves out: a finding; and the truth's word for it.
ABSENT, NOT_ANNOUNCED = "absent", "not-announced"
# Grades that are sure enough to answer, and below which bound nothing is learned.
SURE, TRIVIAL_BOUND = "AB", 1


class Expectation(Protocol):
    """What may be reported: any of `values`; none if empty, and `reason` says why; `bound`: also "at least n"."""

    @property
    def values(self) -> tuple[Value, ...]:
        """The right answers."""

    @property
    def bound(self) -> bool:
        """Whether a bound is right as well."""

    @property
    def least(self) -> int:
        """The largest bound that can be proven."""

    @property
    def reason(self) -> str:
        """Why there is nothing to find."""

    def admits(self, value: Value | None, *, lower_bound: bool = False, reason: str = "") -> bool:
        """Whether a reported value (None: nothing was found, for that reason) is right."""


class Judged(NamedTuple):
    """One verdict and its truth; `trouble` names what is the matter with that site's server, if anything.

    asked   whether the run asked at all: what it need not ask is counted apart, and never right or wrong
    """

    region: str
    host: str
    knob: str
    observation: Observation
    expectation: Expectation
    trouble: str = ""
    asked: bool = True


def allowed(truth: Expectation) -> str:
    """The kind of answer that the truth allows."""
    if not any(value != () for value in truth.values):
        return REASON
    if not truth.bound:
        return EXACT
    return BOUND if truth.least > TRIVIAL_BOUND or not _counts(truth) else TRIVIAL


def truth_class(truth: Expectation) -> str:
    """Truths that one answer answers have one name."""
    kind = allowed(truth)
    return f"{kind} {truth.reason if kind == REASON else words(truth)} {truth.least if kind == BOUND else ''}"


def is_right(one: Judged) -> bool:
    """Whether the truth admits the verdict."""
    value, reason = one.observation.value, one.observation.reason or ""
    if one.observation.grade == "L":
        return _is_below(value, one.expectation.values)
    if value == ABSENT:
        return one.expectation.admits(None, reason=NOT_ANNOUNCED)
    return one.expectation.admits(value, reason=reason)


def is_answered(one: Judged) -> bool:
    """Whether the verdict says all that the truth allows to say."""
    kind, (value, grade) = allowed(one.expectation), (one.observation.value, one.observation.grade)
    if kind == TRIVIAL or not is_right(one):
        return False
    if kind == REASON:
        return grade == "N" or value == ABSENT
    if grade == "L" and kind == BOUND:
        return not isinstance(value, int | float) or value >= one.expectation.least
    return grade in SURE


def words(truth: Expectation) -> str:
    """The truth as printed."""
    if not truth.values:
        return f"nothing ({truth.reason})"
    values = " or ".join(v if isinstance(v, str) else canonical(value_form(v)) for v in truth.values)
    if not truth.bound:
        return values
    return f"{values} (or >= {truth.least})" if _counts(truth) else f"{values} (or a bound)"


def _counts(truth: Expectation) -> bool:
    return all(isinstance(value, int | float) for value in truth.values)


def _is_below(bound: Value | None, values: Iterable[Value]) -> bool:
    if isinstance(bound, tuple):
        return any(isinstance(value, tuple) and set(bound) <= set(value) for value in values)
    return isinstance(bound, int | float) and any(isinstance(v, int | float) and bound <= v for v in values)
