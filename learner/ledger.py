# SPDX-License-Identifier: MIT
"""The budget of exploration: the cost of own decisions over Default so far, and the share that may still explore.

Question   How large a share of sessions may get a configuration other than Default, so that the mean page load time
           stays within `budget` of Default's, from the first session on?
Method     Account: at each update the cost of all decisions so far over Default, cell by cell, by measured loads
           against the present estimate of Default's load time there; gains are negative. A standard error goes on top:
           an upper estimate of costs, a lower one of gains. A load far off counts as so far and no farther: one bot or
           broken clock must not stop exploration for hours. The exponential of a mean of few loads is too large by half
           of its variance, which is subtracted. All loads of an interval are corrected by Default's own in it. The
           budget of the first sessions is lent at once: early learning gains longest. Plan: the model's draws estimate
           the cost per session of the next table's guarded and unguarded parts. Three terms are added: the model's past
           optimism about its own choices (loads against their earlier expectations), an assumed optimism until enough
           such loads came back, and a standard error. The parts get the shares at which cost per session stays within
           budget plus gain per session, less a debt, plus a part of the savings. Cost and gain grow alike with
           sessions: it holds however many come before the next update. Shares grow by a factor an update at most;
           exploration that is measured to save time grows faster.
Stop when  computed, once per update.
Reads as   shares of the next table's parts, and the account.
Fails as   a first interval in which unguarded configurations cost more than is assumed: the debt is paid back by
           serving Default until the account is even.
Differs    from CT's degree of randomness, a fixed share whatever it costs.
Source     Wu et al. 2016, Kazerouni et al. 2017 (conservative bandits); Dawid 1984 (prequential errors).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Codes, Floats
from configtron.learner.state import keep_without

# Picks (rows,) -> (draws, rows) their excess over Default in each draw of the model, ln; 0 for Default.
Excess = Callable[[Codes, Codes], Floats]

# Standard errors that an upper estimate is above the mean.
UPPER_ERRORS = 1.0
# The same for the next table's expected cost: `screening.py` watches its real cost load by load.
PLAN_ERRORS = 0.5
# Share of the budget that is planned with: some of it is spent before an outcome shows it.
PLAN_SHARE = 0.7
# The part of sessions that get anything but Default grows at most to so many times its loads so far.
GROWTH = 4.0
# Sessions whose budget may be spent from the first on: early learning gains longest.
FIRST_SESSIONS = 1000.0
# Loads of Default by which their mean offset in an interval is drawn to zero.
OFF_LOADS = 10.0
# Deviation of one load around its expectation, as a share, including the spread between members of a class.
LOAD_DEVIATION = 0.4
# Cost of a load of an unguarded configuration near Default, as a share of Default's time, as by so many loads; and the
# least it is taken to be. One that is further off is taken to cost so many times as much.
ASSUMED_HARM, HARM_LOADS, LEAST_HARM, FAR_TIMES = 0.25, 10.0, 0.02, 2.0
# How much faster a model without loads expects its choices to be than they are, ln, as by so many loads.
ASSUMED_OPTIMISM_LN, OPTIMISM_LOADS = 0.3, 8.0
# Loads that show that exploration saves time, and standard errors by which they must.
FREE_LOADS, FREE_ERRORS = 20.0, 1.5
# Share that errors of earlier intervals keep at each update: choices get better, and so do expectations.
MEMORY = 0.9
# A load further off than this counts as so far, ln.
FAR_LN = 1.5
# No configuration is taken to be slower or faster than this by the model, ln: a draw of a wide prior is no news.
MOST_EXCESS_LN = 1.1
# Part of the savings that one interval may spend; a debt is to be paid back within one.
SPEND_SHARE = 0.5


@keep_without("tail")
@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """The state of the budget.

    base_ms   expected under Default, of all decisions
    cost_ms   their cost beyond that, negative for a gain; variance_ms2: of that sum
    sessions  decisions; explored: of them, expected on the unguarded part; share: of the present table that is it
    error_ln  sum over loads of the guarded part of how much longer they took than was expected before; of error_loads
    harm      sum over loads of the unguarded part of their cost as a share of Default's time; of harm_loads
    carried   base, cost, variance and sessions of before cells were last cut
    """

    base_ms: float = 0.0
    cost_ms: float = 0.0
    variance_ms2: float = 0.0
    sessions: float = 0.0
    explored: float = 0.0
    share: float = 0.0
    error_ln: float = 0.0
    error_loads: float = 0.0
    harm: float = 0.0
    harm_loads: float = 0.0
    carried: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    def carry(self) -> Account:
        """Return the account as it stands, from which cells are counted anew: they were cut, and mean others from now
        on."""
        return replace(self, carried=(self.base_ms, self.cost_ms, self.variance_ms2, self.sessions))

    def upper_ms(self) -> float:
        """Return an upper estimate of the decisions' cost over Default."""
        return float(self.cost_ms + UPPER_ERRORS * self.variance_ms2**0.5)

    def saved_ms(self, budget: float, least_ms: float = 0.0) -> float:
        """Return the ms that may still be spent; negative: a debt. least_ms: Default's time for as many sessions as the
        budget is lent for at the start."""
        return budget * max(self.base_ms, least_ms) - self.upper_ms()

    def optimism_ln(self, deviation: float = LOAD_DEVIATION) -> float:
        """Return an upper estimate of how much slower a load of the guarded part is than the model expects; deviation:
        of one load."""
        loads = self.error_loads + OPTIMISM_LOADS
        mean = (self.error_ln + OPTIMISM_LOADS * ASSUMED_OPTIMISM_LN) / loads
        return float(max(mean + PLAN_ERRORS * deviation / loads**0.5, 0.0))

    def explores_for_free(self, deviation: float = LOAD_DEVIATION) -> bool:
        """Return whether loads of the unguarded part so far were faster than Default's, by `FREE_ERRORS` standard
        errors."""
        if self.harm_loads < FREE_LOADS:
            return False
        return bool(self.harm / self.harm_loads + FREE_ERRORS * deviation / self.harm_loads**0.5 < 0.0)

    def unguarded_cost(self, deviation: float = LOAD_DEVIATION) -> float:
        """Return an upper estimate of the cost of a load of the unguarded part, as a share of Default's time;
        deviation: of one load."""
        loads = self.harm_loads + HARM_LOADS
        mean = (self.harm + HARM_LOADS * ASSUMED_HARM) / loads
        return float(max(mean + PLAN_ERRORS * deviation / loads**0.5, LEAST_HARM))


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Loads since the last update, of known cells, (n,) each: cell, configuration, Default's expected ms in the cell,
    ln(ms) over that, the part of it that was expected before (0: none), whether it is unguarded there, and its weight
    (`influence.py`)."""

    row: Codes
    configuration: Codes
    default_ms: Floats
    over_ln: Floats
    expected_ln: Floats
    unguarded: npt.NDArray[np.bool_]
    weight: Floats


@keep_without("beyond_ms")
@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Decisions and loads by cell, (rows,) each: decisions, of them for another than Default, loads of those (weighted
    as decisions), and the sum of their ln(ms)."""

    decided: Floats
    chosen: Floats
    loads: Floats
    total_ln: Floats


