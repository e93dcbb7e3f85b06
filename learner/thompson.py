# SPDX-License-Identifier: MIT
"""The rival: Bayesian linear Thompson sampling over all cells, with a residual per cell, a warm start and a guardrail.

Question   Which configuration is fastest in this cell, given what every other cell has shown?
Method     `linear.Model` on sums per cell and configuration. At each update `draws` tables are drawn from its posterior
           with deviations times `boldness`; each draw's best configuration gets 1/draws of the cell's sessions. So what
           is uncertain is tried, in proportion, and the propensity is known.
           Guardrail: a configuration whose upper-confidence excess over Default is above `guard_ln` is not served;
           a share `allowance` of a cell's draws may be unproven, so that a cold start learns at all; while nothing is
           known, a large batch's unproven sessions are spread over more draws.
           In every cell a hundredth of the sessions gets Default, as a measure of the rest.
Stop when  never: exploration shrinks with the posterior.
Reads as   up to `draws` configurations per cell with their weights.
Fails as   a client of no class, and any cell in which the guardrail passes nothing: Default.
Differs    from CT's ensemble, which searches every cell on its own: docs/design/0019, docs/experiments.md.
Source     Agrawal and Goyal 2013; Kazerouni et al. 2017 (conservative bandits) for the guardrail's idea.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from configtron.learner.columns import ARM, Floats
from configtron.learner.linear import Model
from configtron.learner.linearpolicy import LinearPolicy
from configtron.learner.served import Served, mixed

# Sessions that get Default in every cell: what everything is measured against must itself be measured, or a warm start
# that is wrong about Default is never found out. One in a hundred costs a hundredth of the gain.
HOLDBACK_SHARE = 0.01
# A cell that is served Default alone would never learn that it could do better, whoever said so: this share of its
# sessions looks around. Two in a hundred find a gain within some hundred loads of all such cells together.
LOOKING_SHARE = 0.02
# Without any, a guardrail lets nothing pass and nothing is learned; a quarter learns within some ten loads a cell.
COLD_ALLOWANCE = 0.25
# Unproven sessions, of all cells together, that one draw of the prior decides: it is wrong in all cells alike, and by
# four of them ten thousand sessions try few configurations. By 500 outcomes an update four have thirty each.
SESSIONS_A_DRAW = 50
# Draws beyond these cost memory and taught nothing more: 256 did as 48.
MOST_UNPROVEN = 64

# Cells that are judged at a time: their draws stay within a core's cache.
ROWS_AT_ONCE = 64


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
        boldness: float = 0.3,
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
        mean, unproven = model.mean()[:, self.candidates_], self._unproven()
        spread = self._spread(unproven)
        drawn = model.draws(spread + self.draws - unproven, self.rng, self.boldness, self.candidates_)
        if self.guard_ln is not None:
            drawn = self._guarded(mean, drawn, self.guard_ln, spread)
        picks = self.within_bound(mean, drawn).argmin(axis=2).T
        level = model.levels()[:, None]
        expected = np.exp(np.take_along_axis(mean, picks, axis=1) + level)
        weight = np.full(len(drawn), 1.0 / self.draws)
        weight[:spread] = unproven / (self.draws * max(spread, 1))
        served = mixed(np.ascontiguousarray(self.candidates_[picks]), "thompson", self.grid.default, expected, weight)
        return self._held_back(served, np.exp(level[:, 0]))

    def _unproven(self) -> int:
        """How many of `draws` go unguarded."""
        by_trust = COLD_ALLOWANCE if self.distrusted else 0.0
        return round((by_trust if self.allowance is None else self.allowance) * self.draws)

    def _spread(self, unproven: int) -> int:
        """Over how many draws their share is spread: more only before anything is known, and by large batches."""
        if self._warm is not None or self.tally_.count.any():
            return unproven
        sessions = self.update_every * unproven / self.draws
        return max(unproven, min(MOST_UNPROVEN, int(sessions / SESSIONS_A_DRAW)))

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

    def _guarded(self, mean: Floats, drawn: Floats, guard_ln: float, unguarded: int) -> Floats:
        """The draws, what is too risky put at infinity, but for the first `unguarded` of them."""
        default = int(np.flatnonzero(self.candidates_ == self.grid.default)[0])
        for at in range(0, self.rows, ROWS_AT_ONCE):
            rows = slice(at, at + ROWS_AT_ONCE)
            excess = drawn[:, rows] - drawn[:, rows, default, None]
            deviation = excess.std(axis=0) / max(self.boldness, 1e-9)
            risky = mean[rows] - mean[rows, default, None] + self.guard_sigmas * deviation > guard_ln
            risky[:, default] = False
            for one in drawn[unguarded:, rows]:
                one[risky] = np.inf
        return drawn
