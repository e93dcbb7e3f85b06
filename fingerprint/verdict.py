# SPDX-License-Identifier: MIT
"""Observations of readers and verdicts of rules: a value with its grade, or a reason.

One line each, so that every reader and every rule says it alike. `yes` and `no` are of one trace, `settled` and `over`
of several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from configtron.model.nouns import Observation, Trace, Value

# Trials that must agree for the two best grades.
AGREE_A, AGREE_B = 3, 2
# One lost packet, or a busy host, explains these; a second trial seldom meets the same. All others speak of the server.
PASSING = frozenset(
    (
        "closed", "drops", "unclear:first-segment-lost", "no-data", "no-repeat", "h2:no-settings", "no-synack", "reset",
        "unclear:slow-answer", "synack-repeated", "unclear:alone", "unclear:contradiction", "clock-step",
    )
)  # fmt: skip


def yes(
    knob: str, value: Value, trace: Trace, unit: str = "", method: str = "", grade: str = "C",
    evidence: tuple[int, ...] = (), details: Mapping[str, Value] | None = None,
) -> Observation:  # fmt: skip
    """Return a value read from one trace; grade C (exact, once) or L (a lower bound)."""
    frames = tuple(sorted(set(evidence)))
    return Observation(knob, value, None, unit, method, grade, trace.id, frames, (), canonical(details or {}))


def no(
    knob: str, reason: str, trace: Trace, unit: str = "", method: str = "", details: Mapping[str, Value] | None = None
) -> Observation:
    """Return an observation without a value, and the reason."""
    return Observation(knob, None, reason, unit, method, "N", trace.id, (), (), canonical(details or {}))


def ended(trace: Trace) -> str:
    """Return the reason why nothing more came."""
    if trace.session is not None and trace.session.error:
        return trace.session.error
    return trace.ending if trace.ending not in ("", "done") else "closed"


def canonical(details: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
    """Return details in the order that makes equal verdicts equal bytes."""
    return tuple(sorted(details.items()))


def settled(
    trials: Sequence[Observation], best: Observation, grade: str, more: Mapping[str, Value] | None = None
) -> Observation:
    """Return one of the trials, for all of them: `best`, at the grade that their agreement earned."""
    agreeing = [t.value for t in trials].count(best.value)
    details = canonical({**dict(best.details), "agreeing": agreeing, **(more or {})})
    return Observation(
        best.knob, best.value, None, best.unit, best.method, grade, best.trace_id, best.evidence, tuple(trials), details
    )


def over(
    knob: str, trials: Sequence[Observation], value: Value | None, grade: str, unit: str = "", method: str = "",
    reason: str = "", details: Mapping[str, Value] | None = None,
) -> Observation:  # fmt: skip
    """Return a verdict that several trials show together and no single one: a value, or (None, grade N) the reason."""
    return Observation(
        knob, value, reason or None, unit, method, grade, "", (), tuple(trials), canonical(details or {})
    )


def by_knob(trials: Iterable[Observation]) -> dict[str, list[Observation]]:
    """Return readings by knob, in the order in which each knob came first."""
    found: dict[str, list[Observation]] = {}
    for trial in trials:
        found.setdefault(trial.knob, []).append(trial)
    return found


def shared(
    every: Sequence[Observation], exact: Sequence[Observation], same: Sequence[Observation], grade: str
) -> Observation:
    """Return the verdict that some of the exact readings share, with the details of the first of them."""
    first, differ = same[0], seen(exact) if len(same) < len(exact) else {}
    details = {**dict(first.details), "agreeing": len(same), **differ}
    return over(first.knob, every, first.value, grade, first.unit, first.method, details=details)


def seen(trials: Sequence[Observation]) -> dict[str, Value]:
    """Return the readings, for a verdict that not all of them share."""
    return {"seen": tuple(sorted({t.text for t in trials}))}


def count_grade(agreeing: int) -> str:
    """Return the grade of so many agreeing exact trials."""
    return "A" if agreeing >= AGREE_A else "B" if agreeing >= AGREE_B else "C"


def number(observation: Observation) -> float:
    """Return the value as a number; 0 for a value that is none."""
    return as_number(observation.value)


def as_number(value: Value | None) -> float:
    """Return a value, or a detail, as a number; 0 for one that is none."""
    return float(value) if isinstance(value, int | float) else 0.0
