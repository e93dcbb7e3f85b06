# SPDX-License-Identifier: MIT
"""Trials -> one verdict: the rule that decides, and the treatment of failures and bounds.

Rules for this file: pure; the rules are those of `grades.py`; a bound never becomes a value, and refutes values below
it; no trial is dropped (all are kept in `trials`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from configtron.fingerprint import load_balancing
from configtron.fingerprint.contradiction import upheld
from configtron.fingerprint.grades import RULES, GradeRule, agreement_of
from configtron.fingerprint.verdict import PASSING, by_knob, number, seen, settled
from configtron.model.nouns import Observation

# Readings of one knob -> its verdict, and the readings that are witnessed.
KnobJudge = Callable[[Sequence[Observation]], tuple[Observation, Sequence[Observation]]]
# The methods of first flights in captures begin so (`passive/readings.py`).
CAPTURED = "first flight"
# A bound that was read after a repeated handshake: Linux begins such a connection with one segment, or with its route's
# window where the application had set another; it counts only where there is nothing else.
UNSURE = ("no-round-trip", "synack-repeated")


def merge(trials: Sequence[Observation], kept: Sequence[Observation] = ()) -> Observation:
    """Return one verdict out of at least one reading of the same knob; kept: those that are `witnessed`, if known."""
    kept = kept or witnessed(trials)
    exact = [t for t in kept if t.grade == "C"]
    bounds = [t for t in kept if t.grade == "L"]
    if len(kept) < len(trials):
        return settled(trials, max(exact, key=number), "C", seen([t for t in trials if t.value is not None]))
    sure = [t for t in bounds if t.detail("proof") not in UNSURE]
    highest = max(sure or ([] if exact else bounds), key=number, default=None)
    if highest is not None and all(number(t) < number(highest) for t in exact):
        return settled(trials, highest, "L", seen((*exact, *bounds)) if exact else {})
    if exact:
        return agreement_of(trials[0].knob, exact[0].unit)(trials, exact, bounds)
    # Of several failures, the one caused by the server and not by the trial; else the commonest.
    reasons = Counter(t.reason for t in trials)
    reason = max(reasons, key=lambda name: (name not in PASSING, reasons[name]))
    first = trials[0]
    return Observation(first.knob, None, reason, first.unit, first.method, "N", trials=tuple(trials))


def witnessed(trials: Sequence[Observation]) -> Sequence[Observation]:
    """Leave out a bound of a captured first flight that alone lies above every exact value.

    Its path or its ends may have been unlike those of the other connections; two of them refute.
    """
    bounds = [t for t in trials if t.grade == "L"]
    most = max((number(t) for t in trials if t.grade == "C"), default=None) if bounds else None
    higher = [t for t in bounds if most is not None and number(t) > most]
    lone = len(higher) == 1 and higher[0].method.startswith(CAPTURED)
    return [t for t in trials if t is not higher[0]] if lone else trials


def judge_knob(trials: Sequence[Observation]) -> tuple[Observation, Sequence[Observation]]:
    """Return one knob's verdict, which contradicts not all of its readings, and the readings that are `witnessed`."""
    kept = witnessed(trials)
    return upheld(merge(trials, kept), trials), kept


def merge_all(
    trials: Iterable[Observation], rules: Sequence[GradeRule] = RULES, judge: KnobJudge = judge_knob
) -> dict[str, Observation]:
    """Return verdicts by knob, in knob order; one that only several trials show (`across`) takes its knob's place.

    No verdict contradicts all trials of its knob. judge: `judge_knob`, or what returns the same and remembers it.
    """
    known = by_knob(trials)
    found = {knob: judge(readings) for knob, readings in known.items()}
    verdicts, sure = ({k: one for k, (one, _) in found.items()}, {k: kept for k, (_, kept) in found.items()})
    for rule in rules:
        if rule.across is not None and (verdict := rule.across(sure)) is not None:
            verdicts[verdict.knob] = upheld(verdict, known.get(verdict.knob, ()))
    return {knob: verdicts[knob] for knob in sorted(verdicts)}


def balanced(trials: Iterable[Observation]) -> Observation | None:
    """Return the verdict on load balancing alone, as `merge_all` has it."""
    return load_balancing.across({knob: witnessed(readings) for knob, readings in by_knob(trials).items()})
