# SPDX-License-Identifier: MIT
"""Distorted worlds: what is reported is false, what happened is not; batches do not show."""

from __future__ import annotations

import re

import numpy as np
import pytest

from configtron.cli.replay.session_flags import DISTORT
from configtron.model.errors import BadInput
from configtron.studies.sim.distortions import BAD_SHARE, DISTORTIONS, UNKNOWN_SHARE, UNMEASURED_SHARE, distorted
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.metrics import fared
from configtron.studies.sim.sessions import Arrivals
from configtron.studies.sim.world import World, world
from tests.support.worlds import small_tensor

TENSOR, WARM = small_tensor(), small_tensor(seed=9)
HERE = world(TENSOR, 2000, 80_000, warm=WARM, classes=6, arrivals=Arrivals(prefixes=60))


def replay(here: World, name: str = "mab_nc", **how: object) -> Replay:
    found = Replay(here.sessions, here.tensor, [here.policy(name)], here.noise(), interval_s=20.0, reports=here.reports,
                   **how)  # type: ignore[arg-type]  # fmt: skip
    found.run()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTORTIONS)
def test_batches_do_not_show_and_clients_are_judged_by_what_happened(name: str) -> None:
    here = distorted(HERE, [name])
    one, other = replay(here), replay(here, batch=7)
    assert (one.plt_ms_ == other.plt_ms_).all() and one.managers[0].save() == other.managers[0].save()
    assert replay(distorted(HERE, [name])).plt_ms_.tolist() == one.plt_ms_.tolist(), "the same seed, the same bits"
    medians = replay(here, "default").median_ms_
    expected = here.tensor.median_ms[here.sessions.condition, TENSOR.grid.default, here.sessions.seen.site]
    stays = np.isinf(here.sessions.change_s)
    assert np.allclose(medians[stays], expected[stays]), "what happened is the tensor's"
    assert fared(one).sessions == (2000 if here.reports is None else here.reports.client.sum())


def test_a_resumed_replay_goes_on_alike() -> None:
    here = distorted(HERE, ["clocks", "bots"])
    whole = replay(here)
    how = {"interval_s": 20.0, "reports": here.reports}
    first, second = (
        Replay(here.sessions, here.tensor, [here.policy("mab_nc")], here.noise(), **how)  # type: ignore[arg-type]
        for _ in range(2)
    )
    first.run(700)
    second.restore(first.save())
    second.run()
    assert second.save() == whole.save()


def reported(name: str) -> np.ndarray:
    """What is reported over what happened, without noise between them."""
    here = distorted(HERE, [name])
    assert here.reports is not None
    found: np.ndarray = here.reports.of(np.full(2000, 100.0), slice(0, 2000)) / 100.0
    return found


def test_what_is_reported_is_as_wrong_as_it_says() -> None:
    bots = reported("bots")
    assert (bots != 1.0).mean() == pytest.approx(BAD_SHARE, abs=0.03) and set(bots) == {0.01, 1.0, 1000.0}
    clocks = reported("clocks")
    assert (clocks != 1.0).mean() == pytest.approx(BAD_SHARE, abs=0.03)
    assert clocks.min() < 0.01 and clocks.max() > 100 and np.abs(np.log(clocks)).max() <= np.log(1000)
    tails = reported("tails")
    assert tails.min() == 1.0 and (tails > 2).mean() == pytest.approx(0.15, abs=0.03)
    day = reported("diurnal")
    assert day.max() / day.min() == pytest.approx(np.exp(1.4), rel=0.05)


def test_a_crawler_is_one_prefix_that_is_not_judged() -> None:
    here = distorted(HERE, ["crawler"])
    seen, client = here.sessions.seen, here.reports.client  # type: ignore[union-attr]
    assert set(seen.prefix[~client]) == {60} and (~client).mean() == pytest.approx(BAD_SHARE, abs=0.03)
    assert len(set(seen.bandwidth_kbps[~client])) == 1 and len(seen.prefixes) == 61


def test_features_are_wrong_where_they_say_and_networks_are_not() -> None:
    for name in ("wrong", "shuffled", "unknown-features"):
        here = distorted(HERE, [name])
        assert (here.sessions.condition == HERE.sessions.condition).all() and here.reports is None
    wrong = distorted(HERE, ["wrong"]).sessions.seen
    off = np.log(wrong.rtt_ms / HERE.sessions.seen.rtt_ms)
    assert 0.4 < off.std() < 0.8 and all(off[wrong.prefix == at].std() < 1e-12 for at in range(60))
    assert np.isnan(distorted(HERE, ["unknown-features"]).sessions.seen.loss).mean() == pytest.approx(
        UNKNOWN_SHARE, abs=0.03
    )
    stale = distorted(HERE, ["stale"]).sessions
    moved = stale.condition != HERE.sessions.condition
    assert 0.2 < moved.mean() < 0.5 and not moved[:500].any()
    assert (stale.seen.rtt_ms == HERE.sessions.seen.rtt_ms).all()


def test_the_warm_start_has_gaps_and_a_world_without_one_stays() -> None:
    warm = distorted(HERE, ["missing-cells"]).warm
    assert warm is not None and np.isnan(warm.median_ms).mean() == pytest.approx(UNMEASURED_SHARE, abs=0.01)
    cold = world(TENSOR, 50, 80_000, classes=6)
    assert distorted(cold, ["missing-cells"]) is cold


def test_distortions_combine_in_order() -> None:
    both = distorted(HERE, ["clocks", "bots"]).reports
    assert both is not None and (both.fixed_ms == 1.0).any() and (both.factor[both.client] != 1.0).any()
    assert distorted(HERE, []) is HERE
    with pytest.raises(BadInput, match="no distortion is called 'fog'; there is: bots, crawler"):
        distorted(HERE, ["bots", "fog"])


def test_the_command_names_every_distortion() -> None:
    assert re.split(", ", DISTORT) == list(DISTORTIONS)
