# SPDX-License-Identifier: MIT
"""The shared model as a part of a policy: evidence of all cells, warm start, candidates, fine classes.

Question   How fast is each configuration in every cell, by all loads, and may the warm start be believed?
Method     Loads are corrected for where in its class a client is, and Huber-clipped where they are far from the
           expectation of a cell with enough loads: one bad moment in twenty must not outweigh the other loads. Sums per
           cell and configuration go into `linear.Model`. The shared effects, and the noise by which loads are weighed,
           are found anew once loads have grown by a tenth, a class's or a cell's own effects at every update. Classes
           are cut fine after `part_at` loads: shared effects need not be learned again in each. Warm start: an emulated
           tensor counts as `warm_loads` real page loads, and as less where the loads are unlikely under it. Cold start:
           the size of effects is judged by the loads, too, and a configuration far from Default is taken to be slower:
           under a prior too wide the best of many uncertain configurations is a disappointment.
Stop when  never.
Reads as   `model()`, from which a policy makes its table.
Fails as   `BadInput` for a warm start of which nothing can be expressed by these knobs (`tensor_mapping.py`).
Differs    from CT, which searches every cell on its own.
Source     Lindley and Smith 1972; Huber 1964 (clipped loads); Morris 1983 (a prior's scale from the data).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from configtron.learner.class_cells import ClassCells
from configtron.learner.class_spread import Slopes, no_slopes
from configtron.learner.classes import Classes
from configtron.learner.clients import CAP, Cap, Clients, buckets_of, no_clients
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.driver_support import Mask
from configtron.learner.features import cell_features, configuration_features, rounds_of
from configtron.learner.influence import FIRST_LOADS, WHOLE_SIGMAS, first_expected, spread_of, unknown_ln, weights_of
from configtron.learner.linear import (
    Evidence,
    Known,
    Model,
    SufficientStatistics,
    evidence,
    prior,
    solved,
    sufficient_statistics,
    weights,
)
from configtron.learner.outcome_columns import OutcomeColumns, joined
from configtron.learner.serving_table import Served
from configtron.learner.setting import Setting
from configtron.learner.state import check_codes, check_positive, check_shapes, read
from configtron.learner.tensor_mapping import mapped
from configtron.learner.warmstart import WarmStart, emulated, plain_spread
from configtron.model.tensor import Tensor

# A distorted emulator still knows more than ten thousand real loads spread over some hundred cells; beyond that, its
# errors begin to show.
WARM_LOADS = 10_000.0
# Shares of a warm start's weight that are compared, by the likelihood of the loads; at updates 1 to 8,
# powers of two and every 16th, since a comparison costs as much as a small update.
TRUSTS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.0)
JUDGE_EVERY, EARLY_UPDATES = 16, 8
# Below this share a warm start is taken for another world's, and its templates for void.
LEAST_TRUST = 0.2
# Prior excess of a configuration over Default, ln, for each knob that is set otherwise: defaults are no accident.
USUAL_EXCESS_LN = 0.1
# How large effects are, as shares of the prior's deviations: compared by the likelihood of the loads, as trusts are.
# The first holds until loads show more.
SCALES = (0.5, 1.0, 0.25)
# Loads by which all that was seen must have grown before the shared effects are found anew: a tenth moves them by a
# twentieth of their uncertainty.
GROWTH = 1.1
# Further from Default, either way, than almost any configuration: three times as long, or a third.
MOST_EXCESS_LN = 1.1
# A load further than this from its expectation, in deviations of a load, counts as so far; where its class has shown
# the configuration as often, so that a wrong expectation is not defended.
FAR_SIGMAS, SHOWN_LOADS = 2.5, 3.0


@dataclass(frozen=True, slots=True, eq=False)
class ModelOptions:
    """The arguments of a shared model, beside a policy's `Setting`.

    candidates     configurations that may be served (with Default); None: all, as once the warm start is distrusted
    warm_loads     how many real page loads the whole of a warm start counts as, at most: less once loads contradict it
    residual_ln    how far a cell's configuration may differ from the shared model, standard deviation
    cap            how much one prefix may weigh in its class (`clients.py`)
    window, part_at  as in `ClassCells`
    humble         whether effects are taken to be smaller, and other configurations than Default slower, until loads
                   show more
    """

    candidates: Codes | None = None
    warm_loads: float = WARM_LOADS
    residual_ln: float = 0.05
    cap: Cap = CAP
    window: int = 10_000
    part_at: int = 2000
    humble: bool = False


PLAIN_MODEL = ModelOptions()


@dataclass(frozen=True, slots=True, eq=False)
class SharedModelState:
    """Saved: as the attributes of `SharedModel` of these names."""

    slopes_: Slopes
    expected_: Floats
    rounds_ln_: Floats
    trust_: float
    scale_: float
    candidates_: Codes
    shared_: Evidence
    shared_loads_: float
    clients_: Clients
    refused_: int
    noise_ln_: float


class SharedModel:
    """One Bayesian linear model over all cells of network classes and websites.

    cells     the classes and the sums of their loads
    warm      emulated tensor, over whatever configurations and sites (`tensor_mapping.py`)
    bounded   whether a load counts less the further off it is (`influence.py`); else it is clipped (Huber)
    """

    shared = True

    def __init__(self, cells: ClassCells, options: ModelOptions, *, warm: Tensor | None = None, bounded: bool = True):
        self.cells, self.grid, self.sites, self.options, self.bounded = cells, cells.grid, cells.sites, options, bounded
        self.clients_, self.refused_ = no_clients(), 0
        grid, classes = cells.grid, cells.classes_
        every = np.arange(len(grid)) if options.candidates is None else options.candidates
        self.candidates_ = np.unique(np.append(every, grid.default))
        self.among: Mask | None = None
        self._features, knob_sd = configuration_features(grid)
        self._plain = plain_spread(knob_sd)
        self._warm: WarmStart | None = None
        self.trust_ = 1.0
        self.scale_ = SCALES[0] if warm is None and options.humble else 1.0
        # Solved already: the shared effects as `shared_` and `trust_` stand, and each belief before any load.
        self._known: tuple[Evidence, tuple[float, float], Known] | None = None
        # Sums of the loads of the last model: most cells' are still right.
        self._sums: SufficientStatistics | None = None
        self._before_loads_ln: dict[tuple[float, float], float] = {}
        # The evidence by which beliefs were judged last.
        self._judged: Evidence | None = None
        if warm is not None:
            mine = mapped(warm, grid, self.sites)
            self._warm = emulated(mine, knob_sd, options.warm_loads, len(self.sites), classes.axes)
        unseen = np.full((len(classes), len(self.sites) + 1), np.nan)
        self.rounds_ln_ = self.rounds(unseen, np.zeros(unseen.shape))
        self._prior = prior(knob_sd, cell_features(classes.centroid, self.rounds_ln_, classes.axes)[1])
        self.slopes_ = no_slopes(len(classes), classes.centroid.shape[1])
        self.expected_: Floats = np.full((cells.rows, len(grid)), np.nan)
        self.noise_ln_ = cells.noise_ln()
        self._look(self._statistics())

    @classmethod
    def of(cls, setting: Setting, options: ModelOptions) -> SharedModel:
        """Return the model over a setting's classes and sites."""
        cells = ClassCells.of(setting, window=options.window, part_at=options.part_at)
        return cls(cells, options, warm=setting.warm, bounded=setting.bounded)

    @property
    def warm(self) -> bool:
        """Return whether it was made with a warm start."""
        return self._warm is not None

    def restrict(self, among: Mask) -> None:
        """Consider only these configurations, (configurations,), and Default."""
        self.among = among | (np.arange(len(self.grid)) == self.grid.default)
        self.candidates_ = np.append(self.candidates_[among[self.candidates_]], self.grid.default)
        self.candidates_ = np.unique(self.candidates_)

    def model(self) -> Model:
        """Return the posterior from all that was seen."""
        return self._posterior(self._statistics())

    def _posterior(self, seen: SufficientStatistics) -> Model:
        cells, _ = cell_features(self.cells.classes_.centroid, self.rounds_ln_, self.cells.classes_.axes)
        # A distrusted warm start gets no weight at all: then the start is a cold one.
        trust = 0.0 if self._warm is not None and self.distrusted else self.trust_
        known = self._solved(trust, self.scale_)
        self._known = self.shared_, (trust, self.scale_), known
        residual_ln, usual_ln = self.options.residual_ln, self._usual_excess_ln()
        return Model(known, seen, self._features, cells, residual_ln=residual_ln, usual_ln=usual_ln)

    def _look(self, seen: SufficientStatistics) -> None:
        """Update the shared effects by all loads."""
        cells, _ = cell_features(self.cells.classes_.centroid, self.rounds_ln_, self.cells.classes_.axes)
        self.shared_: Evidence = evidence(seen, cells)
        self.shared_loads_ = float(self.cells.tally_.count.sum())

    def _solved(self, trust: float, scale: float) -> Known:
        """Return the shared effects by all that is known, with that trust in the warm start and that scale; solved
        once."""
        if self._known is not None and self._known[0] is self.shared_ and self._known[1] == (trust, scale):
            return self._known[2]
        return solved(self._believed(trust, scale).plus(self.shared_))

    def _believed(self, trust: float, scale: float) -> Evidence:
        """Return the prior, with that much trust in the warm start, and effects of that scale."""
        own = self._prior if scale == 1.0 else self._prior.times(1.0 / scale**2)
        return own if self._warm is None else own.plus(self._warm.evidence.times(trust))

    def _statistics(self) -> SufficientStatistics:
        weight = weights(self.cells.tally_.count, self.noise_ln_, self.options.residual_ln)
        spread = self._plain if self._warm is None or self.distrusted else self._warm.spread
        beyond_usual = np.nan_to_num(self.cells.tally_.mean()) - self._usual_excess_ln()
        places = len(self.sites) + 1
        self._sums = sufficient_statistics(weight, beyond_usual, self._features, places, spread, self._sums)
        return self._sums

    def _usual_excess_ln(self) -> Floats:
        """Return (configurations,) excess over Default, ln, that is expected before anything is seen."""
        if not (self.options.humble and self.distrusted):
            return np.zeros(len(self.grid))
        apart = (self.grid.positions != self.grid.positions[self.grid.default]).sum(axis=1)
        found: Floats = USUAL_EXCESS_LN * apart
        return found

    def rounds(self, level_ln: Floats, loads: Floats) -> Floats:
        warm = None if self._warm is None or self.distrusted else self._warm.rounds
        return rounds_of(self.cells.classes_.centroid, level_ln, loads, warm)

    def usual_ln(self, rounds_ln: Floats) -> Floats:
        """Return (rows,) ln(ms) of a load that takes so many round trips (classes, sites + 1), ln, of its class's."""
        return (rounds_ln + self.cells.classes_.centroid[:, 1:2]).ravel()

    def _count_rounds(self, level: Floats) -> None:
        """Count round trips from load times, corrected by the model for the configurations served, within a limit:
        else one cell's wild guess makes its own feature, and that feature the guess."""
        loads, table = self.cells.tally_.count.sum(axis=1), (len(self.cells.classes_), len(self.sites) + 1)
        took = self.cells.tally_.total.sum(axis=1) / np.maximum(loads, 1.0)
        found = took + np.clip(level - took, -MOST_EXCESS_LN, MOST_EXCESS_LN)
        self.rounds_ln_ = self.rounds(found.reshape(table), loads.reshape(table))

    def _judge_beliefs(self, updates: int) -> bool:
        """Set the trust in the warm start, or the scale of effects, to the value under which the loads are likeliest,
        now and then, for both are slow to change; return whether that took a warm start from distrusted to trusted or
        back."""
        early = updates <= EARLY_UPDATES or updates & (updates - 1) == 0
        now_and_then = early or updates % JUDGE_EVERY == 0
        if not now_and_then:
            return False
        if self._judged is self.shared_:
            return False
        before, self._judged = self.distrusted, self.shared_
        if self._warm is not None:
            self.trust_ = max(TRUSTS, key=lambda trust: self._likelihood_ln(trust, 1.0))
        if self.distrusted and self.options.humble:
            self.scale_ = max(SCALES, key=lambda scale: self._likelihood_ln(0.0, scale))
        elif self._warm is not None:
            self.scale_ = 1.0
        if self._warm is not None and self.distrusted:
            self.candidates_ = np.arange(len(self.grid)) if self.among is None else np.flatnonzero(self.among)
        return self.distrusted != before

    def _likelihood_ln(self, trust: float, scale: float) -> float:
        """Return ln likelihood of the loads under a belief, up to a constant that all beliefs share."""
        belief = trust, scale
        if belief not in self._before_loads_ln:
            self._before_loads_ln[belief] = solved(self._believed(trust, scale)).weight_ln
        return self._solved(trust, scale).weight_ln - self._before_loads_ln[belief]

    @property
    def distrusted(self) -> bool:
        """Return whether there is no warm start that the loads confirm; then its templates are void, too."""
        return self._warm is None or self.trust_ < LEAST_TRUST

    def expected_ln(self) -> Floats:
        """Return expected ln(ms) up to a constant of the row, (rows, configurations)."""
        return self.model().mean()

    def cost(self, among: Mask, served: Served) -> Floats:
        """Return the page load time that the model expects, relative to each row's Default."""
        expected = self.expected_ln()
        return np.where(among, np.exp(expected - expected[:, self.grid.default, None]), np.inf)

    def take(self, seen: OutcomeColumns, updates: int) -> OutcomeColumns:
        """Count outcomes by how far off they are and where in its class a client is; return them as they count.

        updates: the policy's updates so far, this one included. Arrays of the model have rows for new cells afterwards.
        """
        before = self.cells.rows
        seen = self.cells.take(self._weighed(seen) if self.bounded else self._clipped(seen), updates, self._moved)
        if self.cells.rows > before:
            self._grow(before)
        return seen

    def where(self, contexts: Contexts) -> tuple[Codes, Codes]:
        """As of any policy over cells; a quarantined prefix is of no row: it gets Default."""
        row, network = self.cells.where(contexts)
        return np.where(self.clients_.is_out(buckets_of(contexts)), -1, row), network

    def _weighed(self, seen: OutcomeColumns) -> OutcomeColumns:
        """Return loads corrected for the client's place in its class, weighted by their residual (`influence.py`) and
        their prefix (`clients.py`)."""
        known = seen.network >= 0
        network, configuration, client = seen.network[known], seen.configuration[known], seen.client[known]
        row = network * (len(self.sites) + 1) + seen.site[known]
        away = np.nan_to_num(seen.point[known] - self.cells.classes_.centroid[network])
        slope = (away * self.slopes_.slopes()[network]).sum(axis=1)
        noise, count = self.cells.noise_ln(), self.cells.tally_.count
        rest = seen.log_ms[known] - self._expected(seen, known, row) - slope
        offset = self.clients_.offset_ln(client, noise)
        beyond = rest - offset
        of_class = count.reshape(len(self.cells.classes_), -1, len(self.grid)).sum(axis=1)
        deviation_ln = unknown_ln(noise, count.sum(axis=1)[row], of_class[network, configuration])
        deviation_ln *= spread_of(beyond / deviation_ln)
        near = np.clip(beyond, -WHOLE_SIGMAS * deviation_ln, WHOLE_SIGMAS * deviation_ln)
        whose = self.clients_.weights(client, of_class.sum(axis=1)[network], self.options.cap)
        whose = np.where(self.clients_.is_out(client), 0.0, whose)
        weight, log_ms, rows = seen.weight.copy(), seen.log_ms.copy(), seen.row.copy()
        self.refused_ += int((weight == 0.0).sum())
        possible = weight[known] > 0.0
        weight[known] *= weights_of(beyond / deviation_ln) * whose
        log_ms[known] -= slope + offset
        rows[known] = np.where(weight[known] > 0.0, row, -1)
        expected = possible & ~np.isnan(self.expected_[row, configuration])
        self.slopes_ = self.slopes_.plus(network[expected], away[expected], (near + slope)[expected])
        self.clients_ = self.clients_.plus(client, np.where(expected, rest, np.nan), noise, whose)
        return replace(seen, row=rows, log_ms=log_ms, weight=weight)

    def _expected(self, seen: OutcomeColumns, known: Mask, row: Codes) -> Floats:
        """Return (m,) ln(ms) expected of the known ones of these loads, which are of these rows (m,); NaN where nothing
        is."""
        before = self.cells.recent_
        if len(before) < min(FIRST_LOADS, self.cells.window):
            both = joined([before, seen])
            return first_expected(both.point[:, :3], both.site, both.log_ms)[len(before) :][known]
        expected = self.expected_[row, seen.configuration[known]]
        return np.where(np.isnan(expected), self.usual_ln(self.rounds_ln_)[row], expected)

    def _clipped(self, seen: OutcomeColumns) -> OutcomeColumns:
        """Return loads corrected for the client's place in its class, and Huber-clipped where they are far off."""
        known = seen.row >= 0
        network, point, row = seen.network[known], seen.point[known], seen.row[known]
        away = np.nan_to_num(point - self.cells.classes_.centroid[network])
        rest = seen.log_ms[known] - self.expected_[row, seen.configuration[known]]
        expected = ~np.isnan(rest)
        slope = (away * self.slopes_.slopes()[network]).sum(axis=1)
        far = FAR_SIGMAS * self.cells.noise_ln()
        shown = self.cells.tally_.count.reshape(len(self.cells.classes_), -1, len(self.grid)).sum(axis=1)
        beyond = np.where(expected & (shown[network, seen.configuration[known]] >= SHOWN_LOADS), rest - slope, 0.0)
        beyond -= np.clip(beyond, -far, far)
        log_ms = seen.log_ms.copy()
        log_ms[known] -= slope + beyond
        self.slopes_ = self.slopes_.plus(network[expected], away[expected], (rest - beyond)[expected])
        return replace(seen, log_ms=log_ms)

    def _moved(self, before: OutcomeColumns, after: OutcomeColumns, classes: Classes) -> OutcomeColumns:
        """Return outcomes as at the centroid they belong to now; `classes` are those they belonged to."""
        known = before.network >= 0
        apart = self.cells.classes_.centroid[after.network[known]] - classes.centroid[before.network[known]]
        log_ms = before.log_ms.copy()
        log_ms[known] += (apart * self.slopes_.slopes()[before.network[known]]).sum(axis=1)
        return replace(after, log_ms=log_ms)

    def _grow(self, before: int) -> None:
        self.slopes_ = self.slopes_.grown(len(self.cells.classes_))
        unseen = np.full((len(self.cells.classes_), len(self.sites) + 1), np.nan)
        self.rounds_ln_ = self.rounds(unseen, np.zeros(unseen.shape))
        self.shared_loads_ = 0.0
        more = np.full((self.cells.rows - before, len(self.grid)), np.nan)
        self.expected_ = np.concatenate((self.expected_, more))

    def update(self, updates: int) -> Model:
        """Return the posterior after the outcomes taken; the cells' expectations are by it from now on."""
        grown = self.cells.tally_.count.sum() >= GROWTH * self.shared_loads_
        if grown:
            self.noise_ln_ = self.cells.noise_ln()
        sums = self._statistics()
        if grown:
            self._look(sums)
        if self._judge_beliefs(updates):
            sums = self._statistics()
            self._look(sums)
        model = self._posterior(sums)
        level = model.levels()
        self.expected_ = model.mean() + level[:, None]
        self._count_rounds(level)
        return model

    def state(self) -> SharedModelState:
        """Return the state to save."""
        return SharedModelState(*(getattr(self, name) for name in SharedModelState.__dataclass_fields__))

    def load(self, saved: dict[str, Any]) -> None:
        """Take over a saved state, after the cells took over theirs. Errors: `BadInput` where it does not fit."""
        # Earlier versions weighed loads by the noise of all loads so far.
        state = read(SharedModelState, {"noise_ln_": self.cells.noise_ln(), **saved})
        check_shapes("expected_", (self.cells.rows, len(self.grid)), state.expected_)
        check_shapes("rounds_ln_", (len(self.cells.classes_), len(self.sites) + 1), state.rounds_ln_)
        check_positive("noise_ln_", state.noise_ln_)
        check_codes("candidates_", state.candidates_, len(self.grid))
        for name in SharedModelState.__dataclass_fields__:
            setattr(self, name, getattr(state, name))
