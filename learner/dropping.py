# SPDX-License-Identifier: MIT
"""Screening as a part of a policy: configurations that outcomes show to be harmful leave the table between updates.

The test and its reasons are in `screening.py`; this part holds its sums, by configuration over all clients and in each
class of the start (classes that are cut keep the group they came from).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from configtron.learner.columns import ARM, Codes, Contexts, Decisions, Floats
from configtron.learner.driver_support import Mask
from configtron.learner.screening import Offsets, Purse, Screen, ScreenedLoads, new_offsets, new_screen, purse, screened
from configtron.learner.serving_table import Served
from configtron.learner.shared_model import SharedModel
from configtron.learner.state import check_shapes, read

# Decisions that one outcome of another's decision stands for, at most: larger weights are one load's luck.
MOST_STANDS_FOR = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class DroppingState:
    """Saved: evidence and dropped configurations, offsets since the last update, the rest of the interval's budget."""

    screen_: Screen
    offsets_: Offsets
    purse_: Purse


class Dropping:
    """Configurations that are dropped, and outcomes screened for more."""

    def __init__(self, model: SharedModel):
        self.model, self.cells, self.default = model, model.cells, model.grid.default
        # Groups that are screened: the classes of the start. They are never cut.
        self.first_classes = self.cells.classes_
        self.screen_ = new_screen(len(self.first_classes), len(model.grid))
        self.offsets_ = self._no_offsets()
        self.purse_ = purse(np.inf)

    def begin(self) -> None:
        """Begin an interval: the last update's expectations include the offsets until then."""
        self.offsets_ = self._no_offsets()

    def _no_offsets(self) -> Offsets:
        return new_offsets(len(self.cells.sites) + 1, len(self.first_classes), self.cells.rows)

    def screen(
        self, contexts: Contexts, decisions: Decisions, plt_ms: Floats, served: Served, default_ms: Floats
    ) -> tuple[int, bool]:
        """Screen outcomes up to the first that drops or returns a configuration: (how many, whether one changed).

        served: the present table; default_ms (rows,): expected under Default.
        """
        cells, places = self.cells, len(self.cells.sites) + 1
        row, known = decisions.row, decisions.row >= 0
        network = np.where(known, row // places, 0)
        here_ms = default_ms[np.maximum(row, 0)]
        away = np.where(known[:, None], np.nan_to_num(cells.points(contexts) - cells.classes_.centroid[network]), 0.0)
        slopes = self.model.slopes_.slopes()[network]
        over_ln = np.log(plt_ms) - np.log(here_ms) - (away * slopes).sum(axis=1)
        known_before = ~np.isnan(self.model.expected_[np.maximum(row, 0), self.default])
        stands_for, group = _stands_for(decisions, served), self._groups()[network]
        loads = ScreenedLoads(
            row, row % places, group, decisions.configuration, over_ln, here_ms, stands_for, known_before
        )
        return screened(self.screen_, self.offsets_, self.purse_, loads, self.default)

    def _groups(self) -> Codes:
        """Return (classes,) the class of the start that each is of, or was cut from: the nearest."""
        classes = self.cells.classes_
        if len(classes) == len(self.first_classes):
            return np.arange(len(classes))
        more = self.first_classes.assign(classes.centroid)
        found: Codes = np.where(more < 0, 0, more)
        return found

    def out(self) -> Mask:
        """Return (rows, configurations) whether it is dropped there; Default never is."""
        found: Mask = np.repeat(self.screen_.out()[self._groups()], len(self.cells.sites) + 1, axis=0)
        found[:, self.default] = False
        return found

    def without(self, served: Served) -> Served:
        """Return the table with Default in place of dropped configurations; in place of all, once the interval's budget
        is spent."""
        out = np.take_along_axis(self.out(), served.configuration, axis=1) | self.purse_.empty
        return replace(
            served,
            configuration=np.where(out, self.default, served.configuration),
            arm=np.where(out, ARM["default"], served.arm).astype(np.int8),
            expected_ms=np.where(out, served.expected_ms[:, -1:], served.expected_ms),
        )

    def dropped(self) -> list[tuple[int, str, int]]:
        """Return (configuration, class it is dropped in or "" for everywhere, loads that it took) of each."""
        found = self.screen_.dropped
        names = ("", *self.first_classes.ids)
        return [(int(k), names[g], int(found[g, k])) for g, k in zip(*np.nonzero(found), strict=True)]

    def state(self) -> DroppingState:
        return DroppingState(self.screen_, self.offsets_, self.purse_)

    def load(self, saved: dict[str, Any]) -> None:
        """Take over a saved state, after the cells took over theirs. Errors: `BadInput` where it does not fit."""
        state, shape = read(DroppingState, saved), self.screen_.evidence.shape
        check_shapes("screen_", shape, state.screen_.evidence, state.screen_.loads, state.screen_.dropped)
        check_shapes("offsets_", (2, self.cells.rows), state.offsets_.row)
        self.screen_, self.offsets_, self.purse_ = state.screen_, state.offsets_, state.purse_


def _stands_for(decisions: Decisions, served: Served) -> Floats:
    """Return (n,) how many decisions of the present table each outcome stands for: its share of that choice over the
    share by which it was made; one, where this table made it."""
    row, same = np.maximum(decisions.row, 0), decisions.configuration[:, None]
    own = ((served.configuration[row] == same) * served.weight[row]).sum(axis=1)
    by = np.where(np.isnan(decisions.propensity), 1.0, np.maximum(decisions.propensity, 1e-9))
    found: Floats = np.minimum(own / by, MOST_STANDS_FOR)
    return found
