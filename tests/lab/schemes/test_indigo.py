# SPDX-License-Identifier: MIT
"""Indigo with the weights of this package, on paths without noise: where its window settles."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.lab.schemes.indigo import Indigo
from configtron.lab.schemes.indigo_network import LearnedAction, shipped
from configtron.studies.indigo.window_expert import NotedAction
from tests.support.scripted_path import FlowLog, ScriptedPath, Starting, run

SECONDS = 4.0


def driven(path: ScriptedPath) -> tuple[float, FlowLog]:
    """The window that a flow had in its second half, in the mean of its steps; and its log."""
    noted = NotedAction(LearnedAction(shipped()))
    (log,) = run(path, [Starting(Indigo(noted))], SECONDS)
    return float(noted.steps()[len(noted.states) // 2 :, 3].mean()), log


def test_the_weights_are_indigos_in_number_and_small_in_bytes() -> None:
    assert sum(part.size for part in shipped()) == 5541
    assert all(np.isfinite(part).all() for part in shipped())


@pytest.mark.parametrize(("mbit", "delay_s"), [(5.0, 0.02), (10.0, 0.04), (7.0, 0.03), (14.0, 0.015)])
def test_the_window_settles_where_the_path_is_just_full(mbit: float, delay_s: float) -> None:
    """Bandwidth times round trip, by the path's figures; the last two are between the links of the training."""
    window, log = driven(ScriptedPath(mbit, delay_s, 300))
    holds = mbit * 1e6 * 2 * delay_s / 8 / 1500 + 1
    assert window == pytest.approx(holds, rel=0.3, abs=6)
    later = log.between(SECONDS / 2, SECONDS)
    assert later.mbit > 0.8 * mbit and later.loss == 0.0 and later.queueing_s < delay_s