def no_cells(rows: int) -> Cells:
    """Nothing decided."""
    return Cells(*(np.zeros(rows) for _ in range(4)))


def entered(cells: Cells, seen: Interval, decided: Floats, default: int) -> Cells:
    """With an interval. decided (rows, configurations): decisions in it. Where loads are another's decisions (a log),
    those of a configuration stand together for as many as it was decided for."""
    rows, width = decided.shape
    loads = np.bincount(seen.configuration, minlength=width)
    ratio = np.divide(decided.sum(axis=0), loads, out=np.zeros(width), where=loads > 0)
    ratio[default] = 0.0
    weight = ratio[seen.configuration] * seen.weight
    near_ln = np.log(seen.default_ms) + np.clip(seen.over_ln, -MOST_EXCESS_LN, FAR_LN)
    sums = [np.bincount(seen.row, part, rows) for part in (weight, weight * near_ln)]
    of_default = decided[:, default]
    every = decided.sum(axis=1)
    before = (cells.decided, cells.chosen, cells.loads, cells.total_ln)
    return Cells(*(old + new for old, new in zip(before, (every, every - of_default, *sums), strict=True)))


def off_ln(over_ln: Floats, weight: Floats, of_default: npt.NDArray[np.bool_]) -> float:
    """Return the offset of Default's own loads over their expectation, ln, in the measure of all entries: a heavy tail,
    a slow hour or a wrong expectation is no configuration's cost. (n,) each."""
    some = weight * of_default
    total = float((some * np.clip(over_ln, -MOST_EXCESS_LN, FAR_LN)).sum())
    return total / (float(some.sum()) + OFF_LOADS)


def as_loaded(decided: Floats, row: Codes, configuration: Codes) -> Floats:
    """Return (rows, configurations) the same decisions of each configuration, spread over cells as its loads (n,)
    are."""
    rows, width = decided.shape
    loads = np.bincount(row * width + configuration, minlength=rows * width).reshape(rows, width)
    each = decided.sum(axis=0) / np.maximum(loads.sum(axis=0), 1)
    found: Floats = loads * each
    return found


