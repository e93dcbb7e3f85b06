# SPDX-License-Identifier: MIT
"""The budget of exploration is kept from the first session on, in worlds where nothing is better than Default too; what
is proven to gain is reinvested."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner.ledger import FAR_LN, Account, Interval, entered, no_cells, off_ln, settled, shares
from configtron.learner.policies.thompson import Thompson
from configtron.learner.setting import Setting
from configtron.learner.shared_model import SCALES
from configtron.learner.state import decode, encode
from configtron.model.errors import BadInput
from configtron.model.tensor import Tensor
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.metrics import default_ms
from configtron.studies.sim.sessions import Arrivals, drawn
from tests.support.worlds import small_classes, small_tensor

BUDGET, SESSIONS = 0.01, 3000
# What chance may add: a load in a hundred explores, and one of them may take three times as long.
SLACK_1000, SLACK_ALL = 0.012, 0.006


def worse(seed: int) -> Tensor:
    """A world in which every configuration but Default is slower by a tenth and by as much as it differs."""
    tensor = small_tensor(seed)
    default = tensor.median_ms[:, [tensor.grid.default]]
    ms = default * np.exp(np.abs(np.log(tensor.median_ms / default)) + 0.1)
    ms[:, tensor.grid.default] = default[:, 0]
    return replace(tensor, median_ms=ms.astype(np.float32))


def replayed(tensor: Tensor, seed: int = 1, n: int = SESSIONS, every: int = 500, **more: object) -> Replay:
    rng = np.random.default_rng(seed)
    made = Thompson(Setting(tensor.grid, tensor.sites, small_classes(tensor), rng, update_every=0, **more))  # type: ignore[arg-type]
    sessions = drawn(tensor, n, np.random.default_rng(seed + 1), Arrivals(prefixes=60))
    noise, how = np.random.default_rng(seed + 2), {"interval_s": every / 10.0, "delay_s": 0.0, "at_once": True}
    one = Replay(sessions, tensor, [made], noise, **how)
    one.run()
    return one


def costs(one: Replay) -> np.ndarray:
    """What sessions cost over Default up to each, as a share of Default's time."""
    default = default_ms(one)
    found: np.ndarray = np.cumsum(one.median_ms_ - default) / np.cumsum(default)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("every", [100, 500, 3000])
def test_where_everything_is_worse_the_budget_is_kept(every: int) -> None:
    found = [costs(replayed(worse(seed), seed, every=every)) for seed in (70_101, 70_102, 70_103)]
    mean = np.mean(found, axis=0)
    assert mean[999] <= BUDGET + SLACK_1000 and mean[-1] <= BUDGET + SLACK_ALL, (mean[999], mean[-1])
    assert all((one[999:] <= BUDGET + 2 * SLACK_1000).all() for one in found)
    assert all(one[-1] > 0 for one in found), "it explores all the same"


@pytest.mark.slow
def test_without_a_budget_it_is_not_kept() -> None:
    assert np.mean([costs(replayed(worse(seed), seed, budget=None))[999] for seed in (70_101, 70_102)]) > 0.03


@pytest.mark.slow
def test_a_larger_budget_explores_more() -> None:
    def explored(budget: float) -> float:
        made = replayed(worse(70_101), budget=budget, n=1500).managers[0]
        assert isinstance(made, Thompson)
        return made.spending.account_.explored

    assert explored(0.05) > 1.5 * explored(0.005) > 0.0


@pytest.mark.slow
def test_what_is_gained_is_reinvested() -> None:
    tensor = small_tensor()
    ms = tensor.median_ms.copy()
    ms[:, tensor.grid.default] *= 1.5
    one = replayed(replace(tensor, median_ms=ms), n=4000)
    made = one.managers[0]
    assert isinstance(made, Thompson) and costs(one)[999] < BUDGET + SLACK_1000
    last = (one.median_ms_[-1000:].sum() / default_ms(one)[-1000:].sum()) - 1.0
    assert last < -0.1 and made.spending.account_.upper_ms() < 0 and made.spending.account_.share > 0.1


