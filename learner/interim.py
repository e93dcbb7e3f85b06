# SPDX-License-Identifier: MIT
"""The looks at a log for knobs that do nothing: their times, and the false alarms that each may spend.

Question   A knob may do nothing: from which outcome on is it known?
Method     At 10 000 outcomes, and whenever they have doubled. A repeated test will once be lucky: of the chance
           that a knob which does something (`SMALL`) is called dead, look j may use 1 / (j (j + 1)); all looks
           together use it up. The result is a function of the outcomes before, so a log that is read in parts, or
           again, gives the same result at the same outcome.
Stop when  never: looks become rare.
Reads as   the knobs to leave out from here on.
Fails as   none.
Source     Lan and DeMets 1983 (error that is spent over looks).
"""

from __future__ import annotations

from configtron.learner.contrasts import Contrasts
from configtron.learner.importance import DeadKnob

# The first look; as many as classes are made from.
FIRST = 10_000
# An effect of this share of page load time, root mean square over sessions, would have been seen. Less than a tensor is
# asked for (`importance.SMALL`), since a look that comes too early costs nothing: the next one has twice the outcomes.
SMALL = 0.03
# Logs in which a knob with just such an effect is called dead, at any look; of one with twice that, hardly any.
FALSE_ALARM = 0.05


def left(outcomes: int) -> int:
    """Return outcomes until the next look."""
    next_look = FIRST
    while next_look <= outcomes:
        next_look *= 2
    return next_look - outcomes


def share(outcomes: int) -> float:
    """Return the share of a knob's false alarms that the look after so many outcomes may use; 0: there is no look."""
    number, rest = divmod(outcomes, FIRST)
    if rest or not number or number & (number - 1):
        return 0.0
    look = number.bit_length()
    return FALSE_ALARM / (look * (look + 1))


def small(seen: Contrasts, outcomes: int) -> list[DeadKnob]:
    """Return the knobs that are dead by the first `outcomes` outcomes."""
    return [one for one in seen.found(share(outcomes)) if one.unseen <= SMALL]
