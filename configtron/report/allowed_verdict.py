# SPDX-License-Identifier: MIT
"""The most that a prober can report under a given truth, and whether a verdict reports it.

    exact     the truth has a value that can be proven: that value at grade A or B answers
    bound     the response ends before the window does: the value at A or B answers, or "at least n" with n up to it
              and not below `least`, the largest n that the response can prove
    reason    there is nothing to find: one of the truth's own reasons answers; any other reason is wrong
    trivial   "at least 1" is all that can be proven: nothing can be learned, so nothing is counted

A reason that the truth excuses where it has a value is not wrong, and answers nothing.

Pure: the truth is passed in as objects with methods (`AllowedVerdict`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from configtron.model.nouns import Observation, Value
from configtron.model.records import canonical, value_form

EXACT, BOUND, REASON, TRIVIAL = "exact", "bound", "reason", "trivial"
KINDS = (EXACT, BOUND, REASON)
# A setting that the server does not announce: the value that a verdict has for it, and the reason that the truth has.
ABSENT, NOT_ANNOUNCED = "absent", "not-announced"
# Grades of an exact verdict that answers; the lower bound that teaches nothing.
SURE, TRIVIAL_BOUND = "AB", 1


class AllowedVerdict(Protocol):
    """Verdicts that may be reported: any of `values`, or `reason` if there are none; with `bound` also "at least n"."""

    @property
    def values(self) -> tuple[Value, ...]:
        """The right answers."""

    @property
    def edges(self) -> Sequence[Value]:
        """The largest number that passes for each of them: one number may pass for several servers' timers."""

    @property
    def bound(self) -> bool:
        """Return whether a bound is right as well."""

    @property
    def least(self) -> int:
        """The largest bound that can be proven."""

    @property
    def reason(self) -> str:
        """Return why there is nothing to find."""

    def admits(self, value: Value | None, *, lower_bound: bool = False, reason: str = "") -> bool:
        """Return whether a reported value (None: nothing was found, for that reason) is right."""


class Judged(NamedTuple):
    """One verdict and its truth; `trouble` names the impairment of that site or its server, "" for none.

    asked   whether the run measured the parameter; if not, it is counted apart, neither right nor wrong
    """

    region: str
    host: str
    knob: str
    observation: Observation
    expectation: AllowedVerdict
    trouble: str = ""
    asked: bool = True


def allowed(truth: AllowedVerdict) -> str:
    """Return the kind of answer that the truth allows: `EXACT`, `BOUND`, `REASON` or `TRIVIAL`."""
    if not any(value != () for value in truth.values):
        return REASON
    if not truth.bound:
        return EXACT
    return BOUND if truth.least > TRIVIAL_BOUND or not _counts(truth) else TRIVIAL


def truth_class(truth: AllowedVerdict) -> str:
    """Return a name for the truth; truths that the same verdict answers have the same name."""
    kind = allowed(truth)
    return f"{kind} {truth.reason if kind == REASON else words(truth)} {truth.least if kind == BOUND else ''}"


def is_right(one: Judged) -> bool:
    """Return whether the truth admits the verdict."""
    value, reason = one.observation.value, one.observation.reason or ""
    if one.observation.grade == "L":
        return _is_below(value, one.expectation.values)
    if value == ABSENT:
        return one.expectation.admits(None, reason=NOT_ANNOUNCED)
    return one.expectation.admits(value, reason=reason)


def is_answered(one: Judged) -> bool:
    """Return whether the verdict is right and reports all that the truth allows."""
    kind, (value, grade) = allowed(one.expectation), (one.observation.value, one.observation.grade)
    if kind == TRIVIAL or not is_right(one):
        return False
    if kind == REASON:
        return grade == "N" or value == ABSENT
    if grade == "L" and kind == BOUND:
        return not isinstance(value, int | float) or value >= one.expectation.least
    return grade in SURE


def words(truth: AllowedVerdict) -> str:
    """Return the truth as printed."""
    if not truth.values:
        return f"nothing ({truth.reason})"
    values = " or ".join(v if isinstance(v, str) else canonical(value_form(v)) for v in truth.values)
    if not truth.bound:
        return values
    return f"{values} (or >= {truth.least})" if _counts(truth) else f"{values} (or a bound)"


def _counts(truth: AllowedVerdict) -> bool:
    return all(isinstance(value, int | float) for value in truth.values)


def _is_below(bound: Value | None, values: Iterable[Value]) -> bool:
    if isinstance(bound, tuple):
        return any(isinstance(value, tuple) and set(bound) <= set(value) for value in values)
    return isinstance(bound, int | float) and any(isinstance(v, int | float) and bound <= v for v in values)
