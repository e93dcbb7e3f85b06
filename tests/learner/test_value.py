# SPDX-License-Identifier: MIT
"""Off-policy value: intervals that hold the truth as often as they say, and the log's holes are reported."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from configtron.learner import Setting, policy
from configtron.learner.columns import Contexts, Decisions, Floats
from configtron.learner.policies.default import Static
from configtron.learner.table_policy import TablePolicy
from configtron.learner.value import Estimate, _estimates, plain_model, value
from configtron.model.errors import BadInput
from configtron.studies.policies.mab import Bandit
from tests.support import ROOT
from tests.support.worlds import SITES, clients, lived, small_classes, small_tensor

TENSOR, WARM = small_tensor(), small_tensor(seed=9)
CLASSES = small_classes(TENSOR)


def bandit(epsilon: float, seed: int = 1) -> Bandit:
    return Bandit(Setting(TENSOR.grid, SITES, CLASSES, np.random.default_rng(seed), 0), epsilon=epsilon)


def candidate() -> TablePolicy:
    """A fixed policy that is better than Default and was made without the log."""
    setting = Setting(TENSOR.grid, SITES, CLASSES, np.random.default_rng(3), 500, WARM)
    return policy("offline", setting)


def truth(of: TablePolicy, n: int = 40_000) -> float:
    contexts, condition = clients(TENSOR, n, seed=77)
    chosen = of.choose_many(contexts)
    # The noise's own mean is the same for everybody: taken from a long sample.
    from configtron.studies.sim.noise import Noise

    factor = float(Noise().factors(400_000, np.random.default_rng(5)).mean())
    return float(TENSOR.lookup(condition, chosen.configuration, contexts.site).mean()) * factor


@pytest.mark.slow
def test_intervals_hold_the_truth_nine_times_in_ten() -> None:
    """200 replays of 1500 sessions that a half-random bandit decided."""
    wanted, held = candidate(), {"ips": 0, "snips": 0, "dr": 0}
    true_ms = truth(wanted)
    widths = {name: 0.0 for name in held}
    for seed in range(200):
        logger = mixed_logger(seed)
        contexts, _, decisions, ms = lived(logger, TENSOR, 1500, seed=1000 + seed)
        found = value(wanted, contexts, decisions, ms)
        for name in held:
            estimate = getattr(found, name)
            held[name] += estimate.holds(true_ms)
            widths[name] += estimate.high_ms - estimate.low_ms
    assert min(held.values()) >= 180, held
    assert widths["dr"] < widths["ips"]


def mixed_logger(seed: int) -> TablePolicy:
    """Serves a few configurations per cell, the candidate's among them, and some of all others."""
    logger = bandit(0.3, seed)
    table, likely = logger.served_, candidate().served_.configuration
    both = np.concatenate((table.configuration, likely), axis=1)
    half = np.full(both.shape, 0.5)
    arm = np.repeat(table.arm, 2, axis=1)
    logger.served_ = replace(table, configuration=both, arm=arm, weight=half, expected_ms=half)
    return logger


def test_the_logger_itself_is_worth_what_it_got() -> None:
    logger = bandit(0.2)
    contexts, _, decisions, ms = lived(logger, TENSOR, 2000)
    found = value(logger, contexts, decisions, ms)
    assert found.ips.ms == pytest.approx(found.logged.ms) and found.effective == pytest.approx(2000)
    assert found.logged.holds(float(ms.mean())) and found.sessions == 2000


def test_choices_that_were_never_logged_are_reported() -> None:
    logger = bandit(0.0)
    contexts, _, decisions, ms = lived(logger, TENSOR, 500)
    found = value(candidate(), contexts, decisions, ms)
    assert found.unlogged > 0.5 and found.effective < 250


def static(configuration: int) -> Static:
    return Static(TENSOR.grid, np.random.default_rng(0), configuration)


