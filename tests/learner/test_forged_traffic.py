# SPDX-License-Identifier: MIT
"""One prefix sends what it likes, clocks jump, a place file lies: what it makes of all others' windows has an end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner.columns import Floats
from configtron.learner.initial.censored_hierarchy import WindowModel
from configtron.learner.initial.end_states import EndStates, checked, joined, of_rows, placed
from configtron.learner.initial.half_quantile import QUANTILE
from configtron.learner.initial.teaching import MOST_WEIGHT, weights_of
from tests.support.window_worlds import world

# Shares by which forged traffic may move windows: of other networks, of the seven others in the forger's own, and of a
# prefix never seen there.
OTHERS, BESIDE, NEVER_SEEN = 0.07, 0.12, 0.20
FORGER, NETWORK = "10.3.2.0/24", "10.3."


# Connections of one window: whether that is a lower bound, how many, seconds apart; a day apart is its same hour.
Forged = tuple[float, bool, int, float]
ATTACKS: tuple[Forged, ...] = (
    (1.0, False, 5000, 77.0), (1e6, False, 5000, 77.0), (1e6, True, 5000, 77.0), (1e6, False, 100, 86_400.0),
    (1.0, True, 20_000, 86_400.0),
)  # fmt: skip


def forged_states(attack: Forged) -> EndStates:
    window, bound, count, apart_s = attack
    return of_rows([{"prefix": FORGER, "at_s": 1.7e9 + apart_s * at, "max_cwnd": window, "bound": bound}
                    for at in range(count)])  # fmt: skip


def moved(before: EndStates, after: EndStates, *, bounded: bool) -> dict[str, float]:
    """Return the largest share by which quantiles move: of other networks, of prefixes seen beside it, of one never."""
    asked = of_rows([{"prefix": f"10.{network}.{prefix}.0/24", "at_s": 1.7e9} for network in range(12)
                     for prefix in (*range(8), 200) if f"10.{network}.{prefix}.0/24" != FORGER])  # fmt: skip
    was, now = (WindowModel(one, bounded=bounded).quantiles(asked, (QUANTILE, 0.5)) for one in (before, after))
    shares: Floats = np.expm1(np.abs(np.log(now / was)).max(axis=1))
    near = np.array([one.startswith(NETWORK) for one in asked.prefix.tolist()])
    strange = np.array([one.endswith(".200.0/24") for one in asked.prefix.tolist()])
    return {"others": float(shares[~near].max()), "beside": float(shares[near & ~strange].max()),
            "never seen": float(shares[near & strange].max())}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_forged_traffic_moves_others_by_a_share(attack: Forged) -> None:
    states, _ = world(2000, 1)
    found = moved(states, joined([states, forged_states(attack)]), bounded=True)
    assert found["others"] <= OTHERS and found["beside"] <= BESIDE and found["never seen"] <= NEVER_SEEN


def test_without_the_bound_forged_traffic_moves_all() -> None:
    """How far depends on the world: of six, the one that is moved most."""
    worlds = [world(2000, seed)[0] for seed in range(1, 7)]
    found = [moved(one, joined([one, forged_states(ATTACKS[3])]), bounded=False) for one in worlds]
    assert max(one["others"] / OTHERS for one in found) > 5 < max(one["never seen"] / NEVER_SEEN for one in found)


@pytest.mark.slow
def test_a_prefix_whose_clock_jumps_moves_others_by_a_share() -> None:
    """All its records at one hour, years away: bounds of clocks leave some out, the rest vote once an hour."""
    states, _ = world(2000, 2)
    mine, many = states.prefix == FORGER, np.full(len(states), 50.0)
    assert mine.sum() > 5
    for jumped in (1e9, 1.7e9, 4e9, -5.0, float("nan")):
        good, left_out = checked(
            replace(states, at_s=np.where(mine, jumped, states.at_s), min_rtt_ms=many, packets_out=many), 1.8e9
        )
        assert left_out.get("clock", 0) == (0 if jumped in (1e9, 1.7e9) else mine.sum())
        assert moved(states, good, bounded=True)["others"] <= OTHERS


def test_a_place_file_that_lies_moves_no_window() -> None:
    states, _ = world(1000, 3)
    asked = of_rows([{"prefix": "10.3.4.0/24", "at_s": 1.7e9}])
    lies = ((0.0, 0.0), (90.0, 180.0), (912.0, float("inf")), (float("nan"), 1.0), None)
    found = {WindowModel(placed(states, lambda _, lie=lie: lie)).quantiles(asked).tobytes() for lie in lies}  # type: ignore[misc]
    assert len(found) == 1


def test_no_propensity_makes_a_connection_count_for_many() -> None:
    chances = [1.0, 0.25, 1e-300, 0.0, -1.0, 7.0, float("nan"), float("inf")]
    states = of_rows([{"prefix": FORGER, "propensity": one, "strategy": "null"} for one in chances])
    assert weights_of(states).tolist() == [1.0, 4.0, MOST_WEIGHT, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_absurd_numbers_leave_a_model_finite() -> None:
    states, _ = world(500, 3)
    odd = of_rows([
        {"prefix": FORGER, "at_s": 1.7e9, "max_cwnd": window, "bound": bound, "strategy": strategy, "loss": loss,
         "packets_out": packets}
        for window in (float("nan"), 0.0, -3.0, 1.0, 1e9) for bound in (True, False)
        for strategy in ("", "fixed", "what") for loss in (0.0, 0.9, float("nan")) for packets in (0.0, 1e9)
    ])  # fmt: skip
    found = WindowModel(joined([states, odd])).quantiles(states)
    assert np.isfinite(found).all() and (found > 0).all()
