# SPDX-License-Identifier: MIT
"""The product's policy: Bayesian linear Thompson sampling over all cells, conservative from the first session on.

Question   Which configuration is fastest in this cell, given what every other cell has shown?
Method     `linear.Model` on sums per cell and configuration. At each update tables are drawn from its posterior with
           deviations times `boldness`; each draw's best configuration gets an even part of the cell's sessions. So it
           tries uncertain configurations, in proportion, and their propensities are known. Guarded part: draws in which
           a configuration whose upper-confidence excess over Default is above `guard_ln` is not chosen. Unguarded part:
           draws without that; `ledger.py` bounds its size so that mean page load time stays within `budget` of
           Default's, and the rest of the sessions gets Default. A warm start's choices are charged as any other choice
           that no load of this log has shown. Between updates outcomes are screened (`screening.py`): a configuration
           that is several times slower is dropped at once. In every cell a hundredth of the sessions gets Default, as a
           measure of the rest.
Stop when  never: exploration shrinks with the posterior.
Reads as   a few configurations per cell with their weights; the account; the dropped configurations.
Fails as   a client of no class, and any cell in which the guardrail passes nothing: Default.
Differs    from CT's ensemble, which searches every cell on its own (docs/experiments.md): with a few hundred noisy
           loads a cell, no search of single cells distinguishes 168 configurations.
Source     Agrawal and Goyal 2013; Wu et al. 2016, Kazerouni et al. 2017 (conservative bandits).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from configtron.learner.class_cells import ClassCells
from configtron.learner.columns import ARM, Codes, Contexts, Decisions, Floats
from configtron.learner.driver_support import Mask
from configtron.learner.dropping import Dropping
from configtron.learner.linear import Model
from configtron.learner.outcome_columns import OutcomeColumns
from configtron.learner.parts import Saved
from configtron.learner.policy_row import PolicyRow
from configtron.learner.posterior_draws import DrawLimits, excess_at_full_width
from configtron.learner.screening import purse
from configtron.learner.serving_table import Served
from configtron.learner.setting import CLASSES, SPENDS, WARM, Setting
from configtron.learner.shared_model import ModelOptions, SharedModel
from configtron.learner.spending import Spending
from configtron.learner.table_policy import TablePolicy
from configtron.learner.templates import ready
from configtron.learner.unobserved_values import barred

# Sessions that get Default in every cell: the baseline must itself be measured, or a warm start that is wrong about
# Default is never found out. One in a hundred costs a hundredth of the gain.
HOLDBACK_SHARE = 0.01
# Largest part of a cell's sessions that may be unguarded, whatever the budget: a few lucky loads must not send most
# sessions there.
MOST_UNGUARDED_SHARE = 0.25
# Share of the guarded part from which on a configuration is one to explore around.
NEAR_SHARE = 0.05
# Deviation of a configuration from its features' prediction, in all cells alike: standard deviation, ln.
OWN_LN = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class ThompsonOptions:
    """How Thompson sampling explores, beside the budget of a policy's `Setting`.

    boldness      posterior deviations are drawn this much smaller: full ones over-explore at some hundred loads a cell
    draws         tables per update of the guarded part, hence at most that many such configurations at a time in a cell
    guard_ln      largest upper-confidence excess over Default that passes the guardrail, ln(ms); None: no guardrail
    guard_sigmas  how many posterior deviations "upper" is
    allowance     largest share of a cell's sessions that may be unguarded
    model         of the shared model; effects are taken to be small until loads show more, with or without it
    """

    boldness: float = 0.3
    draws: int = 12
    guard_ln: float | None = 0.1
    guard_sigmas: float = 1.0
    allowance: float = MOST_UNGUARDED_SHARE
    model: ModelOptions = ModelOptions()


USUAL = ThompsonOptions()


class Thompson(TablePolicy):
    """Thompson sampling; the product's default policy. The share by which mean page load time may exceed Default's,
    from session 0, is the setting's budget; None: no budget."""

    name = "thompson"
    SCREENS: ClassVar[bool] = True
    cells: ClassCells
    model: SharedModel

    def __init__(self, s: Setting, options: ThompsonOptions = USUAL):
        model = SharedModel.of(s, replace(options.model, humble=True))
        super().__init__(s.grid, s.sites, s.rng, model.cells, model, update_every=s.update_every)
        self.options = options
        self.spending = Spending(model, budget=s.budget, allowance=options.allowance, update_every=s.update_every)
        self.dropping = Dropping(model)
        self.served_ = self._table(model.model())

    @classmethod
    def make(cls, setting: Setting) -> Thompson:
        """Return the policy that keeps some configurations ready, where a warm start shows which."""
        return cls(setting, replace(USUAL, model=ModelOptions(candidates=ready(setting))))

    def parts(self) -> tuple[Saved, ...]:
        return (self.cells, self.model, self.spending, self.dropping)

    def commit(self, decisions: Decisions) -> None:
        """Count decisions by cell and configuration."""
        self.spending.count(decisions)

    def screen_many(self, contexts: Contexts, decisions: Decisions, plt_ms: Floats) -> tuple[int, bool]:
        """Screen outcomes up to the first that drops or returns a configuration; the table goes without those that are
        dropped."""
        default_ms = self._default_ms(self.model.expected_[:, self.grid.default])
        taken, changed = self.dropping.screen(contexts, decisions, plt_ms, self.served_, default_ms)
        if changed:
            self.served_ = self.dropping.without(self.served_)
        return taken, changed

    def dropped(self) -> list[tuple[int, str, int]]:
        """Return (configuration, class it is dropped in or "" for everywhere, loads that it took) of each."""
        return self.dropping.dropped()

    def learn(self, seen: OutcomeColumns) -> None:
        before = self.cells.rows
        seen = self.model.take(seen, self.updates_)
        if self.cells.rows > before:
            self.spending.grow()
        self.spending.settle(seen)
        self.served_ = self._table(self.model.update(self.updates_))
        self.spending.begin()
        self.dropping.begin()

    # --- the table ---------------------------------------------------------------------------------------------------

    def _table(self, model: Model) -> Served:
        candidates, options = self.model.candidates_, self.options
        own = self._own_effects(model)[candidates]
        mean = model.mean()[:, candidates] + own
        unguarded = self.spending.draws(self.updates_)
        drawn = model.draws(unguarded + options.draws, self.rng, options.boldness, candidates, own)
        default, limits = self._default_at(), self._limits()
        excess = partial(excess_at_full_width, drawn, mean, options.boldness, default)
        guarded, level_ms = limits.guarded(drawn, mean, unguarded), self._default_ms(model.levels())
        plan = self.spending.plan(guarded, excess, level_ms, default)
        if plan.limit_ms is not None:
            self.dropping.purse_ = purse(plan.limit_ms)
        free = np.full((len(guarded), unguarded), default)
        if plan.unguarded > 0.0:
            free = limits.free(drawn[:, :unguarded], mean, self._near(guarded) if plan.near else None)
        picks = np.concatenate((free, guarded), axis=1)
        self.spending.mark(candidates[picks[:, unguarded:]], candidates[picks[:, :unguarded]])
        expected = np.exp(np.take_along_axis(mean, picks, axis=1)) * level_ms[:, None]
        each = ((unguarded, plan.unguarded), (options.draws, plan.guarded))
        weight = np.concatenate([np.full(n, share / n) for n, share in each])
        return self._with_default(candidates[picks], weight, expected, level_ms)

    def _limits(self) -> DrawLimits:
        """Return what may be served: nothing that is dropped, never loaded, or harmful to neighbours; as guarded,
        nothing too risky."""
        candidates, options = self.model.candidates_, self.options
        loads = self.cells.tally_.count.sum(axis=0)
        never, unloaded = barred(self.grid.positions, loads, self.spending.asked_, self.grid.default)
        out = self.dropping.out()[:, candidates] | never[candidates]
        guard = (options.guard_ln, options.guard_sigmas, options.boldness)
        return DrawLimits(out, unloaded[candidates], self.may(candidates), *guard, self._default_at())

    def _default_at(self) -> int:
        """Return Default's position among the candidates."""
        return int(np.searchsorted(self.model.candidates_, self.grid.default))

    def _default_ms(self, known_ln: Floats) -> Floats:
        """Return (rows,) Default's ms where its ln(ms) (rows,) is known, else the estimate from round trips."""
        usual = self.model.usual_ln(self.model.rounds_ln_)
        found: Floats = np.exp(np.where(np.isnan(known_ln), usual, known_ln))
        return found

    def _near(self, guarded: Codes) -> Mask:
        """Return (candidates,) whether a configuration is Default or one knob from it, or from one that the guarded
        part serves often: two unknown changes at once cost more than twice as much, and teach less than twice as
        much."""
        candidates = self.model.candidates_
        often = np.bincount(guarded.ravel(), minlength=len(candidates)) >= NEAR_SHARE * guarded.size
        often |= candidates == self.grid.default
        position = self.grid.positions[candidates]
        apart = (position[:, None] != position[None, often]).sum(axis=2)
        found: Mask = (apart <= 1).any(axis=1)
        return found

    def _own_effects(self, model: Model) -> Floats:
        """Return (configurations,) the effect of each in all cells alike that no feature explains, ln(ms): a
        configuration with one load ten times as long must not be tried in every other cell."""
        found = model.own_effects(OWN_LN)
        found -= found[self.grid.default]
        return found

    def _with_default(self, picks: Codes, weight: Floats, expected: Floats, default_ms: Floats) -> Served:
        """Return the table of these choices (rows, m), weights (m,) of all rows; Default gets the rest, its share at
        least."""
        default, rows = self.grid.default, len(picks)
        own = np.tile(weight, (rows, 1))
        rest = 1.0 - own.sum(axis=1)
        alone = (picks == default).all(axis=1)
        held = np.where(alone, 0.0, np.maximum(HOLDBACK_SHARE - rest, 0.0))
        own *= (1.0 - held - np.maximum(rest, 0.0))[:, None] / np.maximum(own.sum(axis=1, keepdims=True), 1e-300)
        arm = np.where(picks == default, ARM["default"], ARM["thompson"]).astype(np.int8)
        column = np.full((rows, 1), default)
        return Served(
            np.ascontiguousarray(np.concatenate((picks, column), axis=1)),
            np.concatenate((arm, np.full((rows, 1), ARM["default"], dtype=np.int8)), axis=1),
            np.concatenate((own, 1.0 - own.sum(axis=1, keepdims=True)), axis=1),
            np.concatenate((expected, default_ms[:, None]), axis=1),
            np.zeros(rows),
            np.zeros(0, dtype=np.int64),
            default,
        )


ROWS = (
    PolicyRow("thompson", Thompson.make, "linear Thompson sampling over all cells, within a budget",
        takes=WARM + CLASSES + SPENDS, place=13),
)  # fmt: skip
