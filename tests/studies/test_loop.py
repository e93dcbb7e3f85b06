# SPDX-License-Identifier: MIT
"""The loop: the same bits whatever the batch, after a resume too; late feedback, managers, metrics; distorted worlds,
noise, and clients seen by their own sessions alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.cli.replay.session_flags import DISTORT
from configtron.learner import Setting, policy
from configtron.learner.classes import Classes
from configtron.model.errors import BadInput
from configtron.model.tensor import Tensor
from configtron.studies.sim.distortions import BAD_SHARE, DISTORTIONS, UNKNOWN_SHARE, UNMEASURED_SHARE, distorted
from configtron.studies.sim.loop import Replay, loads
from configtron.studies.sim.metrics import mean, measure, over, quantile
from configtron.studies.sim.noise import NO_NOISE, Noise
from configtron.studies.sim.sessions import Arrivals, Sessions, drawn, drifted, on
from configtron.studies.sim.world import World, world
from configtron.studies.simulated.watched import Watched, watched
from tests.support.worlds import small_classes, small_tensor

TENSOR = small_tensor()
CLASSES = small_classes(TENSOR)
HOW = Arrivals(prefixes=60)


def replay(name: str = "mab_nc", n: int = 1500, managers: int = 1, **how: object) -> Replay:
    sessions = drawn(TENSOR, n, np.random.default_rng(1), HOW)
    setting = Setting(TENSOR.grid, TENSOR.sites, CLASSES, np.random.default_rng(2), 0, None, TENSOR)
    made = [policy(name, replace(setting, rng=np.random.default_rng(2 + at))) for at in range(managers)]
    pop = np.arange(60) % managers
    return Replay(sessions, TENSOR, made, np.random.default_rng(9), pop=pop, **{"interval_s": 20.0, **how})


@pytest.mark.parametrize(("name", "managers"), [("mab_nc", 1), ("configtron", 1), ("mab_nc", 3)])
def test_batches_do_not_show(name: str, managers: int) -> None:
    one, other = replay(name, managers=managers), replay(name, managers=managers, batch=7)
    one.run()
    other.run()
    assert (one.plt_ms_ == other.plt_ms_).all()
    assert (one.decisions_.configuration == other.decisions_.configuration).all()
    assert [p.save() for p in one.managers] == [p.save() for p in other.managers]


@pytest.mark.parametrize("at", [3, 700])
def test_a_resumed_replay_goes_on_alike(at: int) -> None:
    whole, first, second = replay(managers=2), replay(managers=2), replay(managers=2)
    whole.run()
    first.run(at)
    second.restore(first.save())
    second.run()
    assert (whole.plt_ms_ == second.plt_ms_).all() and whole.save() == second.save()


def test_a_foreign_replay_is_refused() -> None:
    with pytest.raises(BadInput, match="1500 sessions and 1 managers"):
        replay(n=10).restore(replay().save())
    with pytest.raises(BadInput):
        replay(managers=2).restore(replay().save())
    with pytest.raises(BadInput, match="interval"):
        replay(interval_s=0.0)


def test_what_is_not_back_yet_teaches_nothing() -> None:
    soon, never = replay(), replay(delay_s=1e9)
    soon.run()
    never.run()
    assert never.observed_ == 0 and soon.observed_ > 1000 and soon.updates_ == never.updates_ > 3
    assert len(never.waiting_) == never.at_ and len(soon.waiting_) + soon.observed_ == soon.at_
    assert soon.managers[0].cells.tally_.count.sum() > 1000  # type: ignore[attr-defined]
    assert never.managers[0].cells.tally_.count.sum() == 0  # type: ignore[attr-defined]


def test_a_load_teaches_when_it_has_ended() -> None:
    """Slow loads come back late: what a manager knows at a tick are the loads that have ended by then."""
    one = replay("mab_nc", delay_s=2.0)
    one.run(1000)
    back_s = one.sessions.at_s[:1000] + one.plt_ms_[:1000] / 1000.0 + 2.0
    known = one.updates_ * one.interval_s
    assert set(np.flatnonzero(back_s > known)) == set(one.waiting_) and (one.plt_ms_[one.waiting_] > 30_000).any()
    at_once = replay("mab_nc", delay_s=2.0, at_once=True)
    at_once.run(1000)
    assert at_once.observed_ > one.observed_


def test_a_quiet_century_costs_no_ticks() -> None:
    """Without outcomes there is nothing to update by: the clock goes on, and how far does not show."""
    late = []
    for quiet_s in (1e4, 6e9):
        one = replay("configtron", n=400, interval_s=1.0)
        one.sessions = replace(one.sessions, at_s=one.sessions.at_s + np.where(np.arange(400) < 200, 0.0, quiet_s))
        one.run()
        assert one.updates_ > 0.9 * quiet_s and one.observed_ > 200
        late.append(one)
    assert (late[0].plt_ms_ == late[1].plt_ms_).all()


def test_local_managers_see_their_own_clients_only() -> None:
    local = replay(managers=3)
    local.run()
    seen = [p.cells.tally_.count.sum() for p in local.managers]  # type: ignore[attr-defined]
    reported = np.setdiff1d(np.arange(local.at_), local.waiting_)
    expected = np.bincount(local.manager[reported], minlength=3)
    assert seen == list(expected) and min(expected) > 100


def test_a_change_half_way_mixes_two_networks_and_default_is_default() -> None:
    sessions = drawn(TENSOR, 2, np.random.default_rng(1), HOW)
    none, every = np.zeros(2, dtype=np.int64), slice(0, 2)
    begun = TENSOR.lookup(none, none, sessions.seen.site)
    then = TENSOR.lookup(none + 5, none, sessions.seen.site)
    half = replace(sessions, condition=none, after=none + 5, change_s=np.array([begun[0] / 2000.0, np.inf]))
    found = loads(half, TENSOR, none, every)
    assert found[0] == pytest.approx((begun[0] + then[0]) / 2) and found[1] == begun[1] and found[0] != begun[0]
    best, untouched = replay("optimal"), replay("default")
    best.run()
    untouched.run()
    assert measure(best).median.value == 0.0 and measure(best).excess_ms.value == pytest.approx(0.0, abs=1e-9)
    default = measure(untouched)
    assert default.gain.value == default.worse.value == 0.0 and dict(default.arms) == {"default": 1.0}
    assert default.median.low < default.median.value < default.median.high


def test_drift_is_believed_when_it_is_noticed() -> None:
    sessions = drawn(TENSOR, 2000, np.random.default_rng(1), HOW)
    moved = drifted(sessions, TENSOR, np.random.default_rng(2), at_s=60.0, noticed_s=40.0)
    changed = moved.condition != sessions.condition
    reported = moved.seen.rtt_ms != sessions.seen.rtt_ms
    assert not changed[sessions.at_s < 60].any() and 0.2 < changed[sessions.at_s >= 60].mean() < 0.8
    assert not reported[sessions.at_s < 100].any() and reported[sessions.at_s >= 100].any()


def test_columns_must_fit_and_networks_land_on_their_nearest_condition() -> None:
    sessions = drawn(TENSOR, 3, np.random.default_rng(1), HOW)
    with pytest.raises(BadInput, match="order of arrival"):
        replace(sessions, at_s=sessions.at_s[::-1].copy())
    with pytest.raises(BadInput, match="rows"):
        Sessions(sessions.at_s[:2], sessions.condition, sessions.change_s, sessions.after, sessions.seen)
    assert (on(TENSOR, TENSOR.bandwidth_kbps * 1.01, TENSOR.rtt_ms, TENSOR.loss) == np.arange(24)).all()


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Sessions of one prefix are alike: as independent ones they would promise three times too much."""
    rng = np.random.default_rng(4)
    whose = rng.integers(60, size=(300, 600))
    of_a_prefix, own = rng.exponential(1.0, (300, 60)), np.exp(0.1 * rng.standard_normal((300, 600)))
    draws, alone = of_a_prefix[np.arange(300)[:, None], whose] * own, np.arange(600)
    for found, truth in ((lambda row, by: quantile(row, 0.5, by), np.log(2)), (mean, np.exp(0.005))):
        both = [(found(row, by), found(row, alone)) for row, by in zip(draws, whose, strict=True)]
        clustered, apart = np.mean([[one.low <= truth <= one.high for one in pair] for pair in both], axis=0)
        assert 0.90 < clustered < 0.99 and apart < 0.75
    one = mean(draws[0], np.zeros(600, dtype=np.int64))
    assert one.value > 0 and one.high == np.inf
    assert over([1.0, 2.0, 3.0]).low == pytest.approx(2.0 - 4.3027 / np.sqrt(3), abs=1e-4)
    assert NO_NOISE.factors(3, rng).tolist() == [1.0] * 3


