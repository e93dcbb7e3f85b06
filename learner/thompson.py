# SPDX-License-Identifier: MIT
"""The product's policy: Bayesian linear Thompson sampling over all cells, conservative from the first session on.

Question   Which configuration is fastest in this cell, given what every other cell has shown?
Method     `linear.Model` on sums per cell and configuration. At each update tables are drawn from its posterior with
           deviations times `boldness`; each draw's best configuration gets an even part of the cell's sessions. So what
           is uncertain is tried, in proportion, and the propensity is known.
           Proven part: draws in which a configuration whose upper-confidence excess over Default is above `guard_ln` is
           not chosen. Unproven part: draws without that; `ledger.py` says how large it may be for mean page load time
           to stay within `budget` of Default's, and what neither part gets is Default's. What a warm start says is
           charged as any other choice that no load of this log has proven.
           Between updates outcomes are screened (`screening.py`): what is several times slower is dropped at once.
           In every cell a hundredth of the sessions gets Default, as a measure of the rest.
Stop when  never: exploration shrinks with the posterior.
Reads as   a few configurations per cell with their weights; the account; what is dropped.
Fails as   a client of no class, and any cell in which the guardrail passes nothing: Default.
Differs    from CT's ensemble, which searches every cell on its own: docs/measurements/0019, docs/experiments.md.
Source     Agrawal and Goyal 2013; Wu et al. 2016, Kazerouni et al. 2017 (conservative bandits).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from configtron.learner.columns import ARM, Codes, Contexts, Decisions, Floats
from configtron.learner.drawn import excess_at_full_width, fastest_of
from configtron.learner.features import OPINION_LOADS
from configtron.learner.ledger import (
    FAR_TIMES,
    FIRST_SESSIONS,
    GROWTH,
    LOAD_DEVIATION,
    PLAN_SHARE,
    SPEND_SHARE,
    Account,
    Excess,
    Interval,
    as_loaded,
    entered,
    no_cells,
    off_ln,
    part_cost,
    settled,
    shares,
)
from configtron.learner.linear import Model, weights
from configtron.learner.linearpolicy import LinearPolicy
from configtron.learner.policy import Seen
from configtron.learner.screening import Loads, new_offsets, new_screen, purse, screened
from configtron.learner.served import Served
from configtron.learner.unloaded import barred
from configtron.learner.warmstart import FIRST_NOISE_LN

# Sessions that get Default in every cell: what everything is measured against must itself be measured, or a warm start
# that is wrong about Default is never found out. One in a hundred costs a hundredth of the gain.
HOLDBACK_SHARE = 0.01
# What mean page load time may exceed Default's by, as a share: the operator's degree of randomness.
BUDGET = 0.01
# Largest part of a cell's sessions that may be unproven, whatever the budget: a few lucky loads must not send most
# sessions there.
MOST_UNPROVEN_SHARE = 0.25
# The same once own decisions have gained, by the account's lower estimate.
MOST_GAINING_SHARE = 0.9
# Unproven sessions, of all cells together, that one draw of the posterior decides: a draw is wrong in all cells alike.
SESSIONS_A_DRAW = 4
# Draws of the unproven part, at least and at most. Beyond, they cost memory and taught nothing more.
LEAST_UNPROVEN, MOST_UNPROVEN = 4, 12
# Share of an interval's budget that it may cost at least before it is cut short, be there a debt or not: what is
# expected to gain must be allowed a bad start.
LEAST_PURSE = 0.5
# Largest share of sessions that get anything but Default before there are loads of anything else.
MOST_UNTRIED_SHARE = 0.03
# Loads of anything else that an interval may bring before there are any.
FIRST_TRIED_LOADS = 10.0
# The same, as both, where a warm model chooses: should it be wrong, its choices are the worst there are.
WARM_TRIED_LOADS = 4.0
# Exploration that is measured to save time grows so many times as fast.
FREE_GROWTH = 4.0
# Decisions that one outcome of another's decision stands for, at most: larger weights are one load's luck.
MOST_STANDS_FOR = 10.0
# Share of the proven part from which on a configuration is one to explore around.
NEAR_SHARE = 0.05
# How far a configuration may be off what features say, in all cells alike: standard deviation, ln.
OWN_LN = 0.1
# Sessions an update that are reckoned with before there was one.
USUAL_SESSIONS = 500.0

# Cells that are judged at a time: their draws stay within a core's cache.
ROWS_AT_ONCE = 64


class Thompson(LinearPolicy):
    """Thompson sampling; the product's default policy.

    boldness    posterior deviations are drawn this much smaller: full ones over-explore at some hundred loads a cell
    draws       tables per update of the proven part, hence at most that many such configurations at a time in a cell
    guard_ln    upper-confidence excess over Default that counts as proven, ln(ms); None: no guardrail
    guard_sigmas  how many posterior deviations "upper" is
    budget      share by which mean page load time may exceed Default's, from session 0; None: no budget
    allowance   largest share of a cell's sessions that may be unproven
    """

    name: ClassVar[str] = "thompson"
    STATE: ClassVar[tuple[str, ...]] = (
        *LinearPolicy.STATE,
        "account_",
        "cells_",
        "decided_",
        "asked_",
        "unproven_",
        "since_",
        "interval_",
        "screen_",
        "offsets_",
        "purse_",
    )
    SCREENS: ClassVar[bool] = True
    HUMBLE: ClassVar[bool] = True

    def __init__(
        self,
        *given: Any,
        boldness: float = 0.3,
        draws: int = 12,
        guard_ln: float | None = 0.1,
        guard_sigmas: float = 1.0,
        budget: float | None = BUDGET,
        allowance: float = MOST_UNPROVEN_SHARE,
        **more: Any,
    ):
        self.boldness, self.draws = boldness, draws
        self.guard_ln, self.guard_sigmas = guard_ln, guard_sigmas
        self.budget, self.allowance = budget, allowance
        self.account_, self.since_, self.interval_ = Account(), 0.0, 0.0
        self.purse_ = purse(np.inf)
        # Whether classes were cut in the update under way.
        self._ready, self._cut = False, False
        super().__init__(*given, **more)

    def _begin(self) -> None:
        """What needs the grid and the classes, which `LinearPolicy` has made by now."""
        # Groups that are screened: the classes of the start. They are never cut.
        self._first_classes, configurations = self.classes_, len(self.grid)
        self.decided_, self.asked_ = np.zeros((self.rows, configurations)), np.zeros(configurations)
        self.unproven_ = np.zeros((self.rows, configurations), dtype=np.bool_)
        self.cells_ = no_cells(self.rows)
        self.screen_ = new_screen(len(self.classes_), configurations)
        self.offsets_ = new_offsets(len(self.sites) + 1, len(self.classes_), self.rows)
        self._ready = True

    # --- decisions ---------------------------------------------------------------------------------------------------

    def commit(self, decisions: Decisions) -> None:
        """Count decisions by cell and configuration."""
        known = decisions.row >= 0
        np.add.at(self.decided_, (decisions.row[known], decisions.configuration[known]), 1.0)
        self.asked_ += np.bincount(decisions.configuration[known], minlength=len(self.grid))
        self.since_ += float(len(decisions))

    def serve(self, model: Model) -> Served:
        if not self._ready:
            self._begin()
        own = self._own_effects(model)[self.candidates_]
        mean = model.mean()[:, self.candidates_] + own
        unguarded = self._draws_unproven()
        drawn = model.draws(unguarded + self.draws, self.rng, self.boldness, self.candidates_)
        drawn += own
        default = self._default_at()
        excess = partial(excess_at_full_width, drawn, mean, self.boldness, default)
        served = drawn.copy()
        served[:, self._out()[:, self.candidates_]] = np.inf
        never, unloaded = barred(self.grid.positions, self.tally_.count.sum(axis=0), self.asked_, self.grid.default)
        served[:, :, never[self.candidates_]] = np.inf
        free = served[:unguarded].copy()
        if self.guard_ln is not None:
            served = self._guarded(mean, served, self.guard_ln, unguarded)
        served[unguarded:, :, unloaded[self.candidates_]] = np.inf
        served, free = self.within_bound(mean, served), self.within_bound(mean, free)
        proven, level_ms = fastest_of(served[unguarded:], default), self._default_ms(model)
        free[:, :, ~self._near(proven)] = np.inf
        parts = [proven, fastest_of(free, default), fastest_of(served[:unguarded], default)]
        which, shares_ = self._shares(parts, excess, level_ms)
        picks = np.concatenate((parts[which], proven), axis=1)
        if shares_[1] <= 0.0:
            picks[:, :unguarded] = default
        self.unproven_ = self._marked(picks, unguarded)
        expected = np.exp(np.take_along_axis(mean, picks, axis=1)) * level_ms[:, None]
        sizes = (unguarded, self.draws)
        weight = np.concatenate([np.full(n, share / n) for n, share in zip(sizes, reversed(shares_), strict=True)])
        return self._with_default(self.candidates_[picks], weight, expected, level_ms)

    def _default_at(self) -> int:
        """Default's position among the candidates."""
        return int(np.searchsorted(self.candidates_, self.grid.default))

    def _near(self, proven: Codes) -> Any:
        """(candidates,) whether a configuration is Default or one knob from it, or from one that the proven part
        serves often: two unknown changes at once cost more than twice as much, and teach less than twice as much."""
        often = np.bincount(proven.ravel(), minlength=len(self.candidates_)) >= NEAR_SHARE * proven.size
        often |= self.candidates_ == self.grid.default
        position = self.grid.positions[self.candidates_]
        apart = (position[:, None] != position[None, often]).sum(axis=2)
        return (apart <= 1).any(axis=1)

    def _own_effects(self, model: Model) -> Floats:
        """(configurations,) what loads of each say in all cells alike that no feature explains, ln(ms): one load that
        took ten times as long must not be repeated in every other cell."""
        count = self.tally_.count
        if not count.any():
            return np.zeros(len(self.grid))
        weight = weights(count, self.tally_.noise_ln(FIRST_NOISE_LN), self.residual_ln)
        rest = np.nan_to_num(self.tally_.mean()) - model.mean() - np.nan_to_num(model.levels())[:, None]
        found: Floats = (weight * rest).sum(axis=0) / (weight.sum(axis=0) + 1.0 / OWN_LN**2)
        found -= found[self.grid.default]
        return found

    def _draws_unproven(self) -> int:
        """Draws of the unproven part: as many as its sessions fill."""
        sessions = self._coming() * (self.account_.share if self.updates_ else 0.05)
        return int(np.clip(sessions / SESSIONS_A_DRAW, LEAST_UNPROVEN, MOST_UNPROVEN))

    def _coming(self) -> float:
        """Decisions until the next update, as far as that is known."""
        return float(self.update_every or self.interval_ or USUAL_SESSIONS)

    def _default_ms(self, model: Model) -> Floats:
        """(rows,) what Default is expected to take, by what other cells say where none was loaded."""
        return self._default_known_ms(model.levels())

    def _default_known_ms(self, known_ln: Floats) -> Floats:
        """(rows,) what Default takes where its ln(ms) (rows,) is known, else what round trips say."""
        found: Floats = np.exp(np.where(np.isnan(known_ln), self._usual_ln(self.rounds_ln_), known_ln))
        return found

    def _shares(self, parts: list[Codes], excess: Excess, default_ms: Floats) -> tuple[int, tuple[float, float]]:
        """Which of the parts is to explore, and the shares of the proven part and of that.

        parts (rows, .): the proven one, one that explores near it, one that explores everywhere, as positions among
        the candidates; excess: as `ledger.Excess`. Everywhere only where that is paid for in full.
        """
        if self.budget is None:
            return 2, (1.0 - self.allowance, self.allowance)
        account = self.account_
        often = self.tally_.count.sum(axis=1) + 0.1
        weight = often / often.sum() * default_ms
        mean_ms = float(weight.sum())
        deviation = max(LOAD_DEVIATION, self.tally_.noise_ln(FIRST_NOISE_LN))
        proven = part_cost(parts[0], weight, excess, account.optimism_ln(deviation))
        near = mean_ms * account.unproven_cost(deviation)
        first_ms = max(FIRST_SESSIONS - self._coming(), 0.0) * mean_ms
        saved_ms = account.saved_ms(self.budget, first_ms)
        spend_ms = saved_ms * (SPEND_SHARE if saved_ms > 0 else 1.0) / self._coming()
        income = PLAN_SHARE * self.budget * mean_ms + spend_ms
        self.purse_ = purse(max(income, LEAST_PURSE * self.budget * mean_ms) * self._coming())
        most = max(self.allowance, MOST_GAINING_SHARE) if account.upper_ms() < 0.0 else self.allowance
        which, found = 2, shares(income, proven, FAR_TIMES * near, most)
        if found[1] < most:
            which, found = 1, shares(income, proven, near, most)
        default = self._default_at()
        # What was measured near the proven part says nothing of what lies everywhere.
        free = which == 1 and account.explores_for_free(deviation)
        found = self._grown_by(found, float(1.0 - (parts[0] == default).mean()), free)
        self.account_ = replace(account, share=found[1])
        return which, found

    def _grown_by(self, found: tuple[float, float], away: float, free: bool) -> tuple[float, float]:
        """Shares of the two parts, no more than loads so far allow: a table that nobody tried is not for everybody.
        away: share of the proven part that is not Default; free: exploration saves time, so that it may grow faster."""
        loads = self.tally_.count.sum() - self.tally_.count[:, self.grid.default].sum()
        first = max(FIRST_TRIED_LOADS / self._coming(), MOST_UNTRIED_SHARE)
        if self._warm is not None:
            first = WARM_TRIED_LOADS / self._coming()
        most = max(GROWTH * loads / self._coming(), first)
        if free:
            explore = min(found[1], FREE_GROWTH * most)
            rest = found[0] * min(1.0, max(most, explore) / max(found[0] * away, 1e-9))
            return min(rest, 1.0 - explore), explore
        factor = min(1.0, most / max(found[0] * away + found[1], 1e-9))
        return found[0] * factor, found[1] * factor

    def _marked(self, picks: Codes, unguarded: int) -> Any:
        """(rows, configurations) whether a choice is of the unproven part alone."""
        found = np.zeros((self.rows, len(self.grid)), dtype=np.bool_)
        rows = np.arange(self.rows)[:, None]
        found[rows, self.candidates_[picks[:, :unguarded]]] = True
        found[rows, self.candidates_[picks[:, unguarded:]]] = False
        found[:, self.grid.default] = False
        return found

    def _with_default(self, picks: Codes, weight: Floats, expected: Floats, default_ms: Floats) -> Served:
        """The table of these choices (rows, m), weights (m,) of all rows; Default gets the rest, its share at least."""
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

    def _guarded(self, mean: Floats, drawn: Floats, guard_ln: float, unguarded: int) -> Floats:
        """The draws, what is too risky put at infinity, but for the first `unguarded` of them."""
        default = self._default_at()
        for at in range(0, self.rows, ROWS_AT_ONCE):
            rows = slice(at, at + ROWS_AT_ONCE)
            with np.errstate(invalid="ignore"):
                excess = drawn[:, rows] - drawn[:, rows, default, None]
                deviation = excess.std(axis=0) / max(self.boldness, 1e-9)
                risky = ~(mean[rows] - mean[rows, default, None] + self.guard_sigmas * deviation <= guard_ln)
            risky[:, default] = False
            for one in drawn[unguarded:, rows]:
                one[risky] = np.inf
        return drawn

    # --- screening ---------------------------------------------------------------------------------------------------

    def screen_many(self, contexts: Contexts, decisions: Decisions, plt_ms: Floats) -> tuple[int, bool]:
        """Screen outcomes up to the first that drops or returns a configuration; the table goes without what is
        dropped."""
        row, known = decisions.row, decisions.row >= 0
        network = np.where(known, row // (len(self.sites) + 1), 0)
        default_ms = self._expected_default_ms()[np.maximum(row, 0)]
        away = np.where(known[:, None], np.nan_to_num(self.points(contexts) - self.classes_.centroid[network]), 0.0)
        over_ln = np.log(plt_ms) - np.log(default_ms) - (away * self.slopes_.slopes()[network]).sum(axis=1)
        place, group = row % (len(self.sites) + 1), self._groups()[network]
        known_before = ~np.isnan(self.expected_[np.maximum(row, 0), self.grid.default])
        stands_for = self._stands_for(decisions)
        loads = Loads(row, place, group, decisions.configuration, over_ln, default_ms, stands_for, known_before)
        taken, changed = screened(self.screen_, self.offsets_, self.purse_, loads, self.grid.default)
        if changed:
            self.served_ = self._without_dropped(self.served_)
        return taken, changed

    def _stands_for(self, decisions: Decisions) -> Floats:
        """(n,) how many decisions of the present table each outcome stands for: its share of that choice over the
        share by which it was made; one, where this table made it."""
        row, same = np.maximum(decisions.row, 0), decisions.configuration[:, None]
        own = ((self.served_.configuration[row] == same) * self.served_.weight[row]).sum(axis=1)
        by = np.where(np.isnan(decisions.propensity), 1.0, np.maximum(decisions.propensity, 1e-9))
        found: Floats = np.minimum(own / by, MOST_STANDS_FOR)
        return found

    def _expected_default_ms(self) -> Floats:
        """(rows,) as the last update has it."""
        return self._default_known_ms(self.expected_[:, self.grid.default])

    def _groups(self) -> Codes:
        """(classes,) the class of the start that each is of, or was cut from: the nearest."""
        if len(self.classes_) == len(self._first_classes):
            return np.arange(len(self.classes_))
        more = self._first_classes.assign(self.classes_.centroid)
        found: Codes = np.where(more < 0, 0, more)
        return found

    def _out(self) -> Any:
        """(rows, configurations) whether it is dropped there; Default never is."""
        found = np.repeat(self.screen_.out()[self._groups()], len(self.sites) + 1, axis=0)
        found[:, self.grid.default] = False
        return found

    def _without_dropped(self, served: Served) -> Served:
        """The table with Default in place of what is dropped."""
        out = np.take_along_axis(self._out(), served.configuration, axis=1) | self.purse_.empty
        return replace(
            served,
            configuration=np.where(out, self.grid.default, served.configuration),
            arm=np.where(out, ARM["default"], served.arm).astype(np.int8),
            expected_ms=np.where(out, served.expected_ms[:, -1:], served.expected_ms),
        )

    def dropped(self) -> list[tuple[int, str, int]]:
        """What is dropped: (configuration, class it is dropped in or "" for everywhere, loads that it took)."""
        found = self.screen_.dropped
        names = ("", *self._first_classes.ids)
        return [(int(k), names[g], int(found[g, k])) for g, k in zip(*np.nonzero(found), strict=True)]

    # --- updates -----------------------------------------------------------------------------------------------------

    def learn(self, seen: Seen) -> None:
        self._settle(seen)
        self.interval_, self.since_ = self.since_, 0.0
        super().learn(seen)
        self.decided_ = np.zeros((self.rows, len(self.grid)))
        self.offsets_ = new_offsets(len(self.sites) + 1, len(self._first_classes), self.rows)

    def _settle(self, seen: Seen) -> None:
        """Enter what came back, and what was decided, into the account."""
        default, known = self.grid.default, seen.row >= 0
        row, configuration, log_ms = seen.row[known], seen.configuration[known], seen.log_ms[known]
        default_ln = self._default_alone_ln()
        before = self.expected_[row, configuration] - self.expected_[row, default]
        over_ln = log_ms - default_ln[row]
        interval = Interval(
            row,
            configuration,
            np.exp(default_ln[row]),
            over_ln - off_ln(over_ln, seen.weight[known], configuration == default),
            np.nan_to_num(before),
            self.unproven_[row, configuration],
            seen.weight[known],
        )
        decided = as_loaded(self.decided_, row, configuration) if self._cut else self.decided_
        self._cut = False
        self.cells_ = entered(self.cells_, interval, decided, default)
        loads = self.tally_.count[:, default]
        self.account_ = settled(self.account_, self.cells_, interval, default_ln, loads, default)

    def _default_alone_ln(self) -> Floats:
        """(rows,) ln(ms) under Default by its own loads, drawn to what the last update expected of it; of a cell that
        had no loads by then, to what Default's loads in other cells say."""
        default, table = self.grid.default, (len(self.classes_), len(self.sites) + 1)
        loads = self.tally_.count[:, default]
        level = np.where(loads > 0, self.tally_.total[:, default] / np.maximum(loads, 1.0), np.nan)
        others = self._usual_ln(self._rounds(level.reshape(table), loads.reshape(table)))
        before = self.expected_[:, default]
        drawn = (loads * np.nan_to_num(level) + OPINION_LOADS * before) / (loads + OPINION_LOADS)
        found: Floats = np.where(np.isnan(before), others, drawn)
        return found

    def grow(self, before: int) -> None:
        super().grow(before)
        more = np.zeros((self.rows - before, len(self.grid)))
        self.decided_ = np.concatenate((self.decided_, more))
        self.unproven_ = np.concatenate((self.unproven_, more > 0))
        self.cells_, self._cut = no_cells(self.rows), True
        self.account_ = self.account_.carry()
        self.expected_ = np.concatenate((self.expected_, np.full(more.shape, np.nan)))

    def restore(self, text: str) -> None:
        super().restore(text)
        if len(self.decided_) != self.rows:
            # A state of before there was an account.
            self.grow(len(self.decided_))
