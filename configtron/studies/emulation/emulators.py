# SPDX-License-Identifier: MIT
"""Pantheon's five numbers as a space to search: what an emulator may be, and where measurements say that it is.

Question   Which rate, delay, queue, loss and kind may stand for a path of which only flows are known?
Method     A path carries what its best scheme got, and not much more; its delay is not longer than the least that any
           scheme saw. Both bound a box. Rate, delay and queue are searched by their logarithm, loss by a logarithm that
           has a nought, the kind is one of two. Besides its five coordinates a model is shown two that theory makes of
           them: the delay behind a full queue, and what Mathis's formula lets a loss-based flow have.
           Where to begin is read from the measurements: the rate of the fastest, the delay of the emptiest queue, the
           queue that makes the slowest delay, the loss that would hold the slowest loss-based flow where it is.
Differs    from Pantheon: it does not print its bounds. The way back has the way's rate and delay, no loss and an
           endless queue, as in its published emulators.
Source     Yan and others, "Pantheon: the training ground for Internet congestion-control research", USENIX ATC 2018,
           5.2; Mathis and others, CCR 1997
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

from configtron.lab.testbed.conditions import PACKET_BYTES, Condition
from configtron.lab.testbed.families import named
from configtron.learner.columns import Floats
from configtron.studies.emulation.replication import Seen

KINDS = ("constant", "poisson")
# What a full segment carries of a full packet.
SEGMENT_BYTES = 1448
# A queue of two packets is a policer; a thousand are more than Pantheon's longest.
QUEUES = (2.0, 1000.0)
# Beyond a tenth nothing but BBR moves; the least step off nought is one in ten thousand.
MOST_LOSS, LEAST_LOSS = 0.1, 1e-4
# Of the fastest scheme's throughput: below it no emulator reaches it, beyond it no scheme used two fifths of the path.
RATES = (0.9, 2.5)
# Of the least delay that a scheme had at its 95th percentile; on slow paths even that is queue, almost all of it.
DELAYS = (0.03, 1.05)
# Below any path that is not within one building.
LEAST_DELAY_MS = 1.0
# Digits kept of a number: an emulator is what its name says.
DIGITS = 4
# A start's rate, over the fastest scheme's; parts of the emptiest delay that may be propagation.
START_RATE, START_PARTS = 1.02, (0.9, 0.4)
LOSS_BASED = ("cubic", "reno")


@dataclass(frozen=True, slots=True)
class Emulator:
    """rate_mbit and delay_ms (one way) of the bottleneck, queue in packets, loss 0 to 1, kind of `KINDS`."""

    rate_mbit: float
    delay_ms: float
    queue: int
    loss: float
    kind: str

    @property
    def name(self) -> str:
        """What `families.named` makes the condition of."""
        words = f"emulated:{self.rate_mbit:g}/{self.delay_ms:g}/{100 * self.loss:g}/{self.queue}"
        return words + ("" if self.kind == "constant" else f"/{self.kind}")

    @property
    def full_ms(self) -> float:
        """One-way delay behind a full queue."""
        return self.delay_ms + self.queue * PACKET_BYTES * 8 / self.rate_mbit / 1e3

    @property
    def mathis_mbit(self) -> float:
        """What a flow gets that halves its window at each loss, on a path with an empty queue."""
        if not self.loss:
            return self.rate_mbit
        return min(self.rate_mbit, SEGMENT_BYTES * 8 / (2 * self.delay_ms) / 1e3 * math.sqrt(1.5 / self.loss))

    def condition(self) -> Condition:
        """The link. Errors: `BadInput`."""
        return named(self.name)


@dataclass(frozen=True, slots=True)
class Space:
    """What is searched: bounds of rate in Mbit/s and of one-way delay in ms; the rest is the same for all paths."""

    rates: tuple[float, float]
    delays: tuple[float, float]

    def emulator(self, unit: Floats) -> Emulator:
        """The emulator at a point of the unit cube: rate, delay, queue, loss, kind."""
        rate, delay, queue = (
            low * (high / low) ** float(at)
            for (low, high), at in zip((self.rates, self.delays, QUEUES), unit[:3], strict=True)
        )
        loss = LEAST_LOSS * ((1 + MOST_LOSS / LEAST_LOSS) ** float(unit[3]) - 1)
        kind = KINDS[int(unit[4] >= 0.5)]
        return Emulator(_short(rate), _short(delay), round(queue), _short(loss), kind)

    def unit(self, emulator: Emulator) -> Floats:
        """The inverse of `emulator`; what lies outside is brought to the edge."""
        pairs = zip(
            (emulator.rate_mbit, emulator.delay_ms, emulator.queue), (self.rates, self.delays, QUEUES), strict=True
        )
        first = [math.log(max(value, 1e-9) / low) / math.log(high / low) for value, (low, high) in pairs]
        loss = math.log1p(emulator.loss / LEAST_LOSS) / math.log1p(MOST_LOSS / LEAST_LOSS)
        whole: Floats = np.clip(np.array([*first, loss, float(KINDS.index(emulator.kind))]), 0.0, 1.0)
        return whole

    def coordinates(self, emulator: Emulator) -> Floats:
        """What the model is shown: the five, and theory's two, all about 0 to 1."""
        low, high = self.delays[0], self.delays[1] + QUEUES[1] * PACKET_BYTES * 8 / self.rates[0] / 1e3
        full = math.log(emulator.full_ms / low) / math.log(high / low)
        # a fiftieth of the least rate is nothing any more
        least = self.rates[0] / 50
        mathis = math.log(max(emulator.mathis_mbit, least) / least) / math.log(self.rates[1] / least)
        return np.append(self.unit(emulator), [full, mathis])


def space_of(path: Seen) -> Space:
    """What to search for a path with these figures."""
    fastest, emptiest = _fastest(path), _emptiest(path)
    delays = (max(LEAST_DELAY_MS, DELAYS[0] * emptiest), max(2 * LEAST_DELAY_MS, DELAYS[1] * emptiest))
    return Space((_short(RATES[0] * fastest), _short(RATES[1] * fastest)), (_short(delays[0]), _short(delays[1])))


def starts_of(path: Seen) -> list[Emulator]:
    """Where a search begins, as read from the path's figures; the likeliest first."""
    fastest, emptiest = _fastest(path), _emptiest(path)
    fullest = max(figures.delay_ms for figures in path.values())
    found = []
    for part, kind, is_lossy in product(START_PARTS, KINDS, (False, True)):
        rate, delay = START_RATE * fastest, part * emptiest
        queue = (fullest - delay) * rate * 1e3 / (PACKET_BYTES * 8)
        loss = _loss_of(path, delay) if is_lossy else 0.0
        found.append(Emulator(rate, delay, round(min(max(queue, QUEUES[0]), QUEUES[1])), loss, kind))
    space = space_of(path)
    return list(dict.fromkeys(space.emulator(space.unit(one)) for one in found))


def _loss_of(path: Seen, delay_ms: float) -> float:
    """At which Mathis's formula has the slowest loss-based flow."""
    slowest = min((path[s].mbit for s in LOSS_BASED if s in path), default=_fastest(path))
    packets = slowest * 1e3 / (SEGMENT_BYTES * 8) * 2 * delay_ms
    return min(MOST_LOSS, 1.5 / max(packets, 1e-3) ** 2)


def _fastest(path: Seen) -> float:
    return max(figures.mbit for figures in path.values())


def _emptiest(path: Seen) -> float:
    return min(figures.delay_ms for figures in path.values())


def _short(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")