def test_noise_is_the_same_at_once_and_one_by_one() -> None:
    one, many, noise = np.random.default_rng(7), np.random.default_rng(7), Noise()
    single = np.concatenate([noise.factors(1, one) for _ in range(500)])
    assert (single == noise.factors(500, many)).all()


def test_noise_has_its_median_spread_and_tail() -> None:
    factors = Noise().factors(200_000, np.random.default_rng(1))
    assert abs(float(np.median(factors)) - 1.0) < 0.03
    body = Noise(tail_share=0.0).factors(200_000, np.random.default_rng(1))
    assert abs(float(np.log(body).std()) - 0.12) < 0.002
    assert 0.004 < float((factors > 1.8).mean()) < 0.02
    assert (NO_NOISE.factors(5, np.random.default_rng(1)) == 1.0).all()


TENSOR, WARM = small_tensor(), small_tensor(seed=9)
HERE = world(TENSOR, 2000, 80_000, warm=WARM, classes=6, arrivals=Arrivals(prefixes=60))


def distorted_replay(here: World, name: str = "mab_nc", **how: object) -> Replay:
    found = Replay(here.sessions, here.tensor, [here.policy(name)], here.noise(), interval_s=20.0, reports=here.reports,
                   **how)  # type: ignore[arg-type]  # fmt: skip
    found.run()
    return found


