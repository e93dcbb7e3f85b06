# SPDX-License-Identifier: MIT
"""A verdict that none of its own trials supports becomes a lower bound, or no value.

Rules for this file: pure; total. A rule that merges trials may correct one of them: it counts a copy that was lost, or
takes the round trip from another trial. If no trial agrees with the merged verdict, an error in the rule is likelier
than one in every trial. A count then becomes a lower bound, the largest count of any trial. Anything else has no
value, and the reason `unclear:contradiction`.
"""

from __future__ import annotations

from collections.abc import Sequence

from configtron.fingerprint.schedule import WHEEL
from configtron.fingerprint.verdict import number, over, seen
from configtron.model.nouns import Observation

REASON = "unclear:contradiction"
# Tolerance of timers beyond the granularity of the kernel's timer wheel (`WHEEL`): clocks and schedulers take some ms.
SLACK_S = 0.01


def upheld(verdict: Observation, trials: Sequence[Observation]) -> Observation:
    """Return the verdict if a trial of its knob (an exact value or a bound) admits it; else a lower bound or no value.

    Without an exact trial (grade C) nothing can contradict the verdict.
    """
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
    part, whole = trial.value, verdict.value
    # A trial saw a part of a list: each asks for one TLS version, the verdict lists all.
    return part == whole or (isinstance(part, tuple) and isinstance(whole, tuple) and set(part) <= set(whole))