def halves(one: int, other: int) -> Static:
    """Serves either of two configurations, as likely as not."""
    made = static(one)
    both, half = np.array([[one, other]]), np.full((1, 2), 0.5)
    made.served_ = replace(
        made.served_, configuration=both, arm=np.repeat(made.served_.arm, 2, axis=1), weight=half, expected_ms=half
    )
    return made


def only_one(n: int, configuration: int = 0) -> tuple[Contexts, Decisions, Floats]:
    """n sessions of a log that never tried anything else."""
    contexts, _, decisions, ms = lived(static(configuration), TENSOR, n)
    return contexts, decisions, ms


def withheld(estimate: Estimate) -> bool:
    return not (np.isfinite(estimate.low_ms) or np.isfinite(estimate.high_ms))


def test_what_the_log_never_tried_has_a_reason_and_no_number() -> None:
    found = value(static(5), *only_one(400))
    assert found.effective == 0.0 and found.unlogged == 1.0 and found.logged.reason == ""
    for one in (found.ips, found.snips, found.dr):
        assert one.reason == "log:never-tried" and np.isnan(one.ms) and withheld(one)


def picked_to_match(n: int) -> tuple[Contexts, Decisions, Floats]:
    """A log of either of two configurations, 0 and 5, where what the log calls one choice in ten was every second."""
    contexts, decisions, ms = only_one(n)
    second = np.arange(n) % 2 == 0
    reported = replace(decisions, configuration=np.where(second, 5, 0), propensity=np.where(second, 0.1, 0.9))
    return contexts, reported, ms


@pytest.mark.parametrize("learned_from", [False, True])
def test_weights_above_one_are_no_chance_and_give_no_number(learned_from: bool) -> None:
    """IPS would come to five times what loads take, and be sure of it."""
    found = value(static(5), *picked_to_match(400), learned_from=learned_from)
    assert found.effective == pytest.approx(200)
    for one in (found.ips, found.snips, found.dr):
        assert one.reason == "log:weights-above-one" and np.isnan(one.ms) and withheld(one)


def test_who_learned_from_the_log_has_no_interval() -> None:
    log = mixed(3)
    reported, again = value(candidate(), *log), value(candidate(), *log, learned_from=True)
    assert reported.ips.reason == "" and again.logged == reported.logged
    for name in ("ips", "snips", "dr"):
        one = getattr(again, name)
        assert one.reason == "log:learned-from" and one.ms == getattr(reported, name).ms > 0 and withheld(one)
    contexts, decisions, ms = only_one(400)
    part, none = (value(of, contexts, decisions, ms, learned_from=True) for of in (halves(0, 5), static(5)))
    assert part.ips.reason == part.dr.reason == "log:partly-tried" and none.dr.reason == "log:never-tried"


def test_no_page_loads_in_less_than_nothing() -> None:
    """By DR's terms, or an end of their interval, that is."""
    weight, ms = np.ones(400), np.full(400, 300.0)
    spread = np.where(np.arange(400) % 2 == 0, 1.0, -1.0)
    for mean, wide, reason in ((300.0, 100.0, ""), (300.0, 9e3, "log:below-zero"), (-7e3, 100.0, "log:below-zero")):
        ips, _, dr = _estimates(weight, ms, mean + wide * spread, np.zeros(400), 400.0)
        assert dr.reason == reason and ips.reason == "" and np.isfinite(dr.low_ms) == (reason == "")
        if mean < 0:
            assert np.isnan(dr.ms) and withheld(dr)
        else:
            assert dr.ms == pytest.approx(mean) and mean < dr.high_ms < 1500.0
    two = value(static(0), *(part[slice(1, 3)] for part in only_one(20)))  # type: ignore[arg-type]
    assert two.logged.ms > 0 and (two.logged.low_ms > 0 or two.logged.reason == "log:below-zero")


