# SPDX-License-Identifier: MIT
"""What each strategy made of the same transfers: speed-ups and harm.

Question   How much sooner do transfers end under each strategy than under Null, and which are worse off?
Method     Each transfer ran under every strategy, over the same path with the same seed, so a speed-up is of one
           transfer: Null's seconds over the strategy's. Means have intervals of a bootstrap over prefixes.
Reads as   `LiveRow` by strategy and round-trip band
Differs    the paper compares connections with others that were not tuned. What one log of draws shows of each strategy
           is in `strategy_values.py`.
Source     Applied Learning Networks (ALN), Figures 20 to 24
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.initial_strategies import STRATEGIES, WindowClass
from configtron.studies.initial_states.clients_world import Transfer
from configtron.studies.initial_states.transfer_orders import Transferred

# ms; the second is where the paper's speed-up is largest.
BANDS = ((10.0, 50.0), (50.0, 100.0), (100.0, 200.0), (200.0, 400.0), (400.0, 700.0))
BEST_BAND = (100.0, 200.0)
# A transfer is better or worse from here on: a tenth of a per cent is the clock's and the queue's last packet.
SAME, HARMED = 0.001, 0.05
RESAMPLES, WITHIN = 400, 95


class LiveTransfers(NamedTuple):
    """Transfers that ran under every strategy: (n, strategies) seconds, losses of the first flight, packets sent."""

    transfers: Sequence[Transfer]
    classes: Sequence[WindowClass]
    seconds: Floats
    early: Floats
    packets: Floats

    @property
    def speed_ups(self) -> Floats:
        """Return (n, strategies) Null's seconds over each strategy's."""
        found: Floats = self.seconds[:, :1] / self.seconds
        return found

    def some(self, which: Codes) -> LiveTransfers:
        """Return these rows."""
        rows = which.tolist()
        return LiveTransfers([self.transfers[at] for at in rows], [self.classes[at] for at in rows],
                             self.seconds[which], self.early[which], self.packets[which])  # fmt: skip


class LiveRow(NamedTuple):
    """One strategy over some transfers.

    mean, low, high   of the speed-up, with a 95 % interval
    better, worse     shares of transfers that took less or more than Null's time, by more than a thousandth
    harmed            share that took over 5 % longer
    p95               95th percentile of Null's seconds over the strategy's
    early             segments of the first flight lost per segment sent, less Null's
    """

    strategy: str
    transfers: int
    mean: float
    low: float
    high: float
    better: float
    worse: float
    harmed: float
    p95: float
    early: float


def live_transfers(
    asked: Sequence[tuple[Transfer, WindowClass]], found: Sequence[tuple[Transfer, Transferred]]
) -> LiveTransfers:
    """Return the transfers whose every strategy has a result."""
    by = {(transfer.seed, transfer.window): result for transfer, result in found}
    whole = [
        (transfer, one, [by[transfer.seed, window] for window in one.windows])
        for transfer, one in asked
        if all((transfer.seed, window) in by for window in one.windows)
    ]
    shape = (len(whole), len(STRATEGIES))
    columns = [
        np.array([[float(getattr(result, name)) for result in results] for _, _, results in whole]).reshape(shape)
        for name in ("seconds", "early", "packets_out")
    ]
    return LiveTransfers([one[0] for one in whole], [one[1] for one in whole], *columns)


def orders_of(asked: Sequence[tuple[Transfer, WindowClass]]) -> list[Transfer]:
    """Return every transfer under each of its different windows."""
    return [transfer._replace(window=window) for transfer, one in asked for window in sorted(set(one.windows))]


def live_rows(live: LiveTransfers, rng: np.random.Generator) -> list[LiveRow]:
    """Return a row a strategy; Null's is 1 by definition."""
    gains, blocks = live.speed_ups, _blocks(live)
    picks = [np.concatenate([blocks[at] for at in rng.integers(len(blocks), size=len(blocks))])
             for _ in range(RESAMPLES)]  # fmt: skip
    means = np.array([gains[pick].mean(axis=0) for pick in picks])
    low, high = np.percentile(means, [(100 - WITHIN) / 2, (100 + WITHIN) / 2], axis=0)
    p95 = np.percentile(live.seconds, 95, axis=0)
    lost = live.early.sum(axis=0) / live.packets.sum(axis=0)
    return [
        LiveRow(
            strategy, len(gains), float(gains[:, at].mean()), float(low[at]), float(high[at]),
            float((gains[:, at] > 1 + SAME).mean()), float((gains[:, at] < 1 - SAME).mean()),
            float((gains[:, at] < 1 / (1 + HARMED)).mean()), float(p95[0] / p95[at]), float(lost[at] - lost[0]),
        )
        for at, strategy in enumerate(STRATEGIES)
    ]  # fmt: skip


def _blocks(live: LiveTransfers) -> list[Codes]:
    prefixes = np.array([transfer.prefix for transfer in live.transfers])
    return [np.flatnonzero(prefixes == one) for one in np.unique(prefixes)]


def in_band(live: LiveTransfers, band: tuple[float, float]) -> LiveTransfers:
    """Return the transfers whose path has such a round trip, ms."""
    trips = np.array([transfer.rtt_ms for transfer in live.transfers])
    return live.some(np.flatnonzero((trips >= band[0]) & (trips < band[1])))
