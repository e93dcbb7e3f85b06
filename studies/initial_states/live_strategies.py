# SPDX-License-Identifier: MIT
"""What each strategy made of the same transfers: speed-ups, harm, and its value from one log with known chances.

Question   How much sooner do transfers end under each strategy than under Null, which are worse off, and does a log
           in which each connection drew one strategy show the same?
Method     Each transfer ran under every strategy, over the same path with the same seed, so a speed-up is of one
           transfer: Null's seconds over the strategy's. Means have intervals of a bootstrap over prefixes. For the log
           each transfer draws one strategy, by the kernel's hash of its address; self-normalised inverse propensities
           give each strategy's mean of ln(s), which its own run gives exactly.
Reads as   `LiveRow` by strategy and round-trip band, `OffPolicyRow` by strategy
Differs    the paper compares connections with others that were not tuned; it has no propensities
Source     Applied Learning Networks (ALN), Figures 20 to 24; Hesterberg (1995), for the weights
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.initial_strategies import STRATEGIES, WindowClass
from configtron.model.draw import HELD, Key, Plan, draws, unit_of
from configtron.studies.initial_states.clients_world import Transfer
from configtron.studies.initial_states.transfer_orders import Transferred

# ms; the second is where the paper's speed-up is largest.
BANDS = ((10.0, 50.0), (50.0, 100.0), (100.0, 200.0), (200.0, 400.0), (400.0, 700.0))
BEST_BAND = (100.0, 200.0)
# A transfer is better or worse from here on: a tenth of a per cent is the clock's and the queue's last packet.
SAME, HARMED = 0.001, 0.05
RESAMPLES, WITHIN = 400, 95
# Two-sided 95 % of the normal distribution.
Z95 = 1.959964
EPOCH = 7


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


class OffPolicyRow(NamedTuple):
    """A strategy's mean of ln(s): from the log, with its 95 % interval, and from its own run.

    drawn   connections; of none there is no estimate, NaN
    """

    strategy: str
    drawn: int
    estimate: float
    low: float
    high: float
    own: float

    @property
    def agrees(self) -> bool:
        """Return whether the interval holds the own run's."""
        return self.low <= self.own <= self.high


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


def drawn_log(live: LiveTransfers, seed: int) -> tuple[Codes, Floats]:
    """Return the arm that each transfer drew, by the kernel's hash, and its propensity: (n,), (n,)."""
    plan = Plan(Key(seed, seed + 1), EPOCH, not_after=1)
    # hosts of a prefix come in turn
    hosts = [unit_of(one.prefix.partition("/")[0]) + one.seed % 256 for one in live.transfers]
    units = np.array(hosts, dtype=np.uint64)
    arms, chances = np.zeros(len(units), dtype=np.int64), np.zeros(len(units))
    for kind in set(live.classes):
        mine = np.flatnonzero([one == kind for one in live.classes])
        arms[mine], chances[mine] = draws(plan, kind.mix(), units[mine])
    assert HELD not in arms, "a plan without a holdback"
    return arms, chances


def off_policy(live: LiveTransfers, seed: int) -> list[OffPolicyRow]:
    """Return each strategy's value from one log of draws, beside its own run's."""
    arms, chances = drawn_log(live, seed)
    logs = np.log(live.seconds)
    found = []
    for at, strategy in enumerate(STRATEGIES):
        weights = (arms == at) / chances
        own = float(logs[:, at].mean())
        if not weights.any():
            found.append(OffPolicyRow(strategy, 0, np.nan, np.nan, np.nan, own))
            continue
        values = logs[np.arange(len(arms)), arms]
        mean = float((weights * values).sum() / weights.sum())
        error = float(np.sqrt((weights**2 * (values - mean) ** 2).sum()) / weights.sum())
        drawn = int((arms == at).sum())
        found.append(OffPolicyRow(strategy, drawn, mean, mean - Z95 * error, mean + Z95 * error, own))
    return found
