# SPDX-License-Identifier: MIT
"""Paths that a calibration is tried on: each a condition a run, of which the search sees only figures of flows.

Question   Does an emulator found from flows stand for the path, where the path is an emulator and where it is none?
Method     Hidden ones are drawn by seed from the emulators' own space: then what was drawn can be held against what
           was found. Foreign ones are of no five numbers: cellular traces met at another moment in each run, a link
           shared with another flow, one that changes while it is used, one whose acknowledgements come in bursts.
Reads as   `EmulatedPath`: what to run for its n-th run, and the truth where there is one.
Differs    from Pantheon, whose paths are the internet's: that is not here. Traces have a queue of `TRACE_QUEUE`
           packets; Mahimahi's have none, and behind those a flow of cubic is as late as it is long.
Source     Pantheon (Yan and others 2018), section 5.2
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from configtron.lab.testbed.conditions import Condition, LinkDirection
from configtron.lab.testbed.families import named, salt
from configtron.studies.emulation.emulators import KINDS, Emulator
from configtron.studies.flows.flows import Flow

HIDDEN, FOREIGN = "hidden", "foreign"
# Where hidden ones are drawn, by the logarithm: Mbit/s, ms one way, packets, fraction lost by every second.
RATES, DELAYS, QUEUES, LOSSES = (0.4, 1.6), (8.0, 90.0), (10.0, 120.0), (0.001, 0.03)
# As deep as phones' networks are: three seconds at 1 Mbit/s.
TRACE_QUEUE = 250
# Name -> ms of propagation, seconds of the trace (`cellular.LINKS`).
TRACES = {"commute": (30, 40), "walk": (40, 60)}
# Runs are this part of a trace apart, round and round: whichever runs are taken together, they meet all of it.
GOLDEN = (math.sqrt(5) - 1) / 2
# The rest of the foreign ones: Mbit/s, ms, packets.
CROSSED, GATHERED = (1.2, 20.0, 40), (1.2, 15.0, 40)
WANING = "emulated:1.4/25/0/40;2.5:emulated:0.7/40/0.5/40;5:emulated:1.4/25/0/40"
# The way of the acknowledgements lets ten packets go every 200 ms: Pantheon's emulator 14.
ACK_KBIT, ACK_BURST = 600.0, 10


@dataclass(frozen=True)
class EmulatedPath:
    """condition: of the n-th run; rivals: other flows that are always there; truth: what it is, if it is an emulator.

    kind   `HIDDEN` or `FOREIGN`
    """

    name: str
    kind: str
    words: str
    condition: Callable[[int], Condition]
    rivals: tuple[Flow, ...] = ()
    truth: Emulator | None = None


def hidden(count: int, seed: int, most_mbit: float = RATES[1]) -> list[EmulatedPath]:
    """Drawn from the emulators' space, the same for the same seed."""
    chance, found = random.Random(f"{seed} hidden paths"), []
    for number in range(1, count + 1):
        rate, delay, queue, loss = (
            low * (high / low) ** chance.random() for low, high in ((RATES[0], most_mbit), DELAYS, QUEUES, LOSSES)
        )
        kind = chance.choice(KINDS)
        truth = Emulator(round(rate, 3), round(delay, 2), round(queue), round(loss * (number % 2), 5), kind)
        words = "drawn from the emulators' space"
        found.append(EmulatedPath(f"hidden-{number}", HIDDEN, words, _always(truth.condition()), truth=truth))
    return found


def foreign() -> list[EmulatedPath]:
    """Of no five numbers."""
    traces = [
        EmulatedPath(name, FOREIGN, f"the cellular trace {name}, another moment each run", _trace(name))
        for name in TRACES
    ]
    rival = (Flow("cubic", rival=True),)
    return [
        *traces,
        EmulatedPath("crossed", FOREIGN, "shared with a flow of cubic", _always(_even("crossed", *CROSSED)), rival),
        EmulatedPath("waning", FOREIGN, "half the rate, later and lossy from 2.5 to 5 s", _always(named(WANING))),
        EmulatedPath("gathered", FOREIGN, "acknowledgements all 200 ms", _always(_gathered())),
    ]


def _always(condition: Condition) -> Callable[[int], Condition]:
    return lambda run: condition


def _trace(name: str) -> Callable[[int], Condition]:
    delay, seconds = TRACES[name]

    def at(run: int) -> Condition:
        offset = run * GOLDEN % 1 * seconds
        found = named(f"trace:{name}@{offset:.2f}+{delay}")
        return replace(found, down=replace(found.down, queue_packets=TRACE_QUEUE))

    return at


def _even(name: str, mbit: float, delay: float, queue: int) -> Condition:
    back = LinkDirection(mbit * 1e3, delay)
    return Condition(name, replace(back, queue_packets=queue), back, salt(name))


def _gathered() -> Condition:
    even = _even("gathered", *GATHERED)
    return replace(even, up=LinkDirection(ACK_KBIT, even.up.delay_ms, kind="bursts", burst_packets=ACK_BURST))