@pytest.mark.slow
def test_the_account_is_near_the_truth() -> None:
    for tensor in (worse(70_104), small_tensor()):
        one = replayed(tensor)
        account = one.managers[0].spending.account_  # type: ignore[attr-defined]
        true = (one.median_ms_ - default_ms(one)).sum() / default_ms(one).sum()
        assert abs(account.cost_ms / account.base_ms - true) < 0.03


@pytest.mark.slow
def test_a_wrong_warm_start_is_within_the_budget() -> None:
    """A tensor in which other configurations are faster, where none is: it is a prior, and is charged."""
    seeds = 70_101, 70_102, 70_103
    found = [costs(replayed(worse(seed), seed, n=1000, warm=small_tensor(seed + 9))) for seed in seeds]
    assert np.mean(found, axis=0)[999] <= BUDGET + SLACK_1000, [one[999] for one in found]


@pytest.mark.slow
def test_with_many_updates_a_large_gain_is_found_within_a_thousand_sessions() -> None:
    tensor = small_tensor()
    ms = tensor.median_ms.copy()
    ms[:, tensor.grid.default] *= 1.5
    found = [costs(replayed(replace(tensor, median_ms=ms), seed, n=1000, every=50)) for seed in (1, 2, 3)]
    assert np.mean([one[999] for one in found]) < -0.1


@pytest.mark.slow
def test_where_no_configuration_differs_effects_are_taken_to_be_small() -> None:
    tensor = small_tensor()
    ms = np.repeat(tensor.median_ms[:, [tensor.grid.default]], len(tensor.grid), axis=1)
    made = replayed(replace(tensor, median_ms=ms), n=4000).managers[0]
    assert isinstance(made, Thompson) and made.model.scale_ == min(SCALES)


def test_a_slow_hour_is_no_configurations_cost() -> None:
    """All loads of an interval take a third longer, Default's, too."""
    slow, of_default = np.full(100, np.log(4 / 3)), np.arange(100) < 90
    off = off_ln(slow, np.ones(100), of_default)
    assert 0.85 * np.log(4 / 3) < off <= np.log(4 / 3) and off_ln(slow, np.ones(100), ~of_default) < off


def interval(over_ln: list[float], configuration: list[int]) -> Interval:
    n = len(over_ln)
    none = np.zeros(n, dtype=np.int64)
    flags = np.zeros(n, dtype=np.bool_)
    level = np.full(n, 1000.0)
    return Interval(none, np.array(configuration), level, np.array(over_ln), np.zeros(n), flags, np.ones(n))


def test_an_account_by_hand() -> None:
    """Ten decisions: eight for Default, two for configuration 1, which took a quarter longer."""
    seen, decided = interval([0.0] * 8 + [np.log(1.25)] * 2, [0] * 8 + [1] * 2), np.array([[8.0, 2.0]])
    cells = entered(no_cells(1), seen, decided, 0)
    level = np.array([np.log(1000.0)])
    found = settled(Account(), cells, seen, level, np.array([8.0]), 0)
    assert found.base_ms == pytest.approx(10_000) and found.cost_ms == pytest.approx(500) and found.sessions == 10
    assert found.upper_ms() > found.cost_ms and found.saved_ms(0.01) < 0 < found.saved_ms(0.5)
    others = entered(no_cells(1), seen, np.array([[6.0, 4.0]]), 0)
    twice = settled(Account(), others, seen, level, np.array([8.0]), 0)
    assert twice.cost_ms == pytest.approx(1000), "a log's loads stand for own decisions"


