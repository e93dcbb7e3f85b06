# SPDX-License-Identifier: MIT
"""Agreement of exact readings of one parameter, and the verdict among them.

Each function takes all trials of the parameter, its exact readings and its lower bounds, and returns the verdict.
`grades.py` names the function of each parameter.

Rules for this file: pure; a value is given only where a trial proved it; a disagreement is never hidden (its values are
in the details). Loss can only lower a count and lengthen a time. So if counts differ, the largest is the value; if
times differ, the shortest is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from configtron.fingerprint.verdict import AGREE_B, count_grade, number, seen, settled
from configtron.fingerprint.window_proofs import SHORT_END, SUPPORTS
from configtron.model.nouns import Observation

# Timers agree if they differ by an eighth at most, the granularity of the kernel's timer wheel (kernel/time/timer.c).
WHEEL = 0.125


def agree(trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]) -> Observation:
    """Settle readings without an order. All equal: A from three, B from two. Else C: the most frequent, and all in the
    details."""
    best = exact[0]
    if all(t.value == best.value for t in exact):
        return settled(trials, best, count_grade(len(exact)))
    value, _ = Counter(t.value for t in exact).most_common(1)[0]
    best = next(t for t in exact if t.value == value)
    return settled(trials, best, "C", seen((*exact, *bounds)))


def agree_largest(
    trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]
) -> Observation:
    """Settle counts that loss can only lower: the largest is the value; two trials with it give B, three give A."""
    best = max(exact, key=number)
    grade = count_grade(sum(t.value == best.value for t in exact))
    return settled(trials, best, grade, seen(exact) if len({t.value for t in exact}) > 1 else {})


def agree_seconds(
    trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]
) -> Observation:
    """Settle timers (s): the shortest reading is the value, since a lost copy can only lengthen a reading.

    Readings within an eighth of it agree. Longer readings neither agree nor contradict: with any, the grade is B if
    more readings agree than not (and at least two), else C.
    """
    best = min(exact, key=number)
    agreeing = [t for t in exact if number(t) <= number(best) * (1 + WHEEL)]
    longer = len(exact) - len(agreeing)
    grade = count_grade(len(agreeing))
    if longer:
        grade = "B" if len(agreeing) >= AGREE_B and len(agreeing) > longer else "C"
    return settled(trials, best, grade, {"agreeing": len(agreeing), **(seen(exact) if longer or grade == "C" else {})})


def agree_window(
    trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]
) -> Observation:
    """Return the largest window that was proven; its grade counts the trials that agree.

    Exact trials of that window agree. A lower bound agrees (it supports the window) only if no pause of the server can
    explain it. A server that writes a part of its page and pauses ends each flight at the same byte, whatever the MSS;
    a window ends each flight after the same number of segments. So the bound must have the same number of segments, and
    its flight must end at another byte than that of every exact trial. If it ends in a short segment, it must end more
    than a segment away, since response heads differ by some bytes. `>= 1` supports nothing: every server sends one
    segment.

    A lost tail, or a server without a round-trip sample, can only lower a trial's window. Grade A needs three trials,
    two MSS values, and one exact trial that offered SACK.
    """
    counts = Counter(number(t) for t in exact)
    value = max(counts)
    best = next(t for t in exact if number(t) == value)
    if len(counts) > 1:
        return settled(trials, best, "C", seen((*exact, *bounds)))
    same = [t for t in bounds if t.detail("proof") in SUPPORTS and number(t) == value > 1]
    support = [t for t in same if all(_ended_elsewhere(t, other) for other in exact)]
    agreeing = [*exact, *support]
    grade = count_grade(len(agreeing))
    with_sack = any(t.detail("sack_offered", t.detail("sack")) for t in exact)
    if grade == "A" and (len({t.detail("offered_mss", t.detail("mss")) for t in agreeing}) < AGREE_B or not with_sack):
        grade = "B"
    return settled(trials, best, grade, {"agreeing": len(agreeing)})


def _ended_elsewhere(trial: Observation, other: Observation) -> bool:
    """Return whether a bound's flight ended at another byte than the other trial's, so that no pause explains both."""
    end, other_end, mss = (
        float(str(t.detail(name, 0))) for t, name in ((trial, "bytes"), (other, "bytes"), (trial, "mss"))
    )
    return abs(end - other_end) > (mss if trial.detail("proof") == SHORT_END else 0)
