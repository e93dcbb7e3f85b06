"""Whether a verdict contradicts every trial that it was drawn from, and what is left of it then.

Rules for this file: pure; total. A rule that draws a verdict from several trials may correct what one of them read (a
lost copy counted, a round trip from elsewhere). If none of them reads what the rule concludes, the rule, and not each
trial, is the likelier error: a count becomes the largest that was read, as a lower bound; anything else has no value.
"""

from __future__ import annotations

from collections.abc import Sequence

from configtron.fingerprint.schedule import WHEEL
from configtron.fingerprint.verdict import number, over, seen
from configtron.nouns import Observation, Value

REASON = "unclear:contradiction"
# Timers agree within the kernel's timer wheel granularity; clocks and schedulers take some ms more.
SLACK_S = 0.01


def upheld(verdict: Observation, trials: Sequence[Observation]) -> Observation:
    """The verdict if any of its knob's exact trials or bounds admits it; else what they allow together."""
    exact = [t for t in trials if t.grade == "C"]
    if verdict.value is None or not exact or any(_admits(trial, verdict) for trial in trials):
        return verdict
    details = {**dict(verdict.details), **seen(exact)}
    if isinstance(verdict.value, int) and not isinstance(verdict.value, bool):
        most = max((t for t in trials if t.value is not None), key=number)
        return over(verdict.knob, trials, most.value, "L", verdict.unit, verdict.method, details=details)
    return over(verdict.knob, trials, None, "N", verdict.unit, verdict.method, reason=REASON, details=details)


def _admits(trial: Observation, verdict: Observation) -> bool:
    if trial.value is None or verdict.value is None:
        return False
    if verdict.grade == "L":
        return number(trial) >= number(verdict)
    if trial.grade == "L":
        return False
    if verdict.unit == "s":
        return abs(number(trial) - number(verdict)) <= WHEEL * min(number(trial), number(verdict)) + SLACK_S
    return trial.value == verdict.value or _part_of(trial.value, verdict.value)


def _part_of(part: Value, whole: Value) -> bool:
    """Whether a list holds what a trial saw of it (each TLS version is asked for by a trial of its own)."""
    return isinstance(part, tuple) and isinstance(whole, tuple) and set(part) <= set(whole)
