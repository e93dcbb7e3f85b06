# SPDX-License-Identifier: MIT
"""Flows of Indigo's training in the lab's guest: best windows, steps, and the same bytes again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from configtron.lab.schemes.indigo_network import IndigoWeights
from configtron.studies.indigo.lstm_gradient import drawn_weights
from configtron.studies.indigo.training_flows import FlowFound, FlowOrder, RunFlows, found_bytes, in_guest
from configtron.studies.indigo.training_paths import on_paths
from configtron.studies.indigo.window_search import best_window

pytestmark = [pytest.mark.lab, pytest.mark.root]
LINK = "emulated:4/20/0/300"
# 4 Mbit/s times 40 ms, and half of the packet at the bottleneck, which is on its way or not.
HOLDS = 4e6 * 0.04 / 8 / 1500 + 0.5


@pytest.fixture(scope="module")
def run() -> RunFlows:
    return in_guest()


def both(orders: Sequence[FlowOrder], run: RunFlows, weights: IndigoWeights) -> tuple[list[FlowFound], list[FlowFound]]:
    """The lab's answer and the pure path's."""
    return run(orders, weights), on_paths()(orders, weights)


def test_the_lab_and_the_path_agree(run: RunFlows) -> None:
    weights = drawn_weights(np.random.default_rng(1))
    orders = [
        FlowOrder("search", LINK, 1.0, 1),
        FlowOrder("expert", LINK, 2.0, 1, 20.0),
        FlowOrder("learned", LINK, 1.0, 1),
    ]
    lab, path = both(orders, run, weights)
    assert [best_window(found[0].tried) for found in (lab, path)] == pytest.approx([HOLDS, HOLDS], abs=1.0)
    for expert in (lab[1].steps, path[1].steps):
        later = expert[len(expert) // 2 :]
        # ten packets and ten more: six too many for the link, which is full then
        assert (later[:, 3] == 20).all() and later[:, 1].mean() == pytest.approx(4.0, rel=0.12)
    assert 0.8 < len(lab[1].steps) / len(path[1].steps) < 1.25
    assert len(lab[2].steps) > 10
    # Virtual time, and chance by the orders' seeds. A boot's flows share its clock, so that all orders are repeated.
    assert found_bytes(run(orders, weights)) == found_bytes(lab)
