"""The rival: Bayesian linear Thompson sampling over all cells, with a residual per cell, a warm start and a guardrail.

Question   Which configuration is fastest in this cell, given what every other cell has shown?
Method     `linear.Model` on sums per cell and configuration. At each update `draws` tables are drawn from its posterior
           with deviations times `boldness`; each draw's best configuration gets 1/draws of the cell's sessions. So what
           is uncertain is tried, in proportion, and the propensity is known.
           Guardrail: a configuration whose upper-confidence excess over Default is above `guard_ln` is not served;
           a share `allowance` of a cell's draws may be unproven, so that a cold start learns at all.
           Warm start: an emulated tensor counts as `warm_loads` real page loads, no more.
Stop when  never: exploration shrinks with the posterior.
Reads as   up to `draws` configurations per cell with their weights.
Fails as   a client of no class, and any cell in which the guardrail passes nothing: Default.
Differs    from CT's ensemble, which searches every cell on its own: docs/design/0011, docs/experiments.md.
Source     Agrawal and Goyal 2013; Kazerouni et al. 2017 (conservative bandits) for the guardrail's idea.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from configtron.errors import BadInput
from configtron.learner.classes import Classes
from configtron.learner.classpolicy import ClassPolicy
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.features import cell_features, configuration_features, heaviness
from configtron.learner.grid import Grid
from configtron.learner.linear import Evidence, Model, evidence, prior, weights
from configtron.learner.policy import Seen
from configtron.learner.served import Served, mixed
from configtron.learner.sim.tensor import Tensor
from configtron.learner.within import no_slopes

# Spread of one load around its cell's and configuration's mean, until repeats have shown it.
FIRST_NOISE_LN = 0.25
# A distorted emulator still knows more than ten thousand real loads spread over some hundred cells; beyond that, what
# it has wrong begins to show.
WARM_LOADS = 10_000.0
# A tensor's medians leave no doubt about a site's heaviness.
MANY_LOADS = 1000.0
# Without any, a guardrail lets nothing pass and nothing is learned; a quarter learns within some ten loads a cell.
COLD_ALLOWANCE = 0.25


class LinearPolicy(ClassPolicy):
    """What policies over the shared model have in common: evidence, warm start, candidates; `serve` makes the table.

    candidates     configurations that may be served (with Default); None: all
    warm           emulated tensor over the same grid and sites (`BadInput` for another's)
    warm_loads     how many real page loads the whole of it counts as
    residual_ln    how far a cell's configuration may differ from the shared model, standard deviation
    """

    STATE: ClassVar[tuple[str, ...]] = (*ClassPolicy.STATE, "slopes_", "expected_", "heaviness_")

    def __init__(
        self,
        grid: Grid,
        sites: tuple[str, ...],
        rng: np.random.Generator,
        classes: Classes,
        *,
        update_every: int = 500,
        candidates: Codes | None = None,
        warm: Tensor | None = None,
        warm_loads: float = WARM_LOADS,
        residual_ln: float = 0.05,
        **more: Any,
    ):
        super().__init__(grid, sites, rng, classes, update_every=update_every, **more)
        every = np.arange(len(grid)) if candidates is None else candidates
        self.candidates = np.unique(np.append(every, grid.default))
        self.residual_ln = residual_ln
        self._features, knob_sd = configuration_features(grid)
        self.heaviness_ = np.zeros(len(sites)) if warm is None else tensor_heaviness(warm)
        self._prior = prior(knob_sd, cell_features(classes.centroid, self.heaviness_)[1])
        if warm is not None:
            if warm.grid.profiles != grid.profiles or warm.sites != sites:
                raise BadInput("warm start: the tensor has other configurations or sites; emulate these, or go without")
            self._prior = self._prior.plus(emulated(warm, self._features, warm_loads))
        self.slopes_ = no_slopes(len(classes))
        self.expected_: Floats = np.full((self.rows, len(grid)), np.nan)
        self.served_ = self.serve(self.model())

    def model(self) -> Model:
        """The posterior from all that was seen."""
        cells, _ = cell_features(self.classes_.centroid, self.heaviness_)
        count, noise = self.tally_.count, self.tally_.noise_ln(FIRST_NOISE_LN)
        mean = np.nan_to_num(self.tally_.mean())
        known = self._prior.plus(evidence(weights(count, noise, self.residual_ln), mean, self._features, cells))
        return Model(known, self._features, cells, count, mean, noise_ln=noise, residual_ln=self.residual_ln)

    def serve(self, model: Model) -> Served:
        """The table until the next update."""
        raise NotImplementedError

    def expected_ln(self) -> Floats:
        return self.model().mean()

    def prepare(self, seen: Seen) -> Seen:
        return super().prepare(self._as_at_centroid(seen))

    def _as_at_centroid(self, seen: Seen) -> Seen:
        """Loads corrected for where in its class a client is."""
        known = seen.row >= 0
        network, point = seen.network[known], seen.point[known]
        away = point - self.classes_.centroid[network]
        rest = seen.log_ms[known] - self.expected_[seen.row[known], seen.configuration[known]]
        log_ms = seen.log_ms.copy()
        log_ms[known] -= (away * self.slopes_.slopes()[network]).sum(axis=1)
        told = ~np.isnan(rest)
        self.slopes_ = self.slopes_.plus(network[told], away[told], rest[told])
        return replace(seen, log_ms=log_ms)

    def grow(self, before: int) -> None:
        self.slopes_ = self.slopes_.grown(len(self.classes_))

    def learn(self, seen: Seen) -> None:
        model = self.model()
        level = model.levels()
        self.expected_ = model.mean() + level[:, None]
        table = (len(self.classes_), len(self.sites) + 1)
        loads = self.tally_.count.sum(axis=1).reshape(table)
        self.heaviness_ = heaviness(level.reshape(table)[:, :-1], loads[:, :-1], self.heaviness_)
        self.served_ = self.serve(model)


def emulated(warm: Tensor, features: Floats, loads: float) -> Evidence:
    """What an emulated tensor tells, all of it together counting as `loads` page loads.

    Each of its conditions is a cell of its own; cells that were never measured tell nothing.
    """
    columns = (warm.bandwidth_kbps, warm.rtt_ms, warm.loss)
    points = Contexts(*columns, np.zeros(len(warm.names), dtype=np.int64), warm.sites).points()
    cells, _ = cell_features(points, tensor_heaviness(warm))
    inner = np.arange(len(cells)).reshape(len(warm.names), -1)[:, :-1].ravel()
    log_ms = np.log(warm.median_ms.astype(np.float64)).transpose(0, 2, 1).reshape(-1, len(warm.grid))
    measured = ~np.isnan(log_ms)
    share = loads / max(int(measured.sum()), 1)
    return evidence(share * measured / FIRST_NOISE_LN**2, np.nan_to_num(log_ms), features, cells[inner])


def tensor_heaviness(tensor: Tensor) -> Floats:
    """(sites,) heaviness of a tensor's sites under Default."""
    level = np.log(tensor.median_ms[:, tensor.grid.default, :].astype(np.float64))
    return heaviness(level, np.full(level.shape, MANY_LOADS), np.zeros(len(tensor.sites)))


class Thompson(LinearPolicy):
    """Thompson sampling; the product's default policy.

    boldness    posterior deviations are drawn this much smaller: full ones over-explore at some hundred loads a cell
    draws       tables per update, hence at most that many configurations at a time in a cell
    guard_ln    upper-confidence excess over Default that is still served, ln(ms); None: no guardrail
    guard_sigmas  how many posterior deviations "upper" is
    allowance   share of a cell's draws that may be unproven; None: a quarter, and none after a warm start
    """

    name: ClassVar[str] = "thompson"

    def __init__(
        self,
        *given: Any,
        boldness: float = 0.4,
        draws: int = 16,
        guard_ln: float | None = 0.1,
        guard_sigmas: float = 1.0,
        allowance: float | None = None,
        **more: Any,
    ):
        self.boldness, self.draws = boldness, draws
        self.guard_ln, self.guard_sigmas = guard_ln, guard_sigmas
        cold = COLD_ALLOWANCE if more.get("warm") is None else 0.0
        self.allowance = cold if allowance is None else allowance
        super().__init__(*given, **more)

    def serve(self, model: Model) -> Served:
        mean = model.mean()[:, self.candidates]
        drawn = np.stack([model.draw(self.rng, self.boldness)[:, self.candidates] for _ in range(self.draws)])
        if self.guard_ln is not None:
            drawn = self._guarded(mean, drawn, self.guard_ln)
        picks = drawn.argmin(axis=2).T
        level = model.levels()[:, None]
        expected = np.exp(np.take_along_axis(mean, picks, axis=1) + level)
        return mixed(np.ascontiguousarray(self.candidates[picks]), "thompson", self.grid.default, expected)

    def _guarded(self, mean: Floats, drawn: Floats, guard_ln: float) -> Floats:
        """The draws, with what is too risky at infinity; the first `allowance` of them go unguarded."""
        default = int(np.flatnonzero(self.candidates == self.grid.default)[0])
        excess = drawn - drawn[:, :, default, None]
        deviation = excess.std(axis=0) / max(self.boldness, 1e-9)
        risky = mean - mean[:, default, None] + self.guard_sigmas * deviation > guard_ln
        risky[:, default] = False
        guarded = np.arange(self.draws) >= round(self.allowance * self.draws)
        return np.where(guarded[:, None, None] & risky[None], np.inf, drawn)
