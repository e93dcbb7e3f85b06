# SPDX-License-Identifier: MIT
"""Flows of Indigo's training on paths in pure Python, where the lab is too dear: beside `training_flows.in_guest`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from configtron.lab.schemes.indigo import Indigo
from configtron.lab.schemes.indigo_network import IndigoWeights, LearnedAction
from configtron.lab.testbed.families import named
from configtron.studies.indigo.packet_path import PacketPath, flow_on_path
from configtron.studies.indigo.training_flows import FlowFound, FlowOrder, RunFlows
from configtron.studies.indigo.window_expert import ExpertAction, FixedWindow, NotedAction
from configtron.studies.indigo.window_search import next_windows

# Of a flow with a fixed window, seconds; its second half counts.
SEARCH_S = 1.0


def on_paths() -> RunFlows:
    """Return what runs flows on such paths."""
    return lambda orders, weights: [_found(order, weights) for order in orders]


def path_of(link: str) -> PacketPath:
    """Return a condition's path. Errors: `BadInput` for a name that is none."""
    down = named(link).down
    rate, delay = down.rate_kbit / 1e3, down.delay_ms / 1e3
    return PacketPath(rate, delay, down.queue_packets, down.loss, down.kind == "poisson")


def _found(order: FlowOrder, weights: IndigoWeights | None) -> FlowFound:
    path, rng = path_of(order.link), np.random.default_rng(order.seed)
    if order.kind == "search":
        tried: dict[int, float] = {}
        while windows := next_windows(tried):
            tried.update({one: _power(path, one, rng) for one in windows})
        return FlowFound(order.link, NotedAction(ExpertAction(1)).steps(), tried)
    if order.kind == "expert":
        noted = NotedAction(ExpertAction(order.best))
    else:
        assert weights, "orders with weights"
        noted = NotedAction(LearnedAction(weights))
    flow_on_path(path, Indigo(noted), order.seconds, rng)
    return FlowFound(order.link, noted.steps(), {})


def _power(path: PacketPath, window: int, rng: np.random.Generator) -> float:
    """Return packets over seconds of one-way delay, of the second half of a flow with a fixed window."""
    log = flow_on_path(path, FixedWindow(window), SEARCH_S, rng)
    rtts: Sequence[float] = [rtt for at, rtt in zip(log.at_s, log.rtt_s, strict=True) if at >= SEARCH_S / 2]
    return len(rtts) / (float(np.percentile(rtts, 95)) - path.delay_s) if rtts else 0.0
