# SPDX-License-Identifier: MIT
"""Trials -> one verdict: how agreement is graded and disagreement settled.

Rules for this file: pure; the grades are those of `docs/grades.md`; a bound never becomes a value, and refutes values
below it; a disagreement is never hidden (its values are in the details); no trial is dropped (all are kept in
`trials`). A lost packet lowers a count and lengthens a time: such readings are outvoted, others make C.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from configtron.fingerprint import ACROSS
from configtron.fingerprint.contradiction import upheld
from configtron.fingerprint.icw_agreement import agree_icw
from configtron.fingerprint.verdict import AGREE_B, PASSING, count_grade, number, seen, settled
from configtron.model.nouns import Observation

# A bound that was read after a repeated handshake: Linux begins such a connection with one segment, or with its route's
# window where the application had set another; it counts only where there is nothing else.
UNSURE = ("no-round-trip", "synack-repeated")
# Timers agree within the kernel's timer wheel granularity (kernel/time/timer.c): an eighth.
WHEEL = 0.125


def merge(trials: Sequence[Observation]) -> Observation:
    """One verdict out of at least one reading of the same knob."""
    exact = [t for t in trials if t.grade == "C"]
    bounds = [t for t in trials if t.grade == "L"]
    sure = [t for t in bounds if t.detail("proof") not in UNSURE]
    highest = max(sure or ([] if exact else bounds), key=number, default=None)
    if highest is not None and all(number(t) < number(highest) for t in exact):
        return settled(trials, highest, "L", seen((*exact, *bounds)) if exact else {})
    if exact:
        usual = agree_seconds if exact[0].unit == "s" else agree
        return RULES.get(trials[0].knob, usual)(trials, exact, bounds)
    # Of several failures, the one that speaks of the server and not of the trial; else the commonest.
    reasons = Counter(t.reason for t in trials)
    reason = max(reasons, key=lambda name: (name not in PASSING, reasons[name]))
    first = trials[0]
    return Observation(first.knob, None, reason, first.unit, first.method, "N", trials=tuple(trials))


def merge_all(trials: Iterable[Observation]) -> dict[str, Observation]:
    """Verdicts by knob, in knob order; what only several trials together show (`ACROSS`) takes its knob's place.

    No verdict contradicts all trials of its knob.
    """
    by_knob: dict[str, list[Observation]] = {}
    for trial in trials:
        by_knob.setdefault(trial.knob, []).append(trial)
    verdicts = {knob: merge(by_knob[knob]) for knob in by_knob}
    for across in ACROSS.values():
        verdict = across(by_knob)
        if verdict is not None:
            verdicts[verdict.knob] = verdict
    return {knob: upheld(verdicts[knob], by_knob.get(knob, ())) for knob in sorted(verdicts)}


def agree(trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]) -> Observation:
    """Facts that are equal or not: all equal 3 times A, twice B; else the commonest, C, with what else was seen."""
    counts = Counter(t.value for t in exact)
    value, _ = counts.most_common(1)[0]
    best = next(t for t in exact if t.value == value)
    if len(counts) > 1:
        return settled(trials, best, "C", seen((*exact, *bounds)))
    return settled(trials, best, count_grade(len(exact)), {})


def agree_largest(
    trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]
) -> Observation:
    """Counts that a loss can only lower: the largest; B and A need it twice and three times."""
    best = max(exact, key=number)
    grade = count_grade(sum(t.value == best.value for t in exact))
    return settled(trials, best, grade, seen(exact) if len({t.value for t in exact}) > 1 else {})


def agree_seconds(
    trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]
) -> Observation:
    """Timers: the shortest reading, since a lost copy only lengthens; others agree within an eighth of it.

    Longer readings are no contradiction, but no agreement either: where more trials agree than not it is B, else C.
    """
    best = min(exact, key=number)
    near = [t for t in exact if number(t) <= number(best) * (1 + WHEEL)]
    longer = len(exact) - len(near)
    grade = count_grade(len(near))
    if longer:
        grade = "B" if len(near) >= AGREE_B and len(near) > longer else "C"
    return settled(trials, best, grade, {"agreeing": len(near), **(seen(exact) if longer or grade == "C" else {})})


# By knob; what is measured in seconds agrees as timers do, all else is equal or not.
RULES: dict[str, Callable[[Sequence[Observation], Sequence[Observation], Sequence[Observation]], Observation]] = {
    "icw": agree_icw,
    "icw_tls": agree_icw,
    "cwnd_at_request": agree_icw,
    "synack_retries": agree_largest,
}
