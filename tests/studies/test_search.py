# SPDX-License-Identifier: MIT
"""Errors that are known, and a search that finds hidden emulators by their flows, sooner than chance does.

The flows are a formula here (`flows`): full queues, Mathis, a little noise. What kernels do is test_calibrating's.
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from configtron.lab.testbed.conditions import LinkDirection
from configtron.lab.testbed.families import named
from configtron.studies.emulation.emulators import KINDS, QUEUES, Emulator, Space, space_of, starts_of
from configtron.studies.emulation.replication import Figures, differences, mean_of, replication_error
from configtron.studies.emulation.search import Chance, Search, Tried

SCHEMES = ("bbr", "cubic", "vegas")
HIDDEN = (
    Emulator(4.076, 48.4, 47, 0.00275, "poisson"),
    Emulator(0.903, 25.5, 39, 0.0, "constant"),
    Emulator(0.7, 63.3, 167, 0.003, "poisson"),
)
NOISE = 0.03
BUDGET, BATCH = 28, 4


def flows(emulator: Emulator, seed: int) -> dict[str, Figures]:
    """What the schemes would get, about."""
    chance, found = random.Random(f"{emulator} {seed}"), {}
    full, burst = emulator.full_ms - emulator.delay_ms, 40 if emulator.kind == "poisson" else 0
    for scheme in SCHEMES:
        most = emulator.rate_mbit * (0.97 if burst else 0.99)
        lossy = emulator.mathis_mbit * 1.4 if emulator.loss and scheme != "bbr" else math.inf
        mbit = (most**-4 + lossy**-4) ** -0.25
        own = {"bbr": 2 * emulator.delay_ms, "cubic": full * (mbit / most) ** 2, "vegas": 50 / emulator.rate_mbit}
        waits = min(full, own[scheme] + burst / emulator.rate_mbit)
        delay = (emulator.delay_ms + waits) * math.exp(chance.gauss(0, NOISE / 2))
        found[scheme] = Figures(mbit * math.exp(chance.gauss(0, NOISE)), delay)
    return found


def path_of(hidden: Emulator, first: int = 0) -> dict[str, Figures]:
    return mean_of(flows(hidden, 1000 + first + run) for run in range(5))


def searched(search: Search | Chance, budget: int = BUDGET) -> Search | Chance:
    while len(search.tried) < budget:
        search.observe(Tried(one, flows(one, 7)) for one in search.ask(BATCH))
    return search


# --- the error ---------------------------------------------------------------------------------------------------


def test_a_path_is_its_own_emulator() -> None:
    assert replication_error(flows(HIDDEN[0], 1), flows(HIDDEN[0], 1)) == 0


def test_known_differences() -> None:
    path = {"cubic": Figures(10, 100), "bbr": Figures(8, 50)}
    found = {"cubic": Figures(9, 120), "bbr": Figures(12, 50)}
    assert differences(path, found) == pytest.approx([0.5, 0, 0.1, 0.2])
    assert replication_error(path, found) == pytest.approx(0.2)
    # as parts of the path's, not of the emulator's
    assert replication_error(found, path) != pytest.approx(0.2)


def test_other_schemes_are_an_error() -> None:
    for other in ({}, {"cubic": Figures(1, 1)}, {"bbr": Figures(1, 1), "reno": Figures(1, 1)}):
        with pytest.raises(ValueError, match="held against"):
            replication_error({"bbr": Figures(1, 1), "cubic": Figures(1, 1)}, other)
    with pytest.raises(ValueError):
        replication_error({}, {})


def test_means_are_by_scheme() -> None:
    runs = [{"bbr": Figures(1, 10), "cubic": Figures(2, 20)}, {"cubic": Figures(4, 60), "bbr": Figures(3, 30)}]
    assert mean_of(runs) == {"bbr": (2, 20), "cubic": (3, 40)}
    with pytest.raises(ValueError):
        mean_of([])


# --- the space ---------------------------------------------------------------------------------------------------


def test_a_name_makes_pantheons_own_link() -> None:
    """Emulators 1 and 4 of Pantheon, by their five numbers."""
    for number, one in ((1, Emulator(0.57, 28, 14, 0.0477, "poisson")), (4, Emulator(100.42, 27, 173, 0, "constant"))):
        theirs = named(f"pantheon:{number}")
        assert (one.condition().down, one.condition().up) == (theirs.down, theirs.up)
    assert Emulator(5, 20, 100, 0.01, "constant").condition().down == LinkDirection(5000, 20, 0.01, 0, 100)


def test_every_corner_and_what_it_says_it_is() -> None:
    space = Space((0.5, 20.0), (3.0, 90.0))
    for corner in np.array(np.meshgrid(*[[0.0, 0.37, 1.0]] * 4, [0.0, 1.0])).reshape(5, -1).T:
        one = space.emulator(corner)
        assert space.rates[0] <= one.rate_mbit <= space.rates[1] and QUEUES[0] <= one.queue <= QUEUES[1]
        assert one.condition().is_played == (one.kind == "poisson")
        # a queue is whole: between two packets and three there is nothing
        assert space.unit(one) == pytest.approx(corner, abs=0.07 if one.queue < 10 else 0.01)
        assert space.emulator(space.unit(one)) == one
        assert np.all(np.isfinite(space.coordinates(one)))
    assert {space.emulator(np.array([0, 0, 0, 0, kind])).loss for kind in (0, 1)} == {0}


def test_measurements_say_where_to_begin() -> None:
    for hidden in HIDDEN:
        path, starts = path_of(hidden), starts_of(path_of(hidden))
        space = space_of(path)
        assert space.rates[0] < hidden.rate_mbit < space.rates[1]
        assert space.delays[0] < hidden.delay_ms < space.delays[1]
        assert {one.kind for one in starts} == set(KINDS) and min(one.loss for one in starts) == 0
        assert any(abs(one.rate_mbit / hidden.rate_mbit - 1) < 0.2 for one in starts)
        # a path with loss is suspected of it, of about so much
        if hidden.loss:
            assert any(0.2 < one.loss / hidden.loss < 8 for one in starts)


# --- the search --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(len(HIDDEN)))
def test_it_finds_hidden_emulators_better_than_chance(seed: int) -> None:
    hidden = HIDDEN[seed]
    path, others = path_of(hidden), path_of(hidden, 500)
    ours, theirs = (searched(kind(path, seed=seed)) for kind in (Search, Chance))
    error, by_chance = (replication_error(others, path_of(one.best(), 900)) for one in (ours, theirs))
    assert error < 0.08
    assert error < 0.6 * by_chance


@pytest.mark.slow
def test_it_finds_the_optimum_without_a_starting_point() -> None:
    path = path_of(HIDDEN[1])
    found = searched(Search(path, seed=3, starts=()))
    assert replication_error(path, path_of(found.best(), 900)) < 0.1


@pytest.mark.slow
def test_the_same_seed_asks_the_same() -> None:
    path = path_of(HIDDEN[0])
    first, second, third = (searched(Search(path, seed=seed), 24) for seed in (1, 1, 2))
    assert first.tried == second.tried and first.best() == second.best()
    assert first.tried != third.tried


@pytest.mark.slow
def test_a_batch_is_not_one_emulator_four_times() -> None:
    search = searched(Search(path_of(HIDDEN[0]), seed=4), 20)
    asked = search.ask(4)
    assert len(set(asked)) == 4 and not set(asked) & {one.emulator for one in search.tried}


@pytest.mark.slow
def test_one_lucky_look_is_not_taken() -> None:
    """An emulator far off, of which one look says that it is the path itself."""
    path = path_of(HIDDEN[1])
    search = searched(Search(path, seed=5), 24)
    liar = Emulator(search.space.rates[1], search.space.delays[0], 900, 0.08, "poisson")
    search.observe([Tried(liar, flows(liar, run)) for run in range(3)] + [Tried(liar, path)])
    assert min(search.tried, key=lambda one: replication_error(path, one.seen)).emulator == liar
    assert search.best() != liar


def test_figures_of_other_schemes_are_refused() -> None:
    search = Search(path_of(HIDDEN[0]), seed=1)
    with pytest.raises(ValueError, match="nothing was tried"):
        search.best()
    with pytest.raises(ValueError, match="held against"):
        search.observe([Tried(HIDDEN[0], {"cubic": Figures(1, 1)})])
