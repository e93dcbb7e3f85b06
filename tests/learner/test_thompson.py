# SPDX-License-Identifier: MIT
"""Thompson sampling: the guardrail, warm starts, the budget from the first session on, and what one outcome may say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.learner import influence, ledger, policy
from configtron.learner.ledger import FAR_LN, Account, Interval, entered, no_cells, off_ln, settled, shares
from configtron.learner.policies.thompson import Thompson, ThompsonOptions
from configtron.learner.searches import Tally
from configtron.learner.setting import Setting
from configtron.learner.shared_model import SCALES, ModelOptions
from configtron.learner.state import decode, encode
from configtron.learner.unobserved_values import ASKED, LOADS, barred
from configtron.model.errors import BadInput
from configtron.model.tensor import Tensor
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.metrics import default_ms
from configtron.studies.sim.sessions import Arrivals, drawn
from configtron.studies.starts import templates
from tests.support.worlds import SITES, clients, lived, small_classes, small_tensor

TENSOR, WARM = small_tensor(bent=0.03), small_tensor(seed=9, bent=0.06)
CLASSES = small_classes(TENSOR)


def thompson(warm: Tensor | None = None, **more: Any) -> Thompson:
    """more: fields of `Setting`, `ModelOptions` or `ThompsonOptions`."""
    model: dict[str, Any] = {"candidates": None if warm is None else templates(warm, 16)}
    setting, options = dict[str, Any](), dict[str, Any]()
    for name, value in more.items():
        kinds = ((setting, Setting), (model, ModelOptions), (options, ThompsonOptions))
        next(given for given, kind in kinds if name in {field.name for field in fields(kind)})[name] = value
    rng = np.random.default_rng(3)
    made = Setting(TENSOR.grid, SITES, CLASSES, rng, warm=warm, **setting)
    return Thompson(made, ThompsonOptions(model=ModelOptions(**model), **options))


def served_shares(one: Thompson) -> np.ndarray:
    found: np.ndarray = one.served_.probabilities(len(TENSOR.grid))
    return found


def served_excess(one: Thompson) -> np.ndarray:
    """Expected excess over Default of what is served, by the policy's own model, for each row and slot."""
    mean = one.model.model().mean()
    return np.take_along_axis(mean - mean[:, one.grid.default, None], one.served_.configuration, axis=1)


def test_the_guardrail_serves_nothing_that_is_likely_slower() -> None:
    guarded, free = thompson(allowance=0.0, guard_ln=0.0), thompson(guard_ln=None)
    for one in (guarded, free):
        lived(one, TENSOR, 1000)
    assert (served_excess(guarded) <= 1e-9).all() and (served_excess(free) > 0.02).any()


def test_nothing_known_nothing_allowed_is_default() -> None:
    default = TENSOR.grid.default
    assert served_shares(thompson(allowance=0.0, guard_ln=0.0))[:, default] == pytest.approx(1.0)
    assert 0.1 < 1.0 - served_shares(thompson(allowance=0.25, budget=None))[:, default].mean() <= 0.26
    # Default is measured in every cell. Without a budget: within one, an unproven warm start leaves most to Default.
    share = served_shares(thompson(WARM, budget=None))[:, default]
    assert (share >= 0.01 - 1e-12).all() and share.min() < 0.02


def test_before_anything_is_known_few_sessions_try_one_knob_at_a_time() -> None:
    default, positions, kinds = TENSOR.grid.default, TENSOR.grid.positions, {}
    for every in (0, 100, 500, 10_000):
        share = served_shares(thompson(update_every=every))
        tried = np.flatnonzero(share.max(axis=0) > 0)
        assert np.allclose(share.sum(axis=1), 1.0)
        assert ((positions[tried] != positions[default]).sum(axis=1) <= 1).all()
        assert 0.005 < 1.0 - share[:, default].mean() < 0.1, every
        kinds[every] = (share > 0).sum(axis=1).mean()
    assert kinds[10_000] > 1.3 * kinds[100], "a large batch is not left to few draws"


