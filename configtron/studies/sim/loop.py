# SPDX-License-Identifier: MIT
"""The loop: sessions x tensor -> the production policy, with feedback late and in batches.

Question   How do clients fare under this policy, while it learns from them?
Method     Sessions decide in order of arrival by `choose_many`; their page load times come from the tensor, with noise;
           every `interval_s` each manager is given the outcomes that have come back by then (`observe_many`), in
           their order, and updates; a manager that none came back to does not. A slow load comes back late.
           A manager that screens (`TablePolicy.screen_many`) sees every outcome as soon as it has come back.
           A session whose network changes meanwhile has the rest of its page under the new one.
Stop when  the sessions end, or `upto` of them; `save` and `restore` in between.
Reads as   per session: configuration, arm, propensity, page load time with and without noise.
Fails as   `BadInput` for a saved replay of other sessions or managers.
Differs    CT's simulator looks ahead for Optimal only; so does this one (`SEES_TRUTH`).
Source     CT section 6; learner/serving_table.py (why batches do not show).

Bit-identical whatever `batch` is, and after a resume: a decision takes one number of the policy's generator, a load
three of the noise's, and updates fall on the clock of the sessions. No clock is read here; a caller of `run` with
`upto` in steps can show sessions per second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from configtron.learner.columns import Codes, Decisions, Floats
from configtron.learner.state import decode, encode, rng_state, set_rng_state
from configtron.learner.table_policy import TablePolicy
from configtron.model.errors import BadInput
from configtron.model.tensor import Tensor
from configtron.studies.sim.noise import Noise
from configtron.studies.sim.reports import Reports
from configtron.studies.sim.sessions import Sessions

# Decisions at once: columns of as many stay within a core's cache.
BATCH = 20_000
# Columns a decision leaves, in the order of `Decisions`.
DECISION_COLUMNS = tuple(Decisions.__dataclass_fields__)


class Replay:
    """One pass over sessions.

    managers    policies; one is global, several are one per PoP, and `pop` assigns each prefix to one
    pop         (prefixes,) position in managers; all the first where None
    interval_s  seconds between updates: CT sweeps 2 minutes to a day
    delay_s     seconds from the end of a page load until its outcome can be learned from
    at_once     loads take no time on the clock: for claims that count sessions, not seconds
    rng         noise's only chance
    reports     the load times reported to managers (`plt_ms_`); None: the true ones
    """

    def __init__(
        self,
        sessions: Sessions,
        tensor: Tensor,
        managers: Sequence[TablePolicy],
        rng: np.random.Generator,
        *,
        pop: Codes | None = None,
        interval_s: float = 120.0,
        delay_s: float = 5.0,
        at_once: bool = False,
        noise: Noise | None = None,
        batch: int = BATCH,
        reports: Reports | None = None,
    ):
        if interval_s <= 0 or delay_s < 0 or batch < 1:
            raise BadInput("a replay needs an interval above 0 s, a delay of at least 0 s and a batch of at least 1")
        self.sessions, self.tensor, self.managers, self.rng = sessions, tensor, managers, rng
        self.interval_s, self.delay_s, self.at_once = interval_s, delay_s, at_once
        self.noise, self.batch, self.reports = noise or Noise(), batch, reports
        who = np.zeros(max(len(sessions.seen.prefixes), 1), dtype=np.int64) if pop is None else pop
        if len(who) < len(sessions.seen.prefixes) or (who >= len(managers)).any():
            raise BadInput("every prefix needs one of the managers")
        self.manager = who[sessions.seen.prefix] if len(sessions.seen.prefix) else np.zeros(len(sessions), np.int64)
        n = len(sessions)
        self.at_, self.observed_, self.updates_ = 0, 0, 0
        # Sessions that have decided and whose outcomes have not come back.
        self.waiting_: Codes = np.zeros(0, dtype=np.int64)
        # Of managers that screen: sessions whose outcomes have not been screened, and which have been.
        self.unscreened_: Codes = np.zeros(0, dtype=np.int64)
        self.screened_ = np.zeros(n, dtype=np.bool_)
        self.median_ms_, self.plt_ms_ = np.full(n, np.nan), np.full(n, np.nan)
        row, network, configuration, arm = (np.zeros(n, dtype=np.int64) for _ in range(4))
        self.decisions_ = Decisions(row, network, configuration, arm, np.ones(n), np.full(n, np.nan))

    def run(self, upto: int | None = None) -> None:
        """Go on to session `upto`, or to the end."""
        end = len(self.sessions) if upto is None else min(upto, len(self.sessions))
        while self.at_ < end:
            tick = (self.updates_ + 1) * self.interval_s
            if self.sessions.at_s[self.at_] >= tick:
                self._report(tick)
                continue
            before = int(np.searchsorted(self.sessions.at_s, tick, side="left"))
            self._decide(slice(self.at_, min(end, before, self.at_ + self.batch)))

    def _decide(self, rows: slice) -> None:
        seen, factor = self.sessions.seen[rows], self.noise.factors(rows.stop - rows.start, self.rng)
        for which, policy in enumerate(self.managers):
            mine = np.flatnonzero(self.manager[rows] == which) if len(self.managers) > 1 else slice(None)
            if policy.SCREENS:
                self._decide_screened(policy, np.arange(rows.start, rows.stop)[mine], factor[mine])
                continue
            shown = self.sessions.truth(self.tensor, rows) if policy.SEES_TRUTH else seen
            self._put(np.arange(rows.start, rows.stop)[mine], policy.choose_many(shown[mine]))
        self.median_ms_[rows] = loads(self.sessions, self.tensor, self.decisions_.configuration[rows], rows)
        self.plt_ms_[rows] = self._reported(self.median_ms_[rows] * factor, rows)
        self.waiting_ = np.concatenate((self.waiting_, np.arange(rows.start, rows.stop)))
        self.at_ = rows.stop

    def _reported(self, ms: Floats, rows: slice | Codes) -> Floats:
        return ms if self.reports is None else self.reports.of(ms, rows)

    def _put(self, rows: Codes, chosen: Decisions) -> None:
        for name in DECISION_COLUMNS:
            getattr(self.decisions_, name)[rows] = getattr(chosen, name)

    def _decide_screened(self, policy: TablePolicy, rows: Codes, factor: Floats) -> None:
        """Decide for these sessions of one manager. Outcomes that come back meanwhile are screened in that order; where
        one changes the table, sessions after it are decided anew, by the same chance."""
        if not len(rows):
            return
        seen, at_s, chance = self.sessions.seen, self.sessions.at_s, policy.chances(len(rows))
        begin = 0
        while True:
            late = rows[begin:]
            self._put(late, policy.decide(seen[late], chance[begin:]))
            where = self.decisions_.configuration[late]
            self.median_ms_[late] = loads(self.sessions, self.tensor, where, late)
            self.plt_ms_[late] = self._reported(self.median_ms_[late] * factor[begin:], late)
            mine = self.manager[self.unscreened_] == self.manager[rows[0]]
            changed_s = self._screen(policy, np.concatenate((self.unscreened_[mine], rows)), float(at_s[rows[-1]]))
            begin = int(np.searchsorted(at_s[rows], changed_s, side="right"))
            if begin == len(rows):
                break
        policy.commit(self.decisions_[rows])
        self.unscreened_ = np.concatenate((self.unscreened_, rows[~self.screened_[rows]]))

    def _screen(self, policy: TablePolicy, rows: Codes, before_s: float) -> float:
        """Screen those of these outcomes that came back before a moment, up to the first that changes the table; return
        the time when that one came back, infinite if none did."""
        rows = rows[~self.screened_[rows]]
        back_s = self._back_s(rows)
        order = np.argsort(back_s, kind="stable")
        rows = rows[order][back_s[order] < before_s]
        if not len(rows):
            return math.inf
        taken, changed = policy.screen_many(self.sessions.seen[rows], self.decisions_[rows], self.plt_ms_[rows])
        self.screened_[rows[:taken]] = True
        self.unscreened_ = self.unscreened_[~self.screened_[self.unscreened_]]
        return float(back_s[order][taken - 1]) if changed else math.inf

    def _report(self, tick: float) -> None:
        """Give each manager the outcomes that have come back by now; then they update."""
        back_s = self._back_s(self.waiting_)
        order = np.argsort(back_s, kind="stable")
        self.waiting_, back_s = self.waiting_[order], back_s[order]
        rows = self.waiting_[back_s <= tick]
        for which, policy in enumerate(self.managers):
            mine = rows[self.manager[rows] == which]
            if policy.LEARNS and len(mine):
                screens = policy.SCREENS
                while screens and self._screen(policy, mine, math.inf) < math.inf:
                    pass
                seen, decided = self.sessions.seen[mine], self.decisions_[mine]
                policy.observe_many(seen, decided, self.plt_ms_[mine], screened=screens)
                policy.update()
        self.observed_ += len(rows)
        self.updates_ += 1
        if len(rows):
            self.waiting_ = self.waiting_[back_s > tick]
            return
        # Nothing for a week: the clock goes on to the tick at which something is.
        coming = min(float(self.sessions.at_s[self.at_]), float(back_s.min(initial=np.inf)))
        self.updates_ = max(self.updates_, math.ceil(coming / self.interval_s) - 1)

    def _back_s(self, rows: Codes) -> Floats:
        """Return when the outcome of each of these sessions can be learned from."""
        back_s: Floats = self.sessions.at_s[rows] + self._lasts_s(rows) + self.delay_s
        return back_s

    def _lasts_s(self, rows: Codes) -> Floats | float:
        """Return how long those loads take on the clock, whatever is reported of them."""
        if self.at_once:
            return 0.0
        if self.reports is None:
            return self.plt_ms_[rows] / 1000.0
        return self.reports.lasted(self.plt_ms_[rows], self.median_ms_[rows], rows) / 1000.0

    def save(self) -> str:
        """Return the whole state as JSON text: the position, the results so far, the managers' states."""
        own: dict[str, Any] = {name: getattr(self.decisions_, name)[: self.at_] for name in DECISION_COLUMNS}
        own |= {"median_ms": self.median_ms_[: self.at_], "plt_ms": self.plt_ms_[: self.at_]}
        place: dict[str, Any] = {"at": self.at_, "told": self.observed_, "updates": self.updates_}
        place |= {"of": len(self.sessions), "waiting": self.waiting_, "unscreened": self.unscreened_}
        managers = [policy.save() for policy in self.managers]
        return encode({"replay": place, "columns": own, "rng": rng_state(self.rng), "managers": managers})

    def restore(self, text: str) -> None:
        """Go on where a saved replay of the same sessions stood. Errors: `BadInput` for any other."""
        state = decode(text)
        if not {"replay", "columns", "rng", "managers"} <= state.keys():
            raise BadInput("this is no saved replay; start it anew")
        place = state["replay"]
        if place["of"] != len(self.sessions) or len(state["managers"]) != len(self.managers):
            raise BadInput(f"the saved replay had {place['of']} sessions and {len(state['managers'])} managers")
        for policy, saved in zip(self.managers, state["managers"], strict=True):
            policy.restore(saved)
        set_rng_state(self.rng, state["rng"])
        self.at_, self.observed_, self.updates_ = place["at"], place["told"], place["updates"]
        self.waiting_ = np.asarray(place["waiting"], dtype=np.int64)
        self.unscreened_ = np.asarray(place.get("unscreened", place["waiting"]), dtype=np.int64)
        self.screened_[: self.at_] = True
        self.screened_[self.unscreened_] = False
        for name in DECISION_COLUMNS:
            getattr(self.decisions_, name)[: self.at_] = state["columns"][name]
        self.median_ms_[: self.at_] = state["columns"]["median_ms"]
        self.plt_ms_[: self.at_] = state["columns"]["plt_ms"]


def loads(sessions: Sessions, tensor: Tensor, configuration: Codes, rows: slice | Codes) -> Floats:
    """Return (n,) median page load times of those sessions, ms; where the network changes, the rest is under the new
    one."""
    site, change_ms = sessions.seen.site[rows], sessions.change_s[rows] * 1000.0
    ms = tensor.lookup(sessions.condition[rows], configuration, site)
    late = np.flatnonzero(change_ms < ms)
    if len(late):
        then = tensor.lookup(sessions.after[rows][late], configuration[late], site[late])
        ms[late] = change_ms[late] + (1.0 - change_ms[late] / ms[late]) * then
    return ms
