# SPDX-License-Identifier: MIT
"""Paths that change with time and differ by direction: each a condition for a direction and a moment.

Question   What does a path look like that a minute, an hour or the other direction makes another one?
Method     Cellular links by their traces, met at three moments. A satellite link that changes its satellite every 15 s,
           each with a rate and a delay of its own, met around three such changes. A link at home shared with other
           flows, of which the evening has more than the night. And one link that never changes and is the same both
           ways: what it shows is no change.
Reads as   `CHANGING`, and `STEADY`: name, and what to run at a moment in a direction.
Differs    from Pantheon, whose paths are the internet's: that is not here. The testbed sends from its servers to its
           client; the uplink is measured by exchanging the two directions of the link. Rates are small, so that a
           flow is few packets.
Source     Pantheon (Yan and others 2018), section 3; Starlink's changes every 15 s: Mohan and others, WWW 2024
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from configtron.lab.testbed.conditions import Condition, LinkChange, LinkDirection
from configtron.lab.testbed.families import named, salt
from configtron.studies.emulation.paths import GOLDEN, TRACE_QUEUE
from configtron.studies.flows.flows import Flow

DOWN, UP = DIRECTIONS = ("down", "up")
# Moments that each path is measured at; what they are differs by path.
MOMENTS = (0, 1, 2)
# Of a trace: its propagation in ms, and its length in s (`configtron/lab/testbed/cellular.py`).
TRACES = {"commute": (30, 40), "walk": (40, 60), "desk": (20, 30)}
# Mohan and others: the network assigns satellites anew at whole multiples of 15 s.
SATELLITE_S = 15
# Where runs on the satellite link begin: each meets one change, 3 to 6 s later.
SATELLITE_BEGINS_S = (9, 40, 69)
# Mbit/s down and up, ms one way: a tenth of Starlink's rates and the spread of its delays.
SATELLITE_DOWN, SATELLITE_UP, SATELLITE_MS = (4.0, 12.0), (0.8, 2.0), (18.0, 45.0)
# Mbit/s of the link at home; its propagation in ms; packets of queue.
HOME_DOWN, HOME_UP, HOME_MS, HOME_QUEUE = 6.0, 2.0, 15.0, 60
# Competing flows at night, at noon and in the evening: down, up.
HOME_RIVALS = {DOWN: (0, 1, 3), UP: (0, 0, 1)}
STEADY_MBIT, STEADY_MS, STEADY_QUEUE = 4.0, 25.0, 60
# Runs of one moment begin within so long: longer than a cellular rate stays, shorter than moments are apart.
APART_S = 3.0
# Lost by chance where no trace brings chance: a run is not the copy of another.
LOSS = 0.001
# Packets of a satellite link's queue.
SATELLITE_QUEUE = 80


@dataclass(frozen=True)
class ChangingPath:
    """forward: its condition at a moment, so many seconds later; rivals: how many other flows are there then."""

    name: str
    words: str
    forward: Callable[[int, float], Condition]
    rivals: Callable[[str, int], int] = lambda direction, moment: 0

    def condition(self, direction: str, moment: int, run: int) -> Condition:
        """Return what the n-th run at a moment meets."""
        found = self.forward(moment, later_s(run))
        return found if direction == DOWN else turned(found)

    def flows(self, scheme: str, direction: str, moment: int, run: int) -> tuple[Flow, ...]:
        """Return the measured flow, and the others, which start one after another."""
        rivals = [Flow("cubic", later_s(run + number), rival=True) for number in range(self.rivals(direction, moment))]
        return (Flow(scheme), *rivals)


def later_s(run: int) -> float:
    """Return how much later than the first run of a moment another one begins."""
    return round(run * GOLDEN % 1 * APART_S, 2)


def turned(condition: Condition) -> Condition:
    """Return the condition with its directions exchanged: what was up is measured as down."""
    steps = tuple(LinkChange(step.at_s, step.up, step.down) for step in condition.steps)
    return replace(condition, name=f"{condition.name} turned", down=condition.up, up=condition.down, steps=steps)


def _trace(name: str) -> Callable[[int, float], Condition]:
    delay, seconds = TRACES[name]

    def at(moment: int, later: float) -> Condition:
        found = named(f"trace:{name}@{moment * seconds / len(MOMENTS) + later:.2f}+{delay}")
        down, up = (replace(way, queue_packets=TRACE_QUEUE) for way in (found.down, found.up))
        return replace(found, down=down, up=up)

    return at


def _satellite(slot: int) -> tuple[LinkDirection, LinkDirection]:
    """Return the link by the satellite of a slot of 15 s."""
    chance = random.Random(f"satellite {slot}")
    down, up, delay = (chance.uniform(*span) for span in (SATELLITE_DOWN, SATELLITE_UP, SATELLITE_MS))
    return _link(down, delay, SATELLITE_QUEUE), _link(up, delay, SATELLITE_QUEUE)


def _link(mbit: float, delay: float, queue: int) -> LinkDirection:
    return LinkDirection(round(mbit * 1e3), round(delay, 1), LOSS, queue_packets=queue)


def _handover(moment: int, later: float) -> Condition:
    begin = SATELLITE_BEGINS_S[moment] + later
    slot = int(begin // SATELLITE_S)
    change = LinkChange(round((slot + 1) * SATELLITE_S - begin, 2), *_satellite(slot + 1))
    name = f"handover@{begin:g}"
    return Condition(name, *_satellite(slot), salt=salt(name), steps=(change,))


def _home(moment: int, later: float) -> Condition:
    del moment, later
    down, up = (_link(mbit, HOME_MS, HOME_QUEUE) for mbit in (HOME_DOWN, HOME_UP))
    return Condition("home", down, up, salt("home"))


def _steady(moment: int, later: float) -> Condition:
    del moment, later
    way = _link(STEADY_MBIT, STEADY_MS, STEADY_QUEUE)
    return Condition("steady", way, way, salt("steady"))


CHANGING = (
    *(ChangingPath(name, f"the cellular trace {name}, from three moments on", _trace(name)) for name in TRACES),
    ChangingPath("handover", "another satellite every 15 s, around three of the changes", _handover),
    ChangingPath("home", "beside other flows: at night, at noon, in the evening", _home,
                 lambda direction, moment: HOME_RIVALS[direction][moment]),
)  # fmt: skip
STEADY = ChangingPath("steady", "never changes, and is the same both ways", _steady)