@pytest.mark.slow
def test_a_warm_start_helps_at_once_and_a_wrong_one_is_overcome() -> None:
    wrong = replace(WARM, median_ms=(1e7 / WARM.median_ms).astype(np.float32))
    first, last, served = {}, {}, {}
    for name, warm, sessions in (("cold", None, 500), ("warm", WARM, 6000), ("wrong", wrong, 12_000)):
        one = policy("thompson", Setting(TENSOR.grid, SITES, CLASSES, np.random.default_rng(3), 250, warm))
        contexts, condition, chosen, _ = lived(one, TENSOR, sessions, batch=250)
        away = TENSOR.lookup(condition, chosen.configuration, contexts.site) / TENSOR.best_ms[condition, contexts.site]
        served[name] = len(one.model.candidates_)  # type: ignore[attr-defined]
        first[name], last[name] = np.median(away[:500]), np.median(away[-2000:])
    # Within the budget a warm start helps as soon as some of its own choices have come back, not before.
    assert first["warm"] < first["cold"] and last["warm"] < 1.1
    assert last["wrong"] < first["wrong"] - 0.1 and last["wrong"] < 1.15
    assert served["wrong"] == len(TENSOR.grid) > served["warm"], "templates of a world that is not this one"


def test_what_is_solved_once_is_not_kept_too_long() -> None:
    """What features predict moves with every look, and an earlier state that is restored predicts as it did then."""
    one = thompson(part_at=0)
    lived(one, TENSOR, 500)
    early, state = one.model.model().shared(), one.save()
    lived(one, TENSOR, 500, seed=2)
    assert (one.model.model().shared() != early).any()
    one.restore(state)
    assert (one.model.model().shared() == early).all()


@pytest.mark.slow
def test_the_noise_that_weighs_loads_is_found_anew_when_loads_have_grown_and_is_saved() -> None:
    """Until then a restored policy weighs as the saved one does; a state of before it was saved still loads."""
    one, again, earlier = (thompson(part_at=0) for _ in range(3))
    lived(one, TENSOR, 7500)
    assert one.model.noise_ln_ != one.cells.noise_ln()
    again.restore(one.save())
    state = decode(one.save())
    del state["own"]["noise_ln_"]
    earlier.restore(encode(state))
    assert earlier.model.noise_ln_ == one.cells.noise_ln()
    for each in (one, again):
        lived(each, TENSOR, 500, seed=2)
    assert one.save() == again.save()
    lived(one, TENSOR, 2000, seed=3)
    assert one.model.noise_ln_ != again.model.noise_ln_


def cut(log_ms_off: float = 0.0) -> Thompson:
    """A policy that cut its classes, after 1500 loads; a tenth of the last 500 may be off by some ln(ms)."""
    one = thompson(WARM, part_at=1000)
    lived(one, TENSOR, 1000)
    contexts, _, chosen, ms = lived(thompson(WARM, part_at=0), TENSOR, 500, seed=2)
    where = one.where(contexts)
    off = np.exp(log_ms_off * (np.arange(500) % 10 == 0))
    one.observe_many(contexts, replace(chosen, row=where[0], network=where[1]), ms * off)
    return one


@pytest.mark.slow
def test_classes_are_cut_twice_and_nothing_is_lost() -> None:
    one = cut()
    # Loads far off count less than whole; more than the noise's own tail has, none does.
    assert len(one.cells.classes_) > 3 * len(CLASSES) and 0.98 * 1500 < one.cells.tally_.count.sum() <= 1500
    assert one.served_.weight.shape[0] == one.cells.rows == len(one.cells.tally_.count)
    before, again = len(one.cells.classes_), thompson(WARM, part_at=1000)
    again.restore(one.save())
    for each in (one, again):
        lived(each, TENSOR, 1500, seed=3)
    finer = len(one.cells.classes_)
    assert finer > before and one.save() == again.save()
    lived(one, TENSOR, 1500, seed=4)
    assert len(one.cells.classes_) == finer, "after twice as many loads for the last time"
    assert (one.cells.recent_.network == one.cells.classes_.assign(one.cells.recent_.point)).all()


@pytest.mark.slow
def test_a_far_load_counts_as_far_as_loads_go() -> None:
    usual, late, further = (one.cells.tally_.total.sum() / one.cells.tally_.count.sum() for one in map(cut, (0, 3, 6)))
    assert 0.2 < (late - usual) * 1500 / 50 < 2.0, "e-folds that three e-folds of bad luck were taken for, on average"
    assert further < late + 0.01, "and further off no more"


