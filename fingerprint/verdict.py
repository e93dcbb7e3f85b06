"""How a reader says what it read: a value with its grade, or a reason.

One line each, so that every reader says it alike.
"""

from __future__ import annotations

from collections.abc import Mapping

from configtron.nouns import Observation, Trace, Value


def yes(
    knob: str,
    value: Value,
    trace: Trace,
    unit: str = "",
    method: str = "",
    grade: str = "C",
    evidence: tuple[int, ...] = (),
    details: Mapping[str, Value] | None = None,
) -> Observation:
    """A value read from one trace; grade C (exact, once) or L (a lower bound)."""
    frames = tuple(sorted(set(evidence)))
    return Observation(knob, value, None, unit, method, grade, trace.id, frames, (), canonical(details or {}))


def no(
    knob: str, reason: str, trace: Trace, unit: str = "", method: str = "", details: Mapping[str, Value] | None = None
) -> Observation:
    """No value, and why."""
    return Observation(knob, None, reason, unit, method, "N", trace.id, (), (), canonical(details or {}))


def canonical(details: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
    """Details in the order that makes equal verdicts equal bytes."""
    return tuple(sorted(details.items()))