@pytest.mark.parametrize("name", DISTORTIONS)
def test_batches_do_not_show_in_a_distorted_world_and_what_happened_is_the_tensors(name: str) -> None:
    here = distorted(HERE, [name])
    one, other = distorted_replay(here), distorted_replay(distorted(HERE, [name]), batch=7)
    assert (one.plt_ms_ == other.plt_ms_).all() and one.managers[0].save() == other.managers[0].save()
    medians = distorted_replay(here, "default").median_ms_
    expected = here.tensor.median_ms[here.sessions.condition, TENSOR.grid.default, here.sessions.seen.site]
    stays = np.isinf(here.sessions.change_s)
    assert np.allclose(medians[stays], expected[stays])
    assert measure(one).sessions == (2000 if here.reports is None else here.reports.client.sum())


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


def test_distortions_combine_in_order_and_the_command_names_each() -> None:
    both = distorted(HERE, ["clocks", "bots"]).reports
    assert both is not None and (both.fixed_ms == 1.0).any() and (both.factor[both.client] != 1.0).any()
    assert distorted(HERE, []) is HERE and DISTORT.split(", ") == list(DISTORTIONS)
    with pytest.raises(BadInput, match="no distortion is called 'fog'; there is: bots, crawler"):
        distorted(HERE, ["bots", "fog"])


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
    true = tensor.rtt_ms[there.condition[2800:]]
    off, stale = (np.abs(np.log(one.seen.rtt_ms[2800:] / true)) for one in (found.sessions, there))
    assert np.median(off) < 0.05 < 0.2 < np.median(stale)