def settled(
    account: Account,
    cells: Cells,
    seen: Interval,
    default_ln: Floats,
    default_loads: Floats,
    default: int,
    noise_ln: float = 0.0,
) -> Account:
    """Return the account after an interval that is in `cells`. default_ln (rows,): the present estimate of Default's
    ln(ms); default_loads (rows,) that it rests on; noise_ln: standard deviation of one load's."""
    default_ms, loads = np.exp(default_ln), np.maximum(cells.loads, 1e-9)
    # A mean of few loads is noisy, and its exponential too large by half of its variance.
    upward_ln = noise_ln**2 / (2.0 * np.maximum(loads, 1.0))
    excess = np.where(cells.loads > 0, cells.total_ln / loads - default_ln - upward_ln, 0.0)
    spent = cells.chosen * default_ms
    cost = spent * np.expm1(np.clip(excess, -FAR_LN, FAR_LN))
    variance = spent**2 * LOAD_DEVIATION**2 * (1.0 / (loads + 1.0) + 1.0 / (default_loads + 3.0))
    chosen, before = seen.configuration != default, account
    relative = seen.default_ms / max(float(seen.default_ms.mean()), 1e-9) if len(seen.row) else seen.default_ms
    relative = relative * seen.weight
    guarded, unguarded = chosen & ~seen.unguarded, chosen & seen.unguarded
    error = relative * np.clip(seen.over_ln - seen.expected_ln, -FAR_LN, FAR_LN)
    usual = share_of_cost(seen.over_ln, np.zeros(len(seen.over_ln))) * seen.weight
    of_default = float(usual[~chosen].sum()) / (float(seen.weight[~chosen].sum()) + OFF_LOADS)
    harm = relative * (share_of_cost(seen.over_ln, seen.expected_ln) - of_default)
    base_ms, cost_ms, variance_ms2, sessions = account.carried
    sessions += float(cells.decided.sum())
    return replace(
        account,
        base_ms=base_ms + float((cells.decided * default_ms).sum()),
        cost_ms=cost_ms + float(cost.sum()),
        variance_ms2=variance_ms2 + float(variance.sum()),
        sessions=sessions,
        explored=before.explored + before.share * (sessions - before.sessions),
        error_ln=MEMORY * before.error_ln + float(error[guarded].sum()),
        error_loads=MEMORY * before.error_loads + float(relative[guarded].sum()),
        harm=MEMORY * before.harm + float(harm[unguarded].sum()),
        harm_loads=MEMORY * before.harm_loads + float(relative[unguarded].sum()),
    )


def share_of_cost(over_ln: Floats, expected_ln: Floats) -> Floats:
    """Return the cost of loads as a share of Default's time: exponential in the expectation and far beyond it.

    It is linear in between, so that noise has mean 0.
    """
    expected = np.clip(expected_ln, -MOST_EXCESS_LN, MOST_EXCESS_LN)
    rest = np.clip(over_ln, -FAR_LN, FAR_LN) - expected
    beyond = np.maximum(rest, np.expm1(rest) - (np.expm1(FAR_LN) - FAR_LN))
    found: Floats = np.maximum(np.expm1(expected) + np.exp(expected) * beyond, -1.0)
    return found


def part_cost(picks: Codes, weight: Floats, excess_ln: Excess, optimism_ln: float) -> float:
    """Return an upper estimate of ms over Default per session of a part of the table. picks (rows, m), each alike
    often; weight (rows,): share of sessions times Default's ms."""
    rows, many = np.arange(len(picks))[:, None], int(picks.max(initial=0)) + 1
    # Most draws of a row pick the same few.
    pair, times = np.unique(rows * many + picks, return_counts=True)
    row, pick = np.divmod(pair, many)
    drawn = excess_ln(row, pick)
    # Exactly 0 is Default itself, of which no model is too hopeful.
    hopeful = np.where((drawn == 0.0).all(axis=0), 0.0, optimism_ln)
    each = np.expm1(np.clip(drawn + hopeful, -MOST_EXCESS_LN, MOST_EXCESS_LN))
    found: Floats = each @ (weight[row] * times) / max(picks.shape[1], 1)
    return float(found.mean() + PLAN_ERRORS * found.std())


def shares(income: float, guarded: float, unguarded: float, most: float) -> tuple[float, float]:
    """Return (share of the guarded part, share of the unguarded part); the rest is Default's.

    income: the most that a session may cost; guarded, unguarded: upper estimates of its cost; most: of the unguarded
    part.
    """
    income = max(income, 0.0)
    if guarded > income:
        # The income pays for neither: half of it goes to the guarded part, half to the unguarded one.
        return min(0.5 * income / guarded, 1.0 - most), min(0.5 * income / max(unguarded, guarded), most)
    if unguarded <= income:
        return 1.0 - most, most
    explore = min((income - guarded) / (unguarded - guarded), most)
    return 1.0 - explore, explore
