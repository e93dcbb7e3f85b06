# SPDX-License-Identifier: MIT
"""Agreement of exact readings of one parameter, and the verdict among them.

Each function gets all trials of the parameter, the exact ones and the lower bounds, and returns the verdict. Which
parameter is settled by which: `grades.py`.

Rules for this file: pure; a value is given only where a trial proved it; a disagreement is never hidden (its values are
in the details). Loss only lowers a count and lengthens a time, so of unlike counts the largest is given, and of unlike
times the shortest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from configtron.fingerprint.verdict import AGREE_B, count_grade, number, seen, settled
from configtron.fingerprint.window_proofs import SHORT_END, SUPPORTS
from configtron.model.nouns import Observation

# Timers agree within the kernel's timer wheel granularity (kernel/time/timer.c): an eighth.
WHEEL = 0.125


def agree(trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]) -> Observation:
    """Settle facts that are equal or not: all equal 3 times A, twice B; else the commonest, C, with all readings."""
    best = exact[0]
    if all(t.value == best.value for t in exact):
        return settled(trials, best, count_grade(len(exact)))
    value, _ = Counter(t.value for t in exact).most_common(1)[0]
    best = next(t for t in exact if t.value == value)
    return settled(trials, best, "C", seen((*exact, *bounds)))


def agree_largest(
    trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]
) -> Observation:
    """Settle counts that a loss can only lower: the largest; B and A need it twice and three times."""
    best = max(exact, key=number)
    grade = count_grade(sum(t.value == best.value for t in exact))
    return settled(trials, best, grade, seen(exact) if len({t.value for t in exact}) > 1 else {})


def agree_seconds(
    trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]
) -> Observation:
    """Settle timers (s): the shortest reading, since a lost copy only lengthens; others agree within an eighth of it.

    Longer readings are no contradiction, but no agreement either: where more trials agree than not it is B, else C.
    """
    best = min(exact, key=number)
    near = [t for t in exact if number(t) <= number(best) * (1 + WHEEL)]
    longer = len(exact) - len(near)
    grade = count_grade(len(near))
    if longer:
        grade = "B" if len(near) >= AGREE_B and len(near) > longer else "C"
    return settled(trials, best, grade, {"agreeing": len(near), **(seen(exact) if longer or grade == "C" else {})})


def agree_window(
    trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]
) -> Observation:
    """Return the largest window that was proven, and how many trials distinguish it from a smaller one.

    A bound supports only what it distinguishes. A server that writes a part of its page and pauses ends each flight at
    the same byte, whatever the segment size; a window ends it after the same number of segments. So a bound supports
    the window if its flight has as many segments, and ended at another byte than every exact one of that number; if it
    ended in a short segment, more than a segment away, since heads differ by some bytes. `>= 1` supports nothing: every
    server sends one segment.

    A lost tail, or a server without a round trip, only lowers a trial's window. A needs three
    trials, two MSS values, and the consent of an edge run: its proof, or a server that refused SACK and so probes no
    tails.
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
    consent = any(t.detail("sack_offered", t.detail("sack")) for t in exact)
    if grade == "A" and (len({t.detail("offered_mss", t.detail("mss")) for t in agreeing}) < AGREE_B or not consent):
        grade = "B"
    return settled(trials, best, grade, {"agreeing": len(agreeing)})


def _ended_elsewhere(trial: Observation, other: Observation) -> bool:
    """Return whether a bound's flight ended where no pause of the server explains both it and the other trial's."""
    ended, ended_2, mss = (
        float(str(t.detail(name, 0))) for t, name in ((trial, "bytes"), (other, "bytes"), (trial, "mss"))
    )
    return abs(ended - ended_2) > (mss if trial.detail("proof") == SHORT_END else 0)