def test_loads_are_as_at_the_centroid_they_belong_to_now() -> None:
    """A class of a wide network is cut; its slopes say by how much each part differs; levels must not mix."""
    one = thompson(WARM, part_at=1000)
    one.model.slopes_ = replace(one.model.slopes_, cross=one.model.slopes_.cross + np.array([-60.0, 0.0, 0.0]))
    before, slope = one.cells.classes_, one.model.slopes_.slopes()
    lived(one, TENSOR, 500)
    seen = one.cells.recent_
    one.cells.classes_ = replace(before, centroid=before.centroid + np.array([0.5, 0.0, 0.0]))
    moved = one.model._moved(seen, one.cells._reassigned(seen), before)
    stayed = moved.network == seen.network
    assert stayed.any() and slope[:, 0].max() < 0
    expected = 0.5 * one.model.slopes_.slopes()[seen.network[stayed], 0]
    assert np.allclose((moved.log_ms - seen.log_ms)[stayed], expected) and (expected < 0).all()


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
    one = Replay(sessions, tensor, [made], np.random.default_rng(seed + 2), interval_s=every / 10.0, delay_s=0.0,
                 at_once=True)  # fmt: skip
    one.run()
    return one


def costs(one: Replay) -> np.ndarray:
    """What sessions cost over Default up to each, as a share of Default's time."""
    default = default_ms(one)
    found: np.ndarray = np.cumsum(one.median_ms_ - default) / np.cumsum(default)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("every", "n", "warm"), [(100, SESSIONS, False), (3000, SESSIONS, False), (500, 1000, True)])
def test_where_everything_is_worse_the_budget_is_kept(every: int, n: int, warm: bool) -> None:
    """warm: by a tensor in which other configurations are faster, where none is: it is a prior, and is charged."""
    found = [replayed(worse(seed), seed, n, every, warm=small_tensor(seed + 9) if warm else None)
             for seed in (70_101, 70_102, 70_103)]  # fmt: skip
    spent = [costs(one) for one in found]
    mean = np.mean(spent, axis=0)
    assert mean[999] <= BUDGET + SLACK_1000 and mean[-1] <= BUDGET + (SLACK_ALL if n > 1000 else SLACK_1000)
    assert warm or all((one[999:] <= BUDGET + 2 * SLACK_1000).all() and one[-1] > 0 for one in spent), "it explores"
    for one in found if every == 100 else ():
        account = one.managers[0].spending.account_  # type: ignore[attr-defined]
        true = (one.median_ms_ - default_ms(one)).sum() / default_ms(one).sum()
        assert abs(account.cost_ms / account.base_ms - true) < 0.03, "the account is near the truth"


@pytest.mark.slow
def test_without_a_budget_it_is_not_kept_and_where_nothing_differs_effects_are_taken_to_be_small() -> None:
    assert np.mean([costs(replayed(worse(seed), seed, 1000, budget=None))[999] for seed in (70_101, 70_102)]) > 0.03
    tensor = small_tensor()
    ms = np.repeat(tensor.median_ms[:, [tensor.grid.default]], len(tensor.grid), axis=1)
    made = replayed(replace(tensor, median_ms=ms), n=3000).managers[0]
    assert isinstance(made, Thompson) and made.model.scale_ == min(SCALES)


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


def test_a_slow_hour_is_no_configurations_cost() -> None:
    """All loads of an interval take a third longer, Default's, too."""
    slow, of_default = np.full(100, np.log(4 / 3)), np.arange(100) < 90
    off = off_ln(slow, np.ones(100), of_default)
    assert 0.85 * np.log(4 / 3) < off <= np.log(4 / 3) and off_ln(slow, np.ones(100), ~of_default) < off


def interval(over_ln: Sequence[float] | np.ndarray, configuration: list[int]) -> Interval:
    """Loads of one row that took exp(over_ln) seconds where 1 s is usual."""
    n = len(over_ln)
    none, flags = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_)
    level = np.full(n, 1000.0)
    return Interval(none, np.array(configuration), level, np.asarray(over_ln), np.zeros(n), flags, np.ones(n))