def test_one_load_far_off_does_not_stop_exploration() -> None:
    """A broken clock reports three hours in place of a second: it costs as much as one load of 4.5 s."""
    level, decided = np.array([np.log(1000.0)]), np.array([[8.0, 2.0]])

    def cost(over_ln: float) -> Account:
        one = interval([0.0] * 8 + [0.0, over_ln], [0] * 8 + [1] * 2)
        one = replace(one, unguarded=one.configuration == 1)
        return settled(Account(), entered(no_cells(1), one, decided, 0), one, level, np.array([8.0]), 0)

    hours, seconds = cost(9.3), cost(FAR_LN)
    assert hours.cost_ms == pytest.approx(seconds.cost_ms) and hours.unguarded_cost() == seconds.unguarded_cost()
    assert seconds.cost_ms > cost(0.5).cost_ms > 0.0 and seconds.unguarded_cost() > cost(0.5).unguarded_cost()


def test_noise_of_single_loads_is_no_cost() -> None:
    """2000 cells with a load each, in the logarithm as fast as Default's: the mean of exponentials is larger."""
    rng, noise, cells = np.random.default_rng(70_110), 0.6, 2000
    row, configuration = np.repeat(np.arange(cells), 2), np.tile([0, 1], cells)
    level, flags = np.full(2 * cells, 1000.0), np.zeros(2 * cells, dtype=np.bool_)
    over_ln = np.where(configuration == 1, rng.normal(0.0, noise, 2 * cells), 0.0)
    seen = Interval(row, configuration, level, over_ln, np.zeros(2 * cells), flags, np.ones(2 * cells))
    one = entered(no_cells(cells), seen, np.ones((cells, 2)), 0)
    known = np.full(cells, np.log(1000.0)), np.full(cells, 100.0)
    without, corrected = (
        settled(Account(), one, seen, *known, 0, some).cost_ms / (1000.0 * cells) for some in (0.0, noise)
    )
    assert without > 0.12 and abs(corrected) < 0.1 and corrected < without - 0.1


def test_a_state_with_former_fields_is_read() -> None:
    """Accounts were saved with loads far off once; what is left of them is all that is wanted."""
    saved = encode({"one": Account(cost_ms=7.0), "two": no_cells(2)})
    older = saved.replace('"fields":{"base_ms"', '"fields":{"tail":{"tuple":[1.0,2.0,3.0]},"base_ms"')
    assert older != saved and decode(older)["one"].cost_ms == 7.0
    with pytest.raises(BadInput, match="Account has other fields"):
        decode(saved.replace('"fields":{"base_ms"', '"fields":{"tale":1.0,"base_ms"'))


def test_shares_keep_cost_within_income() -> None:
    for income, proven, unproven in ((10.0, 0.0, 200.0), (10.0, -50.0, 200.0), (10.0, 100.0, 200.0), (-5.0, 3.0, 9.0)):
        one, other = shares(income, proven, unproven, 0.25)
        assert one >= 0 and 0 <= other <= 0.25 and one + other <= 1.0 + 1e-12
        assert one * proven + other * unproven <= max(income, 0.0) + 1e-9
    assert shares(10.0, -50.0, 20.0, 0.25) == (0.75, 0.25)
    assert shares(-5.0, 3.0, 9.0, 0.25) == (0.0, 0.0), "a debt: nothing but Default"


def test_exploration_that_saves_time_may_grow_faster() -> None:
    """Loads of the unproven part that were faster than Default's, by more than chance, lift the limit on its growth."""
    saves, costs = Account(harm=-6.0, harm_loads=20.0), Account(harm=1.0, harm_loads=20.0)
    lucky = Account(harm=-1.0, harm_loads=4.0)
    assert saves.explores_for_free() and not costs.explores_for_free() and not lucky.explores_for_free()
    tensor = small_tensor()
    one = Thompson(Setting(tensor.grid, tensor.sites, small_classes(tensor), np.random.default_rng(1)))
    tried = [one.spending._grown_by((0.5, 0.5), 1.0, free) for free in (False, True)]
    assert tried[1][1] > tried[0][1] and all(share >= 0.0 and sum(two) <= 1.0 for two in tried for share in two)
