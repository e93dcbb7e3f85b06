# SPDX-License-Identifier: MIT
"""Every policy: batches do not show, a saved policy goes on alike, propensities are probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from configtron.learner import POLICIES, Setting, policy
from configtron.learner.columns import Codes, Contexts, Floats, contexts_of
from configtron.learner.table_policy import TablePolicy
from configtron.model.errors import BadInput
from configtron.model.nouns import Context, Outcome
from configtron.model.tensor import Tensor
from configtron.studies.sim.noise import Noise
from tests.support.worlds import clients, played, small_classes, small_tensor

SESSIONS = 600
CLASSES, WARM = small_classes(small_tensor()), small_tensor(seed=9)


@pytest.fixture(scope="module")
def tensor() -> Tensor:
    return small_tensor()


def made(name: str, tensor: Tensor, seed: int = 7) -> TablePolicy:
    rng = np.random.default_rng(seed)
    return policy(name, Setting(tensor.grid, tensor.sites, CLASSES, rng, 150, WARM, tensor))


def seen_by(p: TablePolicy, tensor: Tensor, contexts: Contexts, condition: np.ndarray) -> Contexts:
    if not p.SEES_TRUTH:
        return contexts
    columns = (tensor.bandwidth_kbps[condition], tensor.rtt_ms[condition], tensor.loss[condition])
    return Contexts(*columns, contexts.site, contexts.sites, contexts.prefix, contexts.prefixes)


def run(p: TablePolicy, tensor: Tensor, batch: int, part: slice, noise_seed: int = 5) -> list[tuple[int, float]]:
    """Choose and observe `part` of the sessions in batches of at most `batch`; what was chosen, and how likely."""
    contexts, condition = clients(tensor, SESSIONS)
    factors = Noise().factors(SESSIONS, np.random.default_rng(noise_seed))
    contexts = seen_by(p, tensor, contexts, condition)
    log, at = [], part.start
    while at < part.stop:
        rows = slice(at, min(part.stop, at + min(batch, p.due())))
        here = contexts[rows]

        def load(part: slice, configuration: Codes, here: Contexts = here, begin: int = at) -> Floats:
            where = slice(begin + part.start, begin + part.stop)
            return tensor.lookup(condition[where], configuration, here.site[part]) * factors[where]

        chosen, _ = played(p, here, load)
        log += list(zip(chosen.configuration.tolist(), chosen.propensity.tolist(), strict=True))
        at = rows.stop
    return log


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_batches_do_not_show(name: str, tensor: Tensor) -> None:
    everything = slice(0, SESSIONS)
    logs = [run(made(name, tensor), tensor, batch, everything) for batch in (SESSIONS, 77)]
    assert logs[0] == logs[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_what_a_policy_takes_makes_a_difference_and_nothing_else_does(name: str, tensor: Tensor) -> None:
    plain = Setting(tensor.grid, tensor.sites, CLASSES, np.random.default_rng(7), 150, truth=tensor)

    def state(**changed: Any) -> str:
        try:
            made = policy(name, replace(plain, rng=np.random.default_rng(7), **changed))
            run(made, tensor, SESSIONS, slice(0, SESSIONS))
            return made.save()
        except BadInput as error:
            return str(error)

    assert ("warm" in POLICIES[name].takes) == (state(warm=WARM) != state())
    assert ("engine" in POLICIES[name].takes) == ("no engine is called" in state(engine="steam"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thompson", "configtron", "reuse"])
def test_a_heap_of_outcomes_is_cut_where_updates_fall_due(name: str, tensor: Tensor) -> None:
    """Outcomes that arrive late and all at once teach the same as in pieces."""
    heap, pieces = made(name, tensor), made(name, tensor)
    contexts, condition = clients(tensor, SESSIONS)
    chosen = heap.choose_many(contexts)
    pieces.choose_many(contexts)
    took = tensor.lookup(condition, chosen.configuration, contexts.site)
    heap.observe_many(contexts, chosen, took)
    for start in range(0, SESSIONS, 50):
        rows = slice(start, start + 50)
        pieces.observe_many(contexts[rows], chosen[rows], took[rows])
    assert heap.updates_ == SESSIONS // 150 and heap.save() == pieces.save()


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_one_by_one_is_the_same(name: str, tensor: Tensor) -> None:
    """`choose` and `observe` of nouns, as the manager calls them, against columns."""
    many, single = made(name, tensor), made(name, tensor)
    contexts, condition = clients(tensor, SESSIONS)
    contexts = seen_by(many, tensor, contexts, condition)
    factors = Noise().factors(SESSIONS, np.random.default_rng(5))
    log = run(many, tensor, 50, slice(0, 170))
    for i in range(170):
        decision = single.choose(contexts.row(i))
        configuration = tensor.grid.index(decision.profile)
        assert (configuration, decision.propensity) == log[i]
        took = tensor.lookup(condition[[i]], np.array([configuration]), contexts.site[[i]])
        single.observe(Outcome(decision, float(took[0] * factors[i]), i, "sim"))
    assert single.updates_ == many.updates_


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_a_saved_policy_goes_on_alike(name: str, tensor: Tensor) -> None:
    whole = made(name, tensor)
    log = run(whole, tensor, 100, slice(0, SESSIONS))
    first = made(name, tensor)
    run(first, tensor, 100, slice(0, 370))
    text = first.save()
    second = made(name, tensor, seed=99)
    second.restore(text)
    assert second.save() == text
    assert run(second, tensor, 64, slice(370, SESSIONS)) == log[370:]
    assert second.save() == whole.save()


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_propensities_are_how_often(name: str, tensor: Tensor) -> None:
    p = made(name, tensor)
    run(p, tensor, 300, slice(0, 450))
    table = p.served_.probabilities(len(tensor.grid))
    assert np.allclose(table.sum(axis=1), 1.0) and (table >= 0).all()
    contexts, condition = clients(tensor, 60)
    chosen = p.choose_many(seen_by(p, tensor, contexts, condition))
    known = chosen.row >= 0
    assert np.allclose(chosen.propensity[known], table[chosen.row[known], chosen.configuration[known]])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in POLICIES if name != "optimal"])
def test_a_client_of_whom_nothing_is_known_is_served(name: str, tensor: Tensor) -> None:
    p = made(name, tensor)
    decision = p.choose(Context(site="elsewhere"))
    assert decision.class_id == "" and 0 < (decision.propensity or 0) <= 1
    known = p.choose(Context(bandwidth_kbps=5000, rtt_ms=50, loss=0.0, site="elsewhere"))
    p.observe(Outcome(known, 900.0, 0))
    assert known.profile in tensor.grid.profiles


def test_other_peoples_states_are_refused(tensor: Tensor) -> None:
    text = made("default", tensor).save()
    with pytest.raises(BadInput, match="'cell_optimum', version 4, is wanted"):
        made("cell_optimum", tensor).restore(text)
    with pytest.raises(BadInput, match="no saved policy"):
        made("default", tensor).restore("{")
    elsewhere = policy("mab_nc", Setting(tensor.grid, ("other",), CLASSES, np.random.default_rng(1)))
    with pytest.raises(BadInput, match="other configurations or sites"):
        elsewhere.restore(made("mab_nc", tensor).save())
    for nonsense in ("[]", "null", "{}", '{"map":[]}', '{"map":[["policy","default"],["version",1]]}', '{"array":"x"}'):
        with pytest.raises(BadInput):
            made("default", tensor).restore(nonsense)
    with pytest.raises(BadInput, match="no policy is called"):
        made("oracle", tensor)
    with pytest.raises(BadInput, match="no engine is called 'steam'"):
        setting = Setting(tensor.grid, tensor.sites, CLASSES, np.random.default_rng(1), engine="steam")
        policy("configtron", setting)


def test_optimal_is_best_and_the_cell_optimum_next(tensor: Tensor) -> None:
    contexts, condition = clients(tensor, SESSIONS)
    took = {}
    for name in ("optimal", "cell_optimum", "static", "default"):
        p = made(name, tensor)
        chosen = p.choose_many(seen_by(p, tensor, contexts, condition)).configuration
        took[name] = float(tensor.lookup(condition, chosen, contexts.site).mean())
    assert took["optimal"] < took["cell_optimum"] < took["static"] < took["default"]
    assert took["optimal"] == pytest.approx(float(tensor.best_ms[condition, contexts.site].mean()))


def test_columns_say_what_contexts_say(tensor: Tensor) -> None:
    contexts, _ = clients(tensor, 20)
    rows = [contexts.row(i) for i in range(20)]
    assert [contexts_of(rows, tensor.sites).row(i) for i in range(20)] == rows
    gap = Context(rtt_ms=3.0, prefix="192.0.2.0/24")
    assert contexts_of([gap]).row(0) == gap
