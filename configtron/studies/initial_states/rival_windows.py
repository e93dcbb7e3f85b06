# SPDX-License-Identifier: MIT
"""Initial windows of rivals by the connections that ended before.

Question   Which window does a rival give a transfer, by what it knew when the transfer began?
Method     null          the untouched stack, 10 segments; no rival at all
           fixed-32, fixed-100   constants; fixed 10 is null
           paced-20      twice the stack's window over one round trip, as Rapid Start's first flight
           last-value    the last MaxCwnd of the prefix
           average       a moving average of the prefix's MaxCwnd, `SHARE` the newest, as Riptide
           tcp-metrics   Linux's own memory: an earlier transfer over the same path, of the size of the prefix's last
           pred-low      naive Bayes, its mean rounded low (ALN)
           half-quantile the rule: half of the 25 % quantile, paced, less where the handshake shows a standing queue
                         (`learner.initial.half_quantile`)
           All windows are at most `MOST_INITIAL`. A prefix never seen has null's window under the three rivals that
           remember prefixes.
Reads as   `RivalTrial`s of each transfer, by the order of `ARMS`
Differs    Riptide averages live connections' windows; here those of ended ones. Rapid Start goes on by tripling, which
           no socket of Linux does.
Source     Riptide (CoNEXT 2016); draft-kazuho-ccwg-rapid-start; Linux tcp_metrics; Applied Learning Networks (ALN)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.censored_hierarchy import WindowModel
from configtron.learner.initial.end_states import DEFAULT_WINDOW, EndStates
from configtron.learner.initial.half_quantile import windows_of_clients
from configtron.learner.initial.initial_strategies import MOST_INITIAL, PRED_LOW, STRATEGIES, windows_of
from configtron.learner.initial.naive_bayes import inputs_of, learned_from, network_around
from configtron.learner.initial.quantisation import MAX_CWND, target_bins
from configtron.learner.initial.round_trip_classes import medians_of
from configtron.model.errors import BadInput
from configtron.studies.initial_states.clients_world import Transfer
from configtron.studies.initial_states.trials import RivalTrial

NULL, CONSTANT, LARGE, PACED, LAST, AVERAGE, METRICS, BAYES, RULE = ARMS = (
    "null", "fixed-32", "fixed-100", "paced-20", "last-value", "average", "tcp-metrics", "pred-low", "half-quantile",
)  # fmt: skip
CONSTANTS = {CONSTANT: 32, LARGE: 100, PACED: 2 * DEFAULT_WINDOW}
PACING = (PACED, RULE)
# The newest connection's share of a moving average.
SHARE = 0.25


def remembered(states: EndStates) -> dict[str, tuple[int, int, int]]:
    """Return the last MaxCwnd of each prefix, its moving average, and the bytes of its last transfer (packets)."""
    found: dict[str, tuple[float, float, int]] = {}
    rows = zip(states.prefix.tolist(), states.max_cwnd.tolist(), states.packets_out.tolist(), strict=True)
    for prefix, window, packets in rows:
        average = SHARE * window + (1 - SHARE) * found[prefix][1] if prefix in found else window
        found[prefix] = (window, average, int(packets))
    return {prefix: (int(last), int(average), packets) for prefix, (last, average, packets) in found.items()}


def saved_round_trips(medians: Mapping[str, float], prefixes: Sequence[str]) -> Floats:
    """Return (n,) median round trips, ms, of each prefix, else of its network; NaN where neither is known.

    medians   of prefixes and networks (`round_trip_classes.medians_of`)
    """
    return np.array([medians.get(prefix, medians.get(network_around(prefix), np.nan)) for prefix in prefixes])


def rival_windows(states: EndStates, asked: EndStates) -> Codes:
    """Return (n, arms) windows, 0: untouched. states: Null's long transfers, in order."""
    found = np.zeros((len(asked), len(ARMS)), dtype=np.int64)
    for arm, window in CONSTANTS.items():
        found[:, ARMS.index(arm)] = window
    known = remembered(states)
    memory = np.array([known.get(prefix, (0, 0, 0))[:2] for prefix in asked.prefix.tolist()]).reshape(-1, 2)
    found[:, [ARMS.index(LAST), ARMS.index(AVERAGE)]] = np.minimum(memory, MOST_INITIAL)
    model = learned_from(states, target_bins(states, MAX_CWND.name), len(MAX_CWND.values))
    found[:, ARMS.index(BAYES)] = windows_of(model.predict(inputs_of(asked)))[:, STRATEGIES.index(PRED_LOW)]
    with suppress(BadInput):
        # of lower bounds alone nothing is learned, and the rule leaves the stack alone
        found[:, ARMS.index(RULE)] = windows_of_clients(WindowModel(states), asked)
    return found


def trials_of(fresh: Sequence[Transfer], windows: Codes, states: EndStates, *, competing: bool) -> list[RivalTrial]:
    """Return the trials of each transfer that differ: what has null's window and no memory is null's."""
    known, found, saved = remembered(states), list[RivalTrial](), saved_ms(states, fresh)
    for transfer, row in zip(fresh, windows.tolist(), strict=True):
        for arm, window in zip(ARMS, row, strict=True):
            warm_bytes = known.get(transfer.prefix, (0, 0, 0))[2] * 1448 if arm == METRICS else 0
            if arm == NULL or window or warm_bytes:
                trip = saved[transfer.prefix] if arm == RULE else 0.0
                found.append(
                    RivalTrial(transfer._replace(window=window), arm, arm in PACING, warm_bytes, competing, trip)
                )
    return found


def saved_ms(states: EndStates, fresh: Sequence[Transfer]) -> dict[str, float]:
    """Return the saved round trip of each transfer's prefix, else of its network; 0 where neither is known."""
    prefixes = sorted({one.prefix for one in fresh})
    trips = np.nan_to_num(saved_round_trips(medians_of(states), prefixes))
    return dict(zip(prefixes, np.round(trips, 3).tolist(), strict=True))
