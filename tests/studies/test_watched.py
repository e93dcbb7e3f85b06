# SPDX-License-Identifier: MIT
"""Clients seen by their own sessions alone: features that settle, and a move that is noticed and counted."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.learner.classes import Classes
from configtron.model.tensor import Tensor
from configtron.studies.sim.sessions import Arrivals, Sessions, drawn, drifted
from configtron.studies.simulated.watched import Watched, watched
from tests.support.worlds import small_classes, small_tensor

FEW = Arrivals(prefixes=40, change_share=0.0)


@pytest.fixture(scope="module")
def ground() -> tuple[Tensor, Classes, Sessions]:
    tensor = small_tensor()
    return tensor, small_classes(tensor), drawn(tensor, 3000, np.random.default_rng(5), FEW)


def seen(ground: tuple[Tensor, Classes, Sessions], sessions: Sessions, moved_s: float = np.inf) -> Watched:
    tensor, classes, _ = ground
    return watched(sessions, tensor, classes, np.random.default_rng(6), moved_s=moved_s)


@pytest.mark.slow
def test_features_settle_where_no_client_moves(ground: tuple[Tensor, Classes, Sessions]) -> None:
    tensor, _, sessions = ground
    found = seen(ground, sessions)
    off = np.log(found.sessions.seen.rtt_ms / tensor.rtt_ms[sessions.condition])
    # A median of fifty is seven times as sure as one sample; spikes of three times the round trip do not show.
    assert np.abs(off[2000:]).mean() < 0.03 and np.abs(off[2000:]).max() < 0.15
    assert not len(found.after) and found.restless < 0.01
    first = np.unique(sessions.seen.prefix, return_index=True)[1]
    assert (found.sessions.seen.rtt_ms[first] == sessions.seen.rtt_ms[first]).all()
    assert found.sessions.seen.site is sessions.seen.site


@pytest.mark.slow
def test_a_move_is_noticed_and_counted(ground: tuple[Tensor, Classes, Sessions]) -> None:
    tensor, classes, sessions = ground
    at_s = float(sessions.at_s[1500])
    there = drifted(sessions, tensor, np.random.default_rng(7), at_s=at_s, noticed_s=np.inf, share=1.0)
    found = seen(ground, there, at_s)
    known = found.after[~np.isnan(found.after)]
    assert len(found.after) > 15 and len(known) > 0.9 * len(found.after)
    # A new run is believed after three samples, and a median of three comes before that.
    assert 1 <= np.median(known) <= 8 and (found.waited_s[~np.isnan(found.after)] > 0).all()
    late = slice(2800, 3000)
    off = np.abs(np.log(found.sessions.seen.rtt_ms[late] / tensor.rtt_ms[there.condition[late]]))
    stale = np.abs(np.log(there.seen.rtt_ms[late] / tensor.rtt_ms[there.condition[late]]))
    assert np.median(off) < 0.05 < 0.2 < np.median(stale)
    again = seen(ground, there, at_s)
    assert (again.sessions.seen.rtt_ms == found.sessions.seen.rtt_ms).all() and again.restless == found.restless