def test_an_account_by_hand() -> None:
    """Ten decisions: eight for Default, two for configuration 1, which took a quarter longer."""
    seen, decided = interval([0.0] * 8 + [np.log(1.25)] * 2, [0] * 8 + [1] * 2), np.array([[8.0, 2.0]])
    cells = entered(no_cells(1), seen, decided, 0)
    level = np.array([np.log(1000.0)])
    found = settled(Account(), cells, seen, level, np.array([8.0]), 0)
    assert found.base_ms == pytest.approx(10_000) and found.cost_ms == pytest.approx(500) and found.sessions == 10
    assert found.variance_ms2 == pytest.approx((2000 * ledger.LOAD_DEVIATION) ** 2 * (1 / 3 + 1 / 11))
    assert found.error_loads == pytest.approx(2.0)
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
    over_ln = np.where(np.arange(2 * cells) % 2, rng.normal(0.0, noise, 2 * cells), 0.0)
    seen = replace(interval(over_ln, [0, 1] * cells), row=np.repeat(np.arange(cells), 2))
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


STRAIGHT = small_tensor()


def test_values_without_a_load_are_barred() -> None:
    positions, default = STRAIGHT.grid.positions, STRAIGHT.grid.default
    loads, asked = np.zeros(len(positions)), np.zeros(len(positions))
    assert not np.any(barred(positions, loads, asked, default)), "nothing is known yet"
    logged = positions[:, 0] == positions[default, 0]
    loads[logged] = LOADS
    never, unproven = barred(positions, loads, asked, default)
    assert not never.any() and (unproven == ~logged).all()
    first = np.flatnonzero(~logged)[0]
    asked[first] = ASKED
    never, unproven = barred(positions, loads, asked, default)
    assert (never == (positions[:, 0] == positions[first, 0])).all() and (unproven == ~logged).all()
    assert not barred(positions, loads * 0, asked + ASKED, default)[0][default]