def test_what_the_log_tried_in_part_has_a_reason() -> None:
    """Half of the candidate's choices are beyond the log: IPS would come to half of the page load time, and be sure."""
    contexts, decisions, ms = only_one(400)
    found = value(halves(0, 5), contexts, decisions, ms)
    for one in (found.ips, found.snips):
        assert one.reason == "log:partly-tried" and np.isnan(one.ms) and withheld(one)
    # The model has something to say of the rest; how sure of it, it does not know.
    assert found.dr.reason == "log:partly-tried" and found.dr.ms > 0.7 * ms.mean() and withheld(found.dr)


def test_a_log_that_tried_everything_has_no_warning() -> None:
    """Propensities of four digits do not make a log one that left something out, nor do few heavy weights."""
    logger = halves(0, 5)
    contexts, _, decisions, ms = lived(logger, TENSOR, 2000)
    assert value(logger, contexts, replace(decisions, propensity=decisions.propensity + 4e-5), ms).ips.reason == ""
    assert sum(value(candidate(), *mixed(seed)).ips.reason != "" for seed in range(20)) == 0


def mixed(seed: int) -> tuple[Contexts, Decisions, Floats]:
    contexts, _, decisions, ms = lived(mixed_logger(seed), TENSOR, 500, seed=seed)
    return contexts, decisions, ms


def test_few_effective_sessions_give_no_interval() -> None:
    """One session in ten had the candidate's configuration, by a tenth: 40 of 400 count, 10 of 100."""
    contexts, decisions, ms = only_one(400)
    tenth = np.arange(400) % 10 == 0
    reported = replace(decisions, configuration=np.where(tenth, 5, 0), propensity=np.where(tenth, 0.1, 0.9))
    found = value(static(5), contexts, reported, ms)
    assert found.effective == pytest.approx(40) and {found.ips.reason, found.snips.reason, found.dr.reason} == {""}
    assert not withheld(found.snips) and found.snips.ms > 0
    few = value(static(5), contexts[slice(0, 100)], reported[slice(0, 100)], ms[:100])
    assert few.effective == pytest.approx(10)
    assert all(one.reason == "log:few-effective" and withheld(one) for one in (few.ips, few.snips, few.dr))
    one = value(static(0), contexts[slice(1, 2)], decisions[slice(1, 2)], ms[1:2])
    assert one.ips.reason == one.dr.reason == "log:few-effective" and withheld(one.ips)


def test_a_session_that_counts_for_nothing_is_no_try() -> None:
    """An infinite propensity is a twin's (`Logged.judging`): the candidate's own choice was not made."""
    contexts, decisions, ms = only_one(400)
    no_sessions = replace(decisions, propensity=np.full(400, np.inf))
    assert value(static(0), contexts, decisions, ms).unlogged == 0.0
    assert value(static(0), contexts, no_sessions, ms).unlogged == 1.0


def test_reasons_are_explained() -> None:
    given = set(re.findall(r'"(log:[a-z-]+)"', (ROOT / "learner" / "value.py").read_text()))
    page = (ROOT / "docs" / "learn.md").read_text()
    assert len(given) == 8 and {reason for reason in given if f"| `{reason}` |" not in page} == set()


def test_sessions_without_propensities_are_refused() -> None:
    contexts, _, decisions, ms = lived(bandit(0.2), TENSOR, 50)
    with pytest.raises(BadInput, match="no propensities"):
        value(candidate(), contexts, replace(decisions, propensity=np.full(50, np.nan)), ms)
    with pytest.raises(BadInput, match="no sessions"):
        value(candidate(), contexts[slice(0, 0)], decisions[slice(0, 0)], ms[:0])


def test_the_model_knows_what_the_pair_showed() -> None:
    row, configuration = np.zeros(300, dtype=np.int64), np.repeat([0, 1, 2], 100)
    model = plain_model((2, 4), row, configuration, np.repeat([100.0, 200.0, 300.0], 100))
    assert np.allclose(model[0, :3], [100, 200, 300], rtol=0.06) and model[1, 0] < model[1, 2]
