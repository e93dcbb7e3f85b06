# SPDX-License-Identifier: MIT
"""What a prediction for each connection would cost in user space, beside a map that was made before.

Question   How many of the connections of a second can a program decide that predicts for each one?
Method     A second's connections at each rate, their places drawn from those of the study. Naive Bayes predicts MaxCwnd
           for each by itself, as the paper's daemon does; then for all of a second in one call; then windows are looked
           up in a map by prefix, made once. Processor seconds of this process, the least of `TAKES`.
Stop when  predicted; one by one at most `MOST_SINGLE` connections are, and the rest costs as much.
Reads as   `DaemonCost` by rate and way; share: of the connections that one core decides
Differs    no kernel is asked: the paper's 170 us hold its Web100 too. Seconds depend on the machine, and so these rows
           alone of the study are not the same with each run. In the product nothing is predicted while a connection
           waits; `python -m benchmarks.agent_cost --policy initial` has the kernel's look-up and the agent's share.
Source     Applied Learning Networks (ALN), its daemon: 170 us a connection, 10 % of connections at 5 000 a second
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from configtron.learner.initial.end_states import EndStates
from configtron.learner.initial.initial_strategies import windows_of
from configtron.learner.initial.naive_bayes import NaiveBayes, inputs_of, learned_from
from configtron.learner.initial.quantisation import MAX_CWND, target_bins

# Connections a second; the second and the last are the paper's.
RATES = (100, 500, 1000, 5000)
# Of one by one predictions; some milliseconds each.
MOST_SINGLE = 100
TAKES = 3
SINGLE, TOGETHER, LOOKED_UP = WAYS = ("one by one", "a second's together", "map by prefix")


class DaemonCost(NamedTuple):
    """us: processor time for each connection; core: share of one; share: of connections that one core decides."""

    rate: int
    way: str
    us: float
    core: float
    share: float


def daemon_costs(states: EndStates, seed: int) -> list[DaemonCost]:
    """Return a row for each rate and way. states: Null's, long ones, learned from."""
    rng = np.random.default_rng([seed, 2])
    model = learned_from(states, target_bins(states, MAX_CWND.name), len(MAX_CWND.values))
    windows = windows_of(model.predict(inputs_of(states)))
    table = dict(zip(states.prefix.tolist(), windows.tolist(), strict=True))
    found = []
    for rate in RATES:
        asked = states[rng.integers(len(states), size=rate)]
        single = [asked[at : at + 1] for at in range(min(rate, MOST_SINGLE))]
        seconds = {
            SINGLE: _seconds(partial(_predicted, model, single)) / len(single),
            TOGETHER: _seconds(partial(_predicted, model, [asked])) / rate,
            LOOKED_UP: _seconds(partial(_looked_up, table, asked.prefix.tolist())) / rate,
        }
        found += [DaemonCost(rate, way, 1e6 * each, rate * each, min(1.0, 1.0 / (rate * each)))
                  for way, each in seconds.items()]  # fmt: skip
    return found


def _predicted(model: NaiveBayes, asked: Sequence[EndStates]) -> None:
    for one in asked:
        windows_of(model.predict(inputs_of(one)))


def _looked_up(table: Mapping[str, object], prefixes: Sequence[str]) -> None:
    for one in prefixes:
        table.get(one)


def _seconds(work: Callable[[], object]) -> float:
    """Return the least processor time of some takes, s; not 0."""
    least = float("inf")
    for _ in range(TAKES):
        began = time.process_time()
        work()
        least = min(least, time.process_time() - began)
    return max(least, 1e-9)
