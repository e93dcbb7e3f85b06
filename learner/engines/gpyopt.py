# SPDX-License-Identifier: MIT
"""GPyOpt's own Gaussian process behind our interface, twice: over the whole grid, and as it comes.

`GpyGrid` fits GPyOpt's GPModel on the scaled grid and computes its expected improvement for every configuration: the
grid engine's method, with their process. `GpyClassic` is GPyOpt's own loop over the discrete domain, as the paper must
have used it; it may suggest a tried configuration again; then the best untried one takes its place and `repeats_`
counts it.

GPyOpt is past maintenance: it draws from numpy's one global generator, which is saved, seeded and put back around every
call, and it expects a numpy that still had `numpy.linalg.linalg`. This is the only file that imports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.engines.grid import coordinates, improvement
from configtron.learner.searches import Suggestion
from configtron.model.errors import BadInput, Missing
from configtron.model.grid import Grid

# Steps of the hyper-parameters' optimiser: GPyOpt's 1000 change nothing at a dozen samples but the time.
MODEL_STEPS = 50
# Subtracted, as a share, from GPyOpt's expected improvement: its own default.
JITTER = 0.01


def gpyopt() -> Any:
    """Return the library. Errors: `Missing`, with how to get it."""
    try:
        import GPyOpt
    except ImportError as error:
        raise Missing(f"GPyOpt is not installed ({error}); run: pip install 'configtron[gpyopt]'") from error
    # Without the alias a failed Cholesky becomes an AttributeError inside GPyOpt (numpy 2).
    if not hasattr(np.linalg, "linalg"):
        np.linalg.linalg = np.linalg  # type: ignore[attr-defined]
    return GPyOpt


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """numpy's global generator at a seed, and afterwards as it was."""
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)


class GpyGrid:
    """GPModel and expected improvement over the whole grid, on ln(ms)."""

    name = "gpyopt"

    def __init__(self, grid: Grid, *, seed: int = 0):
        self._library, self._points, self._seed = gpyopt(), coordinates(grid), seed

    def suggest(self, tried: Codes, ms: Floats, pending: Codes) -> Suggestion:
        """As `Engine.suggest`."""
        if not len(tried):
            raise BadInput("the engine needs at least one configuration that was tried")
        y = np.log(ms)
        level, spread = float(y.mean()), max(float(y.std()), 1e-6)
        with seeded(self._seed + len(tried)):
            model = self._library.models.GPModel(max_iters=MODEL_STEPS, optimize_restarts=1, verbose=False)
            model.updateModel(self._points[tried], ((y - level) / spread)[:, None], None, None)
            mean, deviation = model.predict(self._points)
        mean, deviation = level + spread * mean[:, 0], spread * deviation[:, 0]
        gain = improvement(mean, deviation, float(mean[tried].min()))
        gain[tried] = -1.0
        gain[pending] = -1.0
        best = int(gain.argmax())
        return Suggestion(best, max(float(gain[best]), 0.0))


class GpyClassic:
    """BayesianOptimization.suggest_next_locations, fed with all that was tried."""

    name = "gpyopt-classic"

    def __init__(self, grid: Grid, *, seed: int = 0):
        self._library, self._grid, self._seed = gpyopt(), grid, seed
        self._domain = [
            {"name": knob.name, "type": "discrete", "domain": tuple(range(len(knob.values)))} for knob in grid.knobs
        ]
        self._row = {tuple(map(int, row)): at for at, row in enumerate(grid.positions)}
        self.repeats_ = 0

    def suggest(self, tried: Codes, ms: Floats, pending: Codes) -> Suggestion:
        """As `Engine.suggest`; the gain is GPyOpt's own expected improvement over the best's time."""
        if not len(tried):
            raise BadInput("the engine needs at least one configuration that was tried")
        with seeded(self._seed + len(tried)):
            loop = self._library.methods.BayesianOptimization(
                f=None,
                domain=self._domain,
                X=self._grid.positions[tried].astype(np.float64),
                Y=ms[:, None],
                acquisition_type="EI",
                acquisition_jitter=JITTER,
                exact_feval=False,
            )
            wanted = loop.suggest_next_locations()
            gains = -loop.acquisition.acquisition_function(self._grid.positions.astype(np.float64))[:, 0]
        scale = float(ms.std()) if getattr(loop, "normalize_Y", False) and len(ms) > 1 else 1.0
        gain = np.array(gains, dtype=np.float64) * scale / float(ms.min())
        at = self._row.get(tuple(int(round(value)) for value in wanted[0]), -1)
        taken = {*map(int, tried), *map(int, pending)}
        if at < 0 or at in taken:
            self.repeats_ += at >= 0
            gain[list(taken)] = -1.0
            at = int(gain.argmax())
        return Suggestion(at, max(float(gain[at]), 0.0))
