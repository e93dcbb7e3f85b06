# SPDX-License-Identifier: MIT
"""The engines: one contract, and the grid's exact process against a plain one written out."""

from __future__ import annotations

import os
import re
import sys

import numpy as np
import pytest

from configtron.learner.engines.grid import GridEngine, coordinates, improvement
from configtron.learner.engines.posterior import matern52
from configtron.learner.searches import Engine, latin
from configtron.model.errors import BadInput, Missing
from configtron.model.grid import Grid, live_grid, paper_grid
from tests.support import ROOT

GRID = live_grid()
ENGINES = ("grid", "gpyopt", "gpyopt-classic")
NONE = np.zeros(0, dtype=np.int64)


def objective(seed: int) -> np.ndarray:
    """(168,) page load times that are smooth over the grid's coordinates."""
    rng = np.random.default_rng(seed)
    points = coordinates(GRID)
    weight = rng.standard_normal(points.shape[1])
    return np.exp(7.0 + 0.3 * points @ weight + 0.1 * (points @ rng.standard_normal(points.shape[1])) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "objectives"), [("grid", 12), ("gpyopt", 2), ("gpyopt-classic", 1)])
def test_every_engine_finds_better_than_chance(name: str, objectives: int) -> None:
    """In ten samples, the first four of which are a hypercube, over some objectives."""
    mine, chance = [], []
    for seed in range(objectives):
        truth, rng, asked = objective(seed), np.random.default_rng(seed), engine(name)
        tried = list(latin(GRID, 4, rng))
        while len(tried) < 10:
            at = np.array(tried)
            tried.append(asked.suggest(at, truth[at], NONE).configuration)
        mine.append(truth[tried].min() / truth.min() - 1.0)
        chance += [truth[rng.choice(len(GRID), 10, replace=False)].min() / truth.min() - 1.0 for _ in range(20)]
    assert np.mean(mine) < 0.5 * np.mean(chance)


def test_the_posterior_is_the_textbooks() -> None:
    """Against the formulas of Rasmussen and Williams 2.25 and 2.26, for whichever hyper-parameters were likeliest."""
    engine, truth = GridEngine(GRID), objective(3)
    tried = np.arange(0, 160, 16)
    y = np.log(truth[tried])
    mean, deviation = engine.posterior(tried, y)
    points = coordinates(GRID)
    away = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    best = None
    for scale in (0.7, 1.4, 2.8):
        for noise in (0.01, 0.05, 0.2, 0.6):
            kernel = (1 - noise) * matern52(away / scale)
            among = kernel[np.ix_(tried, tried)] + (noise + 1e-9) * np.eye(len(tried))
            rest = y - y.mean()
            variance = max(rest @ np.linalg.inv(among) @ rest / len(y), 1e-4)
            likelihood = -0.5 * len(y) * np.log(variance) - 0.5 * np.linalg.slogdet(among)[1]
            if best is None or likelihood > best[0]:
                gain = kernel[:, tried] @ np.linalg.inv(among)
                left = (1 - noise) - (gain * kernel[:, tried]).sum(axis=1)
                best = (likelihood, y.mean() + gain @ rest, np.sqrt(variance * np.maximum(left, 0)))
    assert best is not None
    assert np.allclose(mean, best[1], atol=1e-8) and np.allclose(deviation, best[2], atol=1e-6)


def test_expected_improvement_is_what_sampling_gives() -> None:
    rng = np.random.default_rng(1)
    mean, deviation, best = np.array([7.0, 6.8]), np.array([0.3, 0.05]), 6.9
    drawn = np.exp(mean + deviation * rng.standard_normal((400_000, 2)))
    sampled = np.maximum(np.exp(best) - drawn, 0).mean(axis=0) / np.exp(best)
    assert np.allclose(improvement(mean, deviation, best), sampled, atol=2e-3)


def engine(name: str, seed: int = 0) -> Engine:
    if name == "grid":
        return GridEngine(GRID)
    # `make test` installs every extra, and skips none of them.
    if os.environ.get("CONFIGTRON_EXTRAS") != "all":
        pytest.importorskip("GPyOpt", reason="GPyOpt is not installed: pip install 'configtron[gpyopt]'")
    from configtron.learner.engines.gpyopt import GpyClassic, GpyGrid

    return {"gpyopt": GpyGrid, "gpyopt-classic": GpyClassic}[name](GRID, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_keeps_the_contract(name: str) -> None:
    """New configurations only, gains that are shares, the same answer twice, the world's chance untouched."""
    truth, mine = objective(4), engine(name)
    tried = list(latin(GRID, 5, np.random.default_rng(1)))
    before = np.random.get_state()[1].tolist()  # type: ignore[union-attr]
    for _ in range(3):
        at = np.array(tried)
        found = mine.suggest(at, truth[at], np.array([7]))
        assert found == engine(name).suggest(at, truth[at], np.array([7]))
        assert found.configuration not in (*tried, 7) and 0.0 <= found.gain < 1.0
        tried.append(found.configuration)
    assert np.random.get_state()[1].tolist() == before  # type: ignore[union-attr]
    with pytest.raises(BadInput, match="at least one"):
        mine.suggest(NONE, np.zeros(0), NONE)


def test_without_gpyopt_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from configtron.learner.engines.gpyopt import GpyGrid

    monkeypatch.setitem(sys.modules, "GPyOpt", None)
    with pytest.raises(Missing, match=r"^GPyOpt is not installed \(.*\); run: pip install 'configtron\[gpyopt\]'$"):
        GpyGrid(GRID)
    found = [path.name for path in (ROOT / "learner").rglob("*.py") if "import GPyOpt" in path.read_text()]
    assert found == ["gpyopt.py"], "one file imports it"


@pytest.mark.parametrize("grid", [GRID, paper_grid()], ids=["live", "paper"])
def test_a_latin_hypercube_covers_every_knob(grid: Grid) -> None:
    for seed in range(5):
        rows = latin(grid, 4, np.random.default_rng(seed))
        values = [len(set(grid.positions[rows, knob].tolist())) for knob in range(len(grid.knobs))]
        least = [min(len(knob.values), 4) for knob in grid.knobs]
        assert len(set(rows.tolist())) == 4 and sum(values) >= sum(least) - 1
        assert all(n >= k - 1 for n, k in zip(values, least, strict=True))


def test_make_installs_every_extra_that_tests_are_skipped_without() -> None:
    """`make test` skips none of them: it says so to the tests, which then fail where a package is absent."""
    makefile = (ROOT / "Makefile").read_text()
    installed = re.search(r"-e '\.\[(.*?)\]'", makefile)
    assert installed is not None and "gpyopt" in installed[1].split(",") and "CONFIGTRON_EXTRAS=all" in makefile