@pytest.mark.slow
def test_a_log_of_others_never_leads_to_what_it_does_not_hold() -> None:
    """Loads of half of a knob's values, the larger ones faster: the other half would be promised to be fastest."""
    one = Thompson(Setting(STRAIGHT.grid, STRAIGHT.sites, small_classes(STRAIGHT), np.random.default_rng(1)))
    knob = int(np.argmax(STRAIGHT.grid.positions.max(axis=0)))
    positions = STRAIGHT.grid.positions[:, knob]
    logged = np.flatnonzero(positions <= positions.max() // 2)
    assert STRAIGHT.grid.default in logged
    rng, served = np.random.default_rng(2), []
    for seed in range(8):
        contexts, _ = clients(STRAIGHT, 500, seed)
        mine = one.choose_many(contexts)
        theirs = rng.choice(logged, 500)
        ms = 1000.0 * np.exp(-0.1 * positions[theirs] + 0.2 * rng.standard_normal(500))
        one.observe_many(contexts, replace(mine, configuration=theirs), ms)
        served.append(np.isin(mine.configuration, logged).mean())
    assert isinstance(one.cells.tally_, Tally) and one.updates_ >= 4
    # a value that was not yet asked for five times may still be tried
    assert min(served[3:]) >= 0.98, served


# What one load of 1000, or of 3000, may move any expectation by, ln(ms).
MOST_MOVED_LN = 0.2


def made(bounded: bool = True) -> Thompson:
    return Thompson(Setting(TENSOR.grid, SITES, CLASSES, np.random.default_rng(3), 500, bounded=bounded))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_influence_is_bounded_and_falls(deviations: list[float]) -> None:
    z = np.array(deviations)
    weight = influence.weights_of(z)
    assert ((weight > 0) & (weight <= 1)).all() and (weight[np.abs(z) <= influence.WHOLE_SIGMAS] == 1).all()
    assert (np.abs(weight * z) <= influence.WHOLE_SIGMAS * (1 + 1e-12)).all()
    far = np.abs(z) > influence.WHOLE_SIGMAS
    assert (np.abs(influence.weights_of(2 * z) * 2 * z)[far] < np.abs(weight * z)[far]).all(), "further off says less"


def test_a_batch_that_is_wider_is_taken_as_wider_but_not_by_any_amount() -> None:
    z = np.random.default_rng(1).standard_normal(400)
    assert influence.spread_of(z[:20] * 9) == 1.0 and influence.spread_of(0.1 * z) == 1.0
    assert influence.spread_of(2.0 * z) == pytest.approx(2.0, rel=0.1)
    assert influence.spread_of(100.0 * z) == influence.MOST_SPREAD
    z[:40] = 50.0
    assert influence.spread_of(z) < 1.3, "a tenth of them does not make it wide"
    nothing, much = np.zeros(1), np.full(1, 1000.0)
    assert influence.unknown_ln(0.2, nothing, nothing)[0] > 0.7, "the less is known the further a load may be"
    assert influence.unknown_ln(0.2, much, much)[0] == pytest.approx(0.2, rel=0.01)
    # where there is nothing to compare with a load counts
    assert (influence.weights_of(np.array([np.nan, 0.0])) == 1.0).all()
    assert np.isnan(influence.first_expected(np.zeros((5, 3)), np.zeros(5, dtype=np.int64), np.ones(5))).all()


def test_the_first_loads_are_expected_by_network_and_site_whatever_some_of_them_say() -> None:
    contexts, condition = clients(TENSOR, 500)
    ln = np.log(TENSOR.lookup(condition, np.full(500, TENSOR.grid.default), contexts.site))
    wrong = ln.copy()
    wrong[::10] += np.where(np.arange(50) % 2, 6.9, -6.9)
    clean, dirty = (influence.first_expected(contexts.points(), contexts.site, y) for y in (ln, wrong))
    assert np.sqrt(((dirty - clean) ** 2).mean()) < 0.1 and np.abs(clean - ln).mean() < 0.5


def changed(bounded: bool, ms: float) -> float:
    """How far the expectations of a policy move when one of its 1000 outcomes, in the last update, says `ms`."""
    found = []
    for says in (False, True):
        one = made(bounded)
        lived(one, TENSOR, 500)
        contexts, condition = clients(TENSOR, 500, 2)
        chosen = one.choose_many(contexts)
        took = TENSOR.lookup(condition, chosen.configuration, contexts.site)
        took[77] = ms if says else took[77]
        one.observe_many(contexts, chosen, took)
        found.append(one.model.model().mean())
    return float(np.abs(found[1] - found[0]).max())


@pytest.mark.slow
@pytest.mark.parametrize("ms", [0.001, 8.64e7])
def test_one_outcome_moves_no_expectation_far(ms: float) -> None:
    moved = changed(True, ms)
    assert moved < MOST_MOVED_LN
    assert moved < changed(False, ms), "what is drawn in only where it was shown moves more"


@pytest.mark.slow
def test_where_all_loads_are_far_off_it_is_learned_all_the_same() -> None:
    """A configuration that stalls is no outlier: twenty loads of it, a hundred times slower each, and it is out."""
    one = made()
    lived(one, TENSOR, 2000)
    stalled = int(one.served_.probabilities(len(TENSOR.grid)).sum(axis=0).argmax())
    contexts, condition = clients(TENSOR, 1500, 5)
    chosen = one.choose_many(contexts)
    took = TENSOR.lookup(condition, chosen.configuration, contexts.site)
    bad = chosen.configuration == stalled
    assert 20 <= bad[:500].sum()
    one.observe_many(contexts, chosen, np.where(bad, 100.0 * took, took))
    after = one.served_.probabilities(len(TENSOR.grid))[:, stalled]
    assert after.mean() < 0.02 and (after > 0.5).sum() == 0


@pytest.mark.slow
def test_bots_and_broken_clocks_do_not_spend_the_budget() -> None:
    """A tenth of outcomes says 1 ms or a thousand times the load, Default's as often; so that is no configuration's
    cost, and exploring goes on."""
    one, rng = made(), np.random.default_rng(8)
    explored, cost, base = [], 0.0, 0.0
    for seed in range(8):
        contexts, condition = clients(TENSOR, 500, seed)
        chosen = one.choose_many(contexts)
        took = TENSOR.lookup(condition, chosen.configuration, contexts.site)
        default = TENSOR.lookup(condition, np.full(500, TENSOR.grid.default), contexts.site)
        bad, instant = rng.random(500) < 0.1, rng.random(500) < 0.5
        one.observe_many(contexts, chosen, np.where(bad, np.where(instant, 1.0, 1000.0 * took), took))
        explored.append((chosen.configuration != TENSOR.grid.default).mean())
        cost, base = cost + (took - default).sum(), base + default.sum()
    assert np.mean(explored[4:]) > 0.03
    assert abs(one.spending.account_.cost_ms / one.spending.account_.base_ms - cost / base) < 0.03
