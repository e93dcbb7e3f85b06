# SPDX-License-Identifier: MIT
"""The budget as a part of a policy: decisions and their cost over Default by cell, and the shares of the next table.

The arithmetic and its reasons are in `ledger.py`; this part holds the account and reads the cells' loads for it.
Guarded and unguarded are the two parts of a table: configurations that the guardrail passes, and others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from configtron.learner.columns import Codes, Decisions, Floats
from configtron.learner.driver_support import Mask
from configtron.learner.features import OPINION_LOADS
from configtron.learner.ledger import (
    FAR_TIMES,
    FIRST_SESSIONS,
    GROWTH,
    LOAD_DEVIATION,
    PLAN_SHARE,
    SPEND_SHARE,
    Account,
    Cells,
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
from configtron.learner.outcome_columns import OutcomeColumns
from configtron.learner.shared_model import SharedModel
from configtron.learner.state import check_shapes, read

# The largest share of the unguarded part once own decisions have gained, by the account's lower estimate.
MOST_GAINING_SHARE = 0.9
# Unguarded sessions, of all cells together, that one draw of the posterior decides: a draw is wrong in all cells alike.
SESSIONS_A_DRAW = 4
# Draws of the unguarded part, at least and at most. Beyond, they cost memory and taught nothing more.
LEAST_UNGUARDED, MOST_UNGUARDED = 4, 12
# Share of the unguarded part that the number of draws is reckoned with before the first update.
FIRST_SHARE = 0.05
# Share of an interval's budget that it may cost at least before it is cut short, be there a debt or not: a
# configuration with an expected gain must be allowed a bad start.
LEAST_PURSE = 0.5
# Largest share of sessions that get anything but Default before there are loads of anything else.
MOST_UNTRIED_SHARE = 0.03
# Loads of anything else that an interval may bring before there are any.
FIRST_TRIED_LOADS = 10.0
# The same, as both, where a warm model chooses: should it be wrong, its choices are the worst there are.
WARM_TRIED_LOADS = 4.0
# Exploration that measurably saves time grows so many times as fast.
FREE_GROWTH = 4.0
# Sessions an update that are reckoned with before there was one.
USUAL_SESSIONS = 500.0


@dataclass(frozen=True, slots=True, eq=False)
class SpendingState:
    """Saved: the account, costs by cell, decisions by cell and by configuration, which choices are unguarded, decisions
    since the last update and in the interval before it."""

    account_: Account
    cells_: Cells
    decided_: Floats
    asked_: Floats
    unproven_: Mask
    since_: float
    interval_: float


@dataclass(frozen=True, slots=True)
class Shares:
    """Whether the unguarded part explores near the guarded one, or everywhere; shares of the guarded part and of that
    one, and the interval's budget, ms."""

    near: bool
    guarded: float
    unguarded: float
    limit_ms: float | None


