# SPDX-License-Identifier: MIT
"""The loop: the same bits whatever the batch, after a resume too; feedback that is late; managers; metrics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner import Setting, policy
from configtron.model.errors import BadInput
from configtron.studies.sim.loop import Replay, loads
from configtron.studies.sim.metrics import fared, mean, over, quantile
from configtron.studies.sim.noise import NO_NOISE
from configtron.studies.sim.sessions import Arrivals, Sessions, drawn, drifted, on
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


@pytest.mark.parametrize("at", [3, 700, 1499])
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


def test_optimal_is_best_and_default_is_default() -> None:
    best, untouched = replay("optimal"), replay("default")
    best.run()
    untouched.run()
    still = np.isinf(best.sessions.change_s)
    assert fared(best).median.value == 0.0 and fared(best).excess_ms.value == pytest.approx(0.0, abs=1e-9)
    assert fared(untouched).gain.value == 0.0 and fared(untouched).worse.value == 0.0
    assert dict(fared(untouched).arms) == {"default": 1.0}
    assert (best.median_ms_[still] <= untouched.median_ms_[still]).all()
    assert fared(untouched).median.low < fared(untouched).median.value < fared(untouched).median.high


def test_a_change_half_way_mixes_two_networks() -> None:
    sessions = drawn(TENSOR, 2, np.random.default_rng(1), HOW)
    none, every = np.zeros(2, dtype=np.int64), slice(0, 2)
    begun = TENSOR.lookup(none, none, sessions.seen.site)
    then = TENSOR.lookup(none + 5, none, sessions.seen.site)
    half = replace(sessions, condition=none, after=none + 5, change_s=np.array([begun[0] / 2000.0, np.inf]))
    found = loads(half, TENSOR, none, every)
    assert found[0] == pytest.approx((begun[0] + then[0]) / 2) and found[1] == begun[1] and found[0] != begun[0]


def test_drift_is_believed_when_it_is_noticed() -> None:
    sessions = drawn(TENSOR, 2000, np.random.default_rng(1), HOW)
    moved = drifted(sessions, TENSOR, np.random.default_rng(2), at_s=60.0, noticed_s=40.0)
    changed = moved.condition != sessions.condition
    reported = moved.seen.rtt_ms != sessions.seen.rtt_ms
    assert not changed[sessions.at_s < 60].any() and 0.2 < changed[sessions.at_s >= 60].mean() < 0.8
    assert not reported[sessions.at_s < 100].any() and reported[sessions.at_s >= 100].any()


def test_networks_land_on_their_nearest_condition() -> None:
    assert (on(TENSOR, TENSOR.bandwidth_kbps * 1.01, TENSOR.rtt_ms, TENSOR.loss) == np.arange(24)).all()


def test_columns_must_fit() -> None:
    sessions = drawn(TENSOR, 3, np.random.default_rng(1), HOW)
    with pytest.raises(BadInput, match="order of arrival"):
        replace(sessions, at_s=sessions.at_s[::-1].copy())
    with pytest.raises(BadInput, match="rows"):
        Sessions(sessions.at_s[:2], sessions.condition, sessions.change_s, sessions.after, sessions.seen)


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
