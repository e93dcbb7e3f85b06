# SPDX-License-Identifier: MIT
"""Each strategy's value from one log of draws, beside its own run and beside two controls.

Question   Does a log in which each connection drew one strategy, with a known chance, show what each strategy's own run
           shows, and would an estimate without information pass the same test?
Method     For the log each transfer draws one strategy, by the kernel's hash of its address. Values are means of ln(s),
           and of ln(s) less Null's. Three estimates: inverse propensities (IPS), the same normalised by the weights'
           sum (SNIPS), and DR: a model's answer for each transfer, corrected by its weighted errors where the strategy
           was drawn. The model is a ridge regression of ln(s) on ln(bytes) and ln(round trip), one for each strategy,
           learned from the other half of the prefixes. Two controls take the same test: silence, which has Null's value
           for every strategy, and a constant, the mean of the whole log. Intervals of 95 % are of sums by prefix. The
           own run is of the same transfers and has no error.
Stop when  summed.
Reads as   `OffPolicyRow` by strategy, estimate and value; `agrees`: the interval holds the own run's
Fails as   NaN where no transfer drew the strategy
Differs    ALN has no propensities. A control agrees where strategies differ by less than its interval is wide.
Source     Horvitz and Thompson (1952); Hesterberg (1995); Dudik, Langford and Li (2011); Liang and Zeger (1986)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.initial_strategies import NULL, STRATEGIES
from configtron.model.draw import HELD, Key, Plan, draws, unit_of
from configtron.studies.initial_states.live_strategies import LiveTransfers

IPS, SNIPS, DR = ESTIMATES = ("IPS", "SNIPS", "DR")
SILENCE, CONSTANT = CONTROLS = ("silence", "constant")
MEAN, LESS_NULL = VALUES = ("ln(s)", "less Null")
# Two-sided 95 % of the normal distribution.
Z95 = 1.959964
EPOCH = 7
# Weight of the ridge, in transfers: a strategy that few drew has its mean.
RIDGE = 5.0


class OffPolicyRow(NamedTuple):
    """A strategy's value: from the log, with its 95 % interval, and from its own run.

    drawn   connections; of none there is no estimate, NaN
    """

    strategy: str
    estimate: str
    value: str
    drawn: int
    mean: float
    low: float
    high: float
    own: float

    @property
    def agrees(self) -> bool:
        """Return whether the interval holds the own run's."""
        return self.low <= self.own <= self.high


def drawn_log(live: LiveTransfers, seed: int) -> tuple[Codes, Floats]:
    """Return the arm that each transfer drew, by the kernel's hash, and each arm's propensity: (n,), (n, arms)."""
    plan = Plan(Key(seed, seed + 1), EPOCH, not_after=1)
    # hosts of a prefix come in turn
    hosts = [unit_of(one.prefix.partition("/")[0]) + one.seed % 256 for one in live.transfers]
    units = np.array(hosts, dtype=np.uint64)
    arms, chances = np.zeros(len(units), dtype=np.int64), np.zeros((len(units), len(STRATEGIES)))
    for kind in set(live.classes):
        mine = np.flatnonzero([one == kind for one in live.classes])
        mix = kind.mix()
        arms[mine], own = draws(plan, mix, units[mine])
        chances[mine] = np.array(mix.weights) / sum(mix.weights)
        assert np.allclose(chances[mine, arms[mine]], own), "a draw's chance is its weight"
    assert HELD not in arms, "a plan without a holdback"
    return arms, chances


def off_policy(live: LiveTransfers, seed: int) -> list[OffPolicyRow]:
    """Return each strategy's value by each estimate and control, from one log of draws, beside its own run's."""
    arms, chances = drawn_log(live, seed)
    logs = np.log(live.seconds)
    seen = logs[np.arange(len(arms)), arms]
    prefixes = np.unique([one.prefix for one in live.transfers], return_inverse=True)[1]
    terms = estimate_terms(seen, arms, chances, _answers(live, seen, arms, prefixes))
    rows = []
    for estimate, phi in terms.items():
        for at, strategy in enumerate(STRATEGIES):
            drawn = int((arms == at).sum())
            rows.append(_row(strategy, estimate, MEAN, drawn, phi[:, at], logs[:, at], prefixes))
            if strategy != NULL:
                less, own = phi[:, at] - phi[:, 0], logs[:, at] - logs[:, 0]
                rows.append(_row(strategy, estimate, LESS_NULL, drawn, less, own, prefixes))
    return rows


def estimate_terms(seen: Floats, arms: Codes, chances: Floats, answers: Floats) -> dict[str, Floats]:
    """Return the (n, arms) terms whose means are the estimates. seen: (n,) outcomes of the arms that were drawn;
    answers: (n, arms) a model's, of which DR alone makes use."""
    weights = (arms[:, None] == np.arange(chances.shape[1])) / chances
    total = weights.mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (weights * seen[:, None]).mean(axis=0) / total
        normalised = means + weights * (seen[:, None] - means) / total
    corrected = answers + weights * (seen[:, None] - answers)
    absent = total <= 0
    found = {IPS: weights * seen[:, None], SNIPS: normalised, DR: corrected}
    found = {name: np.where(absent, np.nan, phi) for name, phi in found.items()}
    one = np.ones(chances.shape[1])
    return found | {SILENCE: normalised[:, :1] * one, CONSTANT: seen[:, None] * one}


def _answers(live: LiveTransfers, seen: Floats, arms: Codes, prefixes: Codes) -> Floats:
    """Return (n, arms) what a model of the other half of the prefixes answers for each transfer."""
    known = np.log([[one.size, one.rtt_ms] for one in live.transfers]).reshape(-1, 2)
    inputs = np.column_stack([np.ones(len(known)), known - known.mean(axis=0)])
    answers = np.zeros((len(seen), len(STRATEGIES)))
    for half in (0, 1):
        asked, learned = prefixes % 2 == half, prefixes % 2 != half
        answers[asked] = seen.mean()
        for at in range(len(STRATEGIES)):
            rows = learned & (arms == at)
            left = seen[rows] - seen.mean()
            squares = inputs[rows].T @ inputs[rows] + RIDGE * np.eye(inputs.shape[1])
            answers[asked, at] += inputs[asked] @ np.linalg.solve(squares, inputs[rows].T @ left)
    return answers


def _row(strategy: str, estimate: str, value: str, drawn: int, terms: Floats, own: Floats, prefixes: Codes
         ) -> OffPolicyRow:  # fmt: skip
    mean = float(terms.mean())
    sums = np.bincount(prefixes, weights=terms - mean)
    many = max(len(sums), 2)
    error = float(np.sqrt((sums**2).sum() * many / (many - 1))) / len(terms)
    return OffPolicyRow(strategy, estimate, value, drawn, mean, mean - Z95 * error, mean + Z95 * error,
                        float(own.mean()))  # fmt: skip