class Spending:
    """The cost of decisions over Default, and the share of sessions that may explore.

    budget        share by which mean page load time may exceed Default's, from session 0; None: no budget
    allowance     largest share of a cell's sessions that may be unguarded
    update_every  outcomes per update; 0: as many as came before
    """

    def __init__(self, model: SharedModel, *, budget: float | None, allowance: float, update_every: int):
        self.model, self.cells, self.default = model, model.cells, model.grid.default
        self.budget, self.allowance, self.update_every = budget, allowance, update_every
        rows, configurations = self.cells.rows, len(model.grid)
        self.account_, self.cells_ = Account(), no_cells(rows)
        self.decided_, self.asked_ = np.zeros((rows, configurations)), np.zeros(configurations)
        self.unproven_: Mask = np.zeros((rows, configurations), dtype=np.bool_)
        self.since_, self.interval_ = 0.0, 0.0
        # Whether classes were cut in the update under way.
        self._cut = False

    # --- the account -------------------------------------------------------------------------------------------------

    def count(self, decisions: Decisions) -> None:
        """Count decisions by cell and configuration."""
        self.since_ += float(len(decisions))
        if len(decisions) == 1:
            row, configuration = int(decisions.row[0]), int(decisions.configuration[0])
            if row >= 0:
                self.decided_[row, configuration] += 1.0
                self.asked_[configuration] += 1.0
            return
        known = decisions.row >= 0
        np.add.at(self.decided_, (decisions.row[known], decisions.configuration[known]), 1.0)
        self.asked_ += np.bincount(decisions.configuration[known], minlength=len(self.asked_))

    def grow(self) -> None:
        """Extend by the rows that cells have gained: classes were cut, and costs are counted anew."""
        more = np.zeros((self.cells.rows - len(self.decided_), len(self.asked_)))
        self.decided_ = np.concatenate((self.decided_, more))
        self.unproven_ = np.concatenate((self.unproven_, more > 0))
        self.cells_, self._cut = no_cells(self.cells.rows), True
        self.account_ = self.account_.carry()

    def settle(self, seen: OutcomeColumns) -> None:
        """Enter outcomes, and the decisions since the last update, into the account; an interval ends."""
        default, known, expected = self.default, seen.row >= 0, self.model.expected_
        row, configuration, log_ms = seen.row[known], seen.configuration[known], seen.log_ms[known]
        default_ln = self._default_alone_ln()
        before = expected[row, configuration] - expected[row, default]
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
        loads, noise_ln = self.cells.tally_.count[:, default], self.cells.noise_ln()
        self.account_ = settled(self.account_, self.cells_, interval, default_ln, loads, default, noise_ln)
        self.interval_, self.since_ = self.since_, 0.0

    def _default_alone_ln(self) -> Floats:
        """Return (rows,) ln(ms) under Default by its own loads, drawn to the expectation of the last update; of a cell
        that had no loads by then, to the estimate by Default's loads in other cells."""
        default, tally, model = self.default, self.cells.tally_, self.model
        table = (len(self.cells.classes_), len(self.cells.sites) + 1)
        loads = tally.count[:, default]
        level = np.where(loads > 0, tally.total[:, default] / np.maximum(loads, 1.0), np.nan)
        others = model.usual_ln(model.rounds(level.reshape(table), loads.reshape(table)))
        before = model.expected_[:, default]
        drawn = (loads * np.nan_to_num(level) + OPINION_LOADS * before) / (loads + OPINION_LOADS)
        found: Floats = np.where(np.isnan(before), others, drawn)
        return found

    def begin(self) -> None:
        """Begin an interval under a new table: nothing is decided yet."""
        self.decided_ = np.zeros((self.cells.rows, len(self.asked_)))

    # --- the plan ----------------------------------------------------------------------------------------------------

    def draws(self, updates: int) -> int:
        """Return the draws of the unguarded part: as many as its sessions fill."""
        sessions = self._coming() * (self.account_.share if updates else FIRST_SHARE)
        return int(np.clip(sessions / SESSIONS_A_DRAW, LEAST_UNGUARDED, MOST_UNGUARDED))

    def _coming(self) -> float:
        """Return decisions until the next update, as far as that is known."""
        return float(self.update_every or self.interval_ or USUAL_SESSIONS)

    def plan(self, guarded_picks: Codes, excess: Excess, default_ms: Floats, default: int) -> Shares:
        """Return where the table explores, and how large shares are.

        guarded_picks (rows, .): the guarded part, as positions among the candidates; excess: as `ledger.Excess`;
        default_ms (rows,): expected under Default; default: its position. The table explores everywhere only where that
        is paid for in full.
        """
        if self.budget is None:
            return Shares(False, 1.0 - self.allowance, self.allowance, None)
        account = self.account_
        often = self.cells.tally_.count.sum(axis=1) + 0.1
        weight = often / often.sum() * default_ms
        mean_ms = float(weight.sum())
        deviation = max(LOAD_DEVIATION, self.cells.noise_ln())
        guarded = part_cost(guarded_picks, weight, excess, account.optimism_ln(deviation))
        near = mean_ms * account.unguarded_cost(deviation)
        first_ms = max(FIRST_SESSIONS - self._coming(), 0.0) * mean_ms
        saved_ms = account.saved_ms(self.budget, first_ms)
        spend_ms = saved_ms * (SPEND_SHARE if saved_ms > 0 else 1.0) / self._coming()
        income = PLAN_SHARE * self.budget * mean_ms + spend_ms
        limit_ms = max(income, LEAST_PURSE * self.budget * mean_ms) * self._coming()
        most = max(self.allowance, MOST_GAINING_SHARE) if account.upper_ms() < 0.0 else self.allowance
        nearby, found = False, shares(income, guarded, FAR_TIMES * near, most)
        if found[1] < most:
            nearby, found = True, shares(income, guarded, near, most)
        # Loads near the guarded part show nothing of configurations elsewhere.
        free = nearby and account.explores_for_free(deviation)
        found = self._grown_by(found, float(1.0 - (guarded_picks == default).mean()), free)
        self.account_ = replace(account, share=found[1])
        return Shares(nearby, *found, limit_ms)

    def _grown_by(self, found: tuple[float, float], away: float, free: bool) -> tuple[float, float]:
        """Return shares of the two parts that are no more than loads so far allow: a table that was never tried is not
        served to all clients at once.

        away: share of the guarded part that is not Default; free: exploration saves time, so that it may grow faster.
        """
        count = self.cells.tally_.count
        loads = count.sum() - count[:, self.default].sum()
        first = max(FIRST_TRIED_LOADS / self._coming(), MOST_UNTRIED_SHARE)
        if self.model.warm:
            first = WARM_TRIED_LOADS / self._coming()
        most = max(GROWTH * loads / self._coming(), first)
        if free:
            explore = min(found[1], FREE_GROWTH * most)
            rest = found[0] * min(1.0, max(most, explore) / max(found[0] * away, 1e-9))
            return min(rest, 1.0 - explore), explore
        factor = min(1.0, most / max(found[0] * away + found[1], 1e-9))
        return found[0] * factor, found[1] * factor

    def mark(self, guarded: Codes, unguarded: Codes) -> None:
        """Remember which choices, (rows, .) configurations each, are of the unguarded part alone; Default never is."""
        found = np.zeros(self.decided_.shape, dtype=np.bool_)
        rows = np.arange(len(found))[:, None]
        found[rows, unguarded] = True
        found[rows, guarded] = False
        found[:, self.default] = False
        self.unproven_ = found

    # --- state -------------------------------------------------------------------------------------------------------

    def state(self) -> SpendingState:
        tables = (self.decided_, self.asked_, self.unproven_)
        return SpendingState(self.account_, self.cells_, *tables, self.since_, self.interval_)

    def load(self, saved: dict[str, Any]) -> None:
        """Take over a saved state, after the cells took over theirs. Errors: `BadInput` where it does not fit."""
        state, rows = read(SpendingState, saved), self.cells.rows
        check_shapes("decided_", (rows, len(self.asked_)), state.decided_, state.unproven_)
        check_shapes("asked_", self.asked_.shape, state.asked_)
        check_shapes("cells_", (rows,), state.cells_.decided, state.cells_.chosen, state.cells_.loads)
        self.account_, self.cells_, self.decided_, self.asked_ = (
            state.account_, state.cells_, state.decided_, state.asked_
        )  # fmt: skip
        self.unproven_, self.since_, self.interval_ = state.unproven_, state.since_, state.interval_
