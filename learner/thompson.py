"""The rival: Bayesian linear Thompson sampling over all cells, with a residual per cell, a warm start and a guardrail.

Question   Which configuration is fastest in this cell, given what every other cell has shown?
Method     `linear.Model` on sums per cell and configuration. At each update `draws` tables are drawn from its posterior
           with deviations times `boldness`; each draw's best configuration gets 1/draws of the cell's sessions. So what
           is uncertain is tried, in proportion, and the propensity is known.
           Guardrail: a configuration whose upper-confidence excess over Default is above `guard_ln` is not served;
           a share `allowance` of a cell's draws may be unproven, so that a cold start learns at all.
           In every cell a fiftieth of the sessions gets Default, as a measure of the rest.
           Warm start: an emulated tensor counts as `warm_loads` real page loads, and as less where what is seen is
           unlikely under it.
Stop when  never: exploration shrinks with the posterior.
Reads as   up to `draws` configurations per cell with their weights.
Fails as   a client of no class, and any cell in which the guardrail passes nothing: Default.
Differs    from CT's ensemble, which searches every cell on its own: docs/design/0014, docs/experiments.md.
Source     Agrawal and Goyal 2013; Kazerouni et al. 2017 (conservative bandits) for the guardrail's idea.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from configtron.errors import BadInput
from configtron.learner.classes import Classes
from configtron.learner.classpolicy import ClassPolicy
from configtron.learner.columns import ARM, Codes, Contexts, Floats
from configtron.learner.features import cell_features, configuration_features, heaviness
from configtron.learner.grid import Grid
from configtron.learner.linear import Evidence, Model, evidence, likelihood_ln, prior, weights
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
# Shares of a warm start's weight that are compared, by the likelihood of what was seen; at updates 1, 2, 4, 8 and every
# 16th, since each comparison costs as much as an update.
TRUSTS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.0)
JUDGE_EVERY = 16
# Sessions that get Default in every cell: what everything is measured against must itself be measured, or a warm start
# that is wrong about Default is never found out. One in fifty costs a fiftieth of the gain.
HOLDBACK_SHARE = 0.02
# A cell that is served Default alone would never learn that it could do better, whoever said so: this share of its
# sessions looks around. Two in a hundred find a gain within some hundred loads of all such cells together.
LOOKING_SHARE = 0.02
# Below this share a warm start is taken for another world's.
LEAST_TRUST = 0.05
# Without any, a guardrail lets nothing pass and nothing is learned; a quarter learns within some ten loads a cell.
COLD_ALLOWANCE = 0.25


class LinearPolicy(ClassPolicy):
    """What policies over the shared model have in common: evidence, warm start, candidates; `serve` makes the table.

    candidates     configurations that may be served (with Default); None: all, as once the warm start is distrusted
    warm           emulated tensor over the same grid and sites (`BadInput` for another's)
    warm_loads     how many real page loads the whole of it counts as, at most: less once loads contradict it (`trust_`)
    residual_ln    how far a cell's configuration may differ from the shared model, standard deviation
    """

    STATE: ClassVar[tuple[str, ...]] = (
        *ClassPolicy.STATE,
        "slopes_",
        "expected_",
        "heaviness_",
        "trust_",
        "candidates_",
    )

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
        self.candidates_ = np.unique(np.append(every, grid.default))
        self.residual_ln = residual_ln
        self._features, knob_sd = configuration_features(grid)
        self.heaviness_ = np.zeros(len(sites)) if warm is None else tensor_heaviness(warm)
        self._prior = prior(knob_sd, cell_features(classes.centroid, self.heaviness_)[1])
        self._warm: Evidence | None = None
        self.trust_ = 1.0
        if warm is not None:
            if warm.grid.profiles != grid.profiles or warm.sites != sites:
                raise BadInput("warm start: the tensor has other configurations or sites; emulate these, or go without")
            self._warm = emulated(warm, self._features, warm_loads)
        self.slopes_ = no_slopes(len(classes))
        self.expected_: Floats = np.full((self.rows, len(grid)), np.nan)
        self.served_ = self.serve(self.model())

    def model(self) -> Model:
        """The posterior from all that was seen."""
        cells, _ = cell_features(self.classes_.centroid, self.heaviness_)
        count, noise = self.tally_.count, self.tally_.noise_ln(FIRST_NOISE_LN)
        mean = np.nan_to_num(self.tally_.mean())
        known = self._believed(self.trust_).plus(self._seen(cells, noise))
        return Model(known, self._features, cells, count, mean, noise_ln=noise, residual_ln=self.residual_ln)

    def _believed(self, trust: float) -> Evidence:
        """What is held before anything is seen, with that much trust in the warm start."""
        return self._prior if self._warm is None else self._prior.plus(self._warm.times(trust))

    def _seen(self, cells: Floats, noise_ln: float) -> Evidence:
        weight = weights(self.tally_.count, noise_ln, self.residual_ln)
        return evidence(weight, np.nan_to_num(self.tally_.mean()), self._features, cells)

    def _judge_warm_start(self) -> None:
        """Trust the warm start as far as what was seen is likely under it; now and then, for it is slow to change."""
        now_and_then = self.updates_ % JUDGE_EVERY == 0 or self.updates_ & (self.updates_ - 1) == 0
        if self._warm is None or not now_and_then:
            return
        cells, _ = cell_features(self.classes_.centroid, self.heaviness_)
        seen = self._seen(cells, self.tally_.noise_ln(FIRST_NOISE_LN))
        self.trust_ = max(TRUSTS, key=lambda trust: likelihood_ln(self._believed(trust), seen))
        if self.distrusted:
            self.candidates_ = np.arange(len(self.grid))

    @property
    def distrusted(self) -> bool:
        """Whether there is no warm start that what was seen bears out; then its templates are void, too."""
        return self._warm is None or self.trust_ < LEAST_TRUST

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
        self._judge_warm_start()
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
    allowance   share of a cell's draws that may be unproven; None: a quarter, but none while a warm start is trusted
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
        self.allowance = allowance
        super().__init__(*given, **more)

    def serve(self, model: Model) -> Served:
        mean = model.mean()[:, self.candidates_]
        drawn = np.stack([model.draw(self.rng, self.boldness)[:, self.candidates_] for _ in range(self.draws)])
        if self.guard_ln is not None:
            drawn = self._guarded(mean, drawn, self.guard_ln)
        picks = drawn.argmin(axis=2).T
        level = model.levels()[:, None]
        expected = np.exp(np.take_along_axis(mean, picks, axis=1) + level)
        served = mixed(np.ascontiguousarray(self.candidates_[picks]), "thompson", self.grid.default, expected)
        return self._held_back(served, np.exp(level[:, 0]))

    def _held_back(self, served: Served, default_ms: Floats) -> Served:
        """The table with Default's share in every row; a row that is served nothing else looks around instead."""
        alone = (served.configuration == self.grid.default).all(axis=1)
        held = np.where(alone, 0.0, HOLDBACK_SHARE)[:, None]
        column = np.full((self.rows, 1), self.grid.default)
        return Served(
            np.concatenate((served.configuration, column), axis=1),
            np.concatenate((served.arm, np.full((self.rows, 1), ARM["default"], dtype=np.int8)), axis=1),
            np.concatenate((served.weight * (1.0 - held), held), axis=1),
            np.concatenate((served.expected_ms, default_ms[:, None]), axis=1),
            np.where(alone, LOOKING_SHARE, 0.0),
            np.arange(len(self.grid)),
            self.grid.default,
        )

    def _guarded(self, mean: Floats, drawn: Floats, guard_ln: float) -> Floats:
        """The draws, with what is too risky at infinity; the first `allowance` of them go unguarded."""
        default = int(np.flatnonzero(self.candidates_ == self.grid.default)[0])
        excess = drawn - drawn[:, :, default, None]
        deviation = excess.std(axis=0) / max(self.boldness, 1e-9)
        risky = mean - mean[:, default, None] + self.guard_sigmas * deviation > guard_ln
        risky[:, default] = False
        by_trust = COLD_ALLOWANCE if self.distrusted else 0.0
        allowance = by_trust if self.allowance is None else self.allowance
        guarded = np.arange(self.draws) >= round(allowance * self.draws)
        return np.where(guarded[:, None, None] & risky[None], np.inf, drawn)
