# SPDX-License-Identifier: MIT
"""The links that Indigo is trained on, and those that it is tried on without learning from them.

Names are of `configtron/lab/testbed/families.py`: emulated:MBIT/DELAY_MS/LOSS_PERCENT/QUEUE_PACKETS, delays one way.

Differs    from Indigo's training: a queue of `QUEUE_PACKETS` everywhere; rates of 100 and 200 Mbit/s in turns, since a
           packet costs the same at any rate; of Pantheon's six calibrated paths the odd ones, the even ones to judge.
Source     Yan and others, USENIX ATC 2018, section 4.2
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

MBIT, FAST_MBIT, DELAY_MS = (5, 10, 20, 50), (100, 200), (10, 20, 40, 80)
# The best window depends on the queue's length only where it is shorter than the path: here it never is, and a slow
# link's queue does not last for seconds.
QUEUE_PACKETS = 300
# Of Pantheon's six calibrated paths, rates in Mbit/s: those learned from, those held out.
CALIBRATED = {"pantheon:1": 0.57, "pantheon:3": 3.04, "pantheon:5": 77.72}
HELD_OUT = {"pantheon:2": 2.64, "pantheon:4": 100.42, "pantheon:6": 114.68}
# Neither rate nor delay is one of the grid's; the last three are outside of its range.
UNTRAINED = ((7, 15), (15, 30), (35, 60), (70, 25), (2, 30), (12, 4), (30, 150))
SMOKE, SMOKE_OTHER, SMOKE_HELD_OUT = ((3, 10), (4, 20)), (5, 15), "pantheon:2"
# A fast link is in every eighth round: one of eight in each.
TURNS = 8
# A flow has so many packets of the link's rate, within these seconds.
FLOW_MBIT, LEAST_S, MOST_S = 50.0, 2.0, 6.0


class TrainingLink(NamedTuple):
    """name: of the condition; seconds: of a flow; turn: in which of `TURNS` rounds it is, None for each; kind: which
    row of the report it belongs to."""

    name: str
    seconds: float
    turn: int | None = None
    kind: str = "trained"


def links(smoke: bool = False) -> tuple[TrainingLink, ...]:
    """Return all links that are learned from; smoke: two, for a look at the whole way."""
    if smoke:
        return tuple(TrainingLink(_grid(mbit, delay), LEAST_S) for mbit, delay in SMOKE)
    slow = [TrainingLink(_grid(mbit, delay), _seconds(mbit)) for mbit, delay in product(MBIT, DELAY_MS)]
    fast = [
        TrainingLink(_grid(mbit, delay), _seconds(mbit), turn=at % TURNS)
        for at, (mbit, delay) in enumerate(product(FAST_MBIT, DELAY_MS))
    ]
    return (*slow, *fast, *(TrainingLink(name, _seconds(mbit)) for name, mbit in CALIBRATED.items()))


def links_of_round(number: int, smoke: bool = False) -> list[TrainingLink]:
    """Return the links of a round, counted from 0; the first has all."""
    return [link for link in links(smoke) if link.turn is None or not number or link.turn == number % TURNS]


def other_links(smoke: bool = False) -> tuple[TrainingLink, ...]:
    """Return the links that are only tried."""
    if smoke:
        return (TrainingLink(_grid(*SMOKE_OTHER), LEAST_S, kind="untrained"), held_out_link(SMOKE_HELD_OUT))
    untrained = [TrainingLink(_grid(*one), _seconds(one[0]), kind="untrained") for one in UNTRAINED]
    return (*untrained, *map(held_out_link, HELD_OUT))


def held_out_link(name: str) -> TrainingLink:
    """Return a calibrated path that is not learned from."""
    return TrainingLink(name, _seconds(HELD_OUT[name]), kind="calibrated")


def _grid(mbit: float, delay_ms: float) -> str:
    return f"emulated:{mbit:g}/{delay_ms:g}/0/{QUEUE_PACKETS}"


def _seconds(mbit: float) -> float:
    return round(min(MOST_S, max(LEAST_S, FLOW_MBIT / mbit)), 1)
