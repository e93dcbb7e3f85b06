# SPDX-License-Identifier: MIT
"""When runs that read a window agree.

Rules for this file: a value is given only where a run proved it; runs that proved a bound may support it, since a lost
tail, or a server without a round trip, only shortens what they show. No window shows more than it holds, so of unlike
exact values the largest is given; that there were others is a disagreement, of grade C and never hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from configtron.fingerprint.verdict import AGREE_B, count_grade, number, seen, settled
from configtron.fingerprint.window_proofs import SUPPORTS
from configtron.model.nouns import Observation


def agree_icw(
    trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]
) -> Observation:
    """The largest of what was proven.

    A needs three runs, two MSS values, and the consent of an edge run: its proof, or a server that refused SACK and so
    probes no tails.
    """
    counts = Counter(number(t) for t in exact)
    value = max(counts)
    best = next(t for t in exact if number(t) == value)
    if len(counts) > 1:
        return settled(trials, best, "C", seen((*exact, *bounds)))
    support = [t for t in bounds if t.detail("proof") in SUPPORTS and number(t) == value]
    agreeing = [*exact, *support]
    grade = count_grade(len(agreeing))
    consent = any(t.detail("sack_offered", t.detail("sack")) for t in exact)
    if grade == "A" and (len({t.detail("offered_mss", t.detail("mss")) for t in agreeing}) < AGREE_B or not consent):
        grade = "B"
    return settled(trials, best, grade)
