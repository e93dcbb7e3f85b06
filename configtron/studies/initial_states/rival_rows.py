# SPDX-License-Identifier: MIT
"""Speed-up, harm and the loss of a competing flow, by rival, over the same transfers.

Question   How much sooner do transfers end under each rival than under Null, how many are worse off, and who pays?
Method     Each transfer ran under every rival, over the same path with the same seed. Speed-ups are of one transfer;
           means have intervals of a bootstrap over prefixes, shares Wilson's. The competing flow's loss is of its bytes
           within a horizon that is the same for all, against Null's run.
Reads as   `RivalRow` by arm
Source     Wilson (1927); Efron (1979)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from configtron.fingerprint.diversity import wilson
from configtron.learner.columns import Codes, Floats
from configtron.studies.initial_states.clients_world import Transfer
from configtron.studies.initial_states.live_strategies import HARMED, RESAMPLES, SAME
from configtron.studies.initial_states.rival_windows import ARMS
from configtron.studies.initial_states.trials import RivalTrial, TrialResult


class ComparedTransfers(NamedTuple):
    """Transfers that ran under every arm: (n, arms) seconds, losses of the first flight, packets in all, bytes of the
    competing flow, packets of the first flight."""

    transfers: Sequence[Transfer]
    seconds: Floats
    early: Floats
    packets: Floats
    competing: Floats
    early_out: Floats

    def some(self, which: Codes) -> ComparedTransfers:
        """Return these rows."""
        return ComparedTransfers([self.transfers[at] for at in which.tolist()], *(one[which] for one in self[1:]))


class RivalRow(NamedTuple):
    """One arm over some transfers.

    mean, low, high      of the speed-up, with a 95 % interval
    better               share that took less than Null's time, by more than a thousandth
    harmed, _low, _high  share that took over 5 % longer
    p95, _low, _high     95th percentile of Null's seconds over the arm's
    early, _low, _high   losses of the first flight per segment sent in all, less Null's
    early_rate           losses of the first flight per segment sent in it, less Null's
    loses, _low, _high   share of its bytes that the competing flow did not get; NaN where there is none
    """

    arm: str
    transfers: int
    mean: float
    low: float
    high: float
    better: float
    harmed: float
    harmed_low: float
    harmed_high: float
    p95: float
    p95_low: float
    p95_high: float
    early: float
    early_low: float
    early_high: float
    early_rate: float
    loses: float
    loses_low: float
    loses_high: float


def compared_transfers(
    asked: Sequence[RivalTrial], pairs: Sequence[tuple[RivalTrial, TrialResult]]
) -> ComparedTransfers:
    """Return the long transfers whose every trial that was asked for ended; an arm without its own has Null's."""
    ended = {trial for trial, _ in pairs}
    failed = {trial.transfer.seed for trial in asked if trial not in ended}
    by: dict[int, dict[str, TrialResult]] = {}
    transfers: dict[int, Transfer] = {}
    for trial, result in pairs:
        by.setdefault(trial.transfer.seed, {})[trial.arm] = result
        transfers[trial.transfer.seed] = trial.transfer._replace(window=0)
    whole = [seed for seed, of in by.items() if seed not in failed and of[ARMS[0]].found.packets_out > 10]
    rows = [_row(by[seed]) for seed in whole]
    columns = np.array(rows, dtype=np.float64).reshape(len(rows), len(ARMS), 5)
    return ComparedTransfers([transfers[seed] for seed in whole], *(columns[:, :, at] for at in range(5)))


def _row(of: Mapping[str, TrialResult]) -> list[tuple[float, ...]]:
    found = [of.get(arm, of[ARMS[0]]) for arm in ARMS]
    return [(one.found.seconds, one.found.early, one.found.packets_out, one.competing_bytes, one.found.early_out)
            for one in found]  # fmt: skip


def rival_rows(compared: ComparedTransfers, rng: np.random.Generator, arms: Sequence[str] = ARMS) -> list[RivalRow]:
    """Return a row an arm, Null's first; its speed-up is 1 by definition."""
    gains = compared.seconds[:, :1] / compared.seconds
    rate = compared.early.sum(axis=0) / np.maximum(compared.early_out.sum(axis=0), 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        loses = 1.0 - compared.competing / compared.competing[:, :1]
    prefixes = np.array([one.prefix for one in compared.transfers])
    blocks = [np.flatnonzero(prefixes == one) for one in np.unique(prefixes)]
    picks = [np.concatenate([blocks[at] for at in rng.integers(len(blocks), size=len(blocks))])
             for _ in range(RESAMPLES)]  # fmt: skip
    mean, other = (_spans(values, picks) for values in (gains, loses))
    tails = _resampled(_tails, (compared.seconds,), picks)
    early = _resampled(_early, (compared.early, compared.packets), picks)
    count = len(gains)
    found = []
    for at, arm in enumerate(arms):
        harmed = int((gains[:, at] < 1 / (1 + HARMED)).sum())
        found.append(RivalRow(
            arm, count, *mean[at], float((gains[:, at] > 1 + SAME).mean()), harmed / count, *wilson(harmed, count),
            *tails[at], *early[at], float(rate[at] - rate[0]), *other[at],
        ))  # fmt: skip
    return found


def _spans(values: Floats, picks: Sequence[Codes]) -> list[tuple[float, float, float]]:
    """Return the mean of each column with its interval."""
    means = np.array([values[pick].mean(axis=0) for pick in picks])
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return list(zip(values.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True))


def _resampled(
    figures: Callable[..., Floats], columns: Sequence[Floats], picks: Sequence[Codes]
) -> list[tuple[float, float, float]]:
    """Return a figure of each arm with its interval. figures: of columns, (n, arms) each."""
    low, high = np.percentile([figures(*(one[pick] for one in columns)) for pick in picks], [2.5, 97.5], axis=0)
    return list(zip(figures(*columns).tolist(), low.tolist(), high.tolist(), strict=True))


def _tails(seconds: Floats) -> Floats:
    p95 = np.percentile(seconds, 95, axis=0)
    return np.asarray(p95[0] / p95)


def _early(early: Floats, packets: Floats) -> Floats:
    lost = early.sum(axis=0) / packets.sum(axis=0)
    return np.asarray(lost - lost[0])


def within(compared: ComparedTransfers, values: Floats, span: tuple[float, float]) -> ComparedTransfers:
    """Return the transfers whose value lies in a span."""
    return compared.some(np.flatnonzero((values >= span[0]) & (values < span[1])))
