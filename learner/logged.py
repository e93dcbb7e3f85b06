# SPDX-License-Identifier: MIT
"""Outcomes of a log as columns, and how a policy learns from them, its own decisions or another program's.

A log's configurations are profiles and its classes names, since the logger may have chosen from another grid and by
other classes. `taught` decides for each logged client first and gets the outcome afterwards, so its decisions are those
that this policy would have made then; it learns from the logger's choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.columns import ARM, ARMS, Codes, Contexts, Decisions, Floats, contexts_of
from configtron.learner.table_policy import TablePolicy
from configtron.model.errors import BadInput
from configtron.model.grid import Grid, live_grid, setting
from configtron.model.nouns import Knob, Outcome, Profile


@dataclass(frozen=True, slots=True, eq=False)
class Logged:
    """n outcomes in order of arrival.

    number       (n,) in the store; 0 before it is there
    decisions    configuration: position in `profiles`; network: position in `class_ids`, -1 for none; row: -1
    plt_ms       (n,)
    measured_at  (n,) nanoseconds
    """

    number: Codes
    contexts: Contexts
    decisions: Decisions
    plt_ms: Floats
    measured_at: Codes
    profiles: tuple[Profile, ...]
    class_ids: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.plt_ms)

    def __getitem__(self, rows: slice) -> Logged:
        """Those rows, with the same vocabularies."""
        numbers = self.number[rows], self.contexts[rows], self.decisions[rows], self.plt_ms[rows]
        return Logged(*numbers, self.measured_at[rows], self.profiles, self.class_ids)

    def on(self, grid: Grid) -> Decisions:
        """Return the decisions with configurations of a grid. Errors: `BadInput` for a profile that is none of its."""
        position = np.array([grid.index(profile) for profile in self.profiles], dtype=np.int64)
        d = self.decisions
        return Decisions(d.row, d.network, position[d.configuration], d.arm, d.propensity, d.expected_ms)

    def judging(self, grid: Grid) -> Decisions:
        """Return the same, as a candidate over that grid is judged by them: a profile that was only taken for one of
        the grid's (`Grid.dead`) counts as infinitely likely, that is, not at all. Else both would count for the one."""
        mine = self.on(grid)
        own = np.array([grid.has(profile) for profile in self.profiles])
        return replace(mine, propensity=np.where(own[self.decisions.configuration], mine.propensity, np.inf))


def logged_of(outcomes: Sequence[Outcome], sites: tuple[str, ...] | None = None) -> Logged:
    """Return outcomes as columns; sites: as in `contexts_of`. Errors: `BadInput` for an arm that no policy has, or a
    page load time that is none."""
    decisions = [outcome.decision for outcome in outcomes]
    if strange := next((d.arm for d in decisions if d.arm not in ARM), None):
        raise BadInput(f"no arm is called {strange!r}; there is: {', '.join(ARMS)}")
    plt_ms = np.array([outcome.plt_ms for outcome in outcomes], dtype=np.float64)
    if not (np.isfinite(plt_ms) & (plt_ms > 0)).all():
        raise BadInput("a page load time is above 0 ms and finite")
    settings = {decision.profile.settings: decision.profile for decision in decisions}
    place = {key: at for at, key in enumerate(settings)}
    network = {name: at for at, name in enumerate(dict.fromkeys(d.class_id for d in decisions if d.class_id))}
    columns = Decisions(
        np.full(len(outcomes), -1),
        np.array([network.get(d.class_id, -1) for d in decisions], dtype=np.int64),
        np.array([place[d.profile.settings] for d in decisions], dtype=np.int64),
        np.array([ARM[d.arm] for d in decisions], dtype=np.int64),
        np.array([np.nan if d.propensity is None else d.propensity for d in decisions]),
        np.array([np.nan if d.expected_ms is None else d.expected_ms for d in decisions]),
    )
    contexts = contexts_of([decision.context for decision in decisions], sites)
    measured_at = np.array([outcome.measured_at for outcome in outcomes], dtype=np.int64)
    none = np.zeros(len(outcomes), dtype=np.int64)
    return Logged(none, contexts, columns, plt_ms, measured_at, tuple(settings.values()), tuple(network))


def taught(policy: TablePolicy, logged: Logged, progress: Callable[[int], None] = lambda _: None) -> Decisions:
    """Return the policy's decision for each client, made before it learns from that client's outcome.

    `progress` is called now and then with the number of outcomes learned. It never decides further ahead than its next
    update (`due`), so how outcomes are cut into calls does not show.
    """
    decided, at = logged.on(policy.grid), 0
    parts = [policy.choose_many(logged.contexts[:0])]
    while at < len(logged):
        rows = slice(at, min(len(logged), at + policy.due()))
        here, plt_ms = logged.contexts[rows], logged.plt_ms[rows]
        row, network = policy.where(here)
        part = decided[rows]
        columns = Decisions(row, network, part.configuration, part.arm, part.propensity, part.expected_ms)
        parts += _decided(policy, here, columns, plt_ms)
        policy.observe_many(here, columns, plt_ms, screened=True)
        at = rows.stop
        progress(at)
    names = Decisions.__dataclass_fields__
    return Decisions(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _decided(policy: TablePolicy, here: Contexts, outcomes: Decisions, plt_ms: Floats) -> list[Decisions]:
    """Return the policy's decisions for contexts up to its next update, each after the changes by earlier outcomes."""
    parts, at, chance = [], 0, policy.chances(len(here))
    while at < len(here):
        chosen = policy.decide(here[at:], chance[at:])
        taken = policy.screen_many(here[at:], outcomes[at:], plt_ms[at:])[0] if policy.SCREENS else len(chosen)
        policy.commit(chosen[:taken])
        parts.append(chosen[:taken])
        at += taken
    return parts


def grid_of(profiles: Sequence[Profile]) -> Grid:
    """Return the grid that logged profiles are of: the live one, else their own settings, with Default.

    A knob's default is the table's (`configtron/model/knobs.py`) if it was logged, else the first value that was.
    """
    live = live_grid()
    try:
        for profile in profiles:
            live.index(profile)
    except BadInput:
        return _own_grid(profiles)
    return live


def _own_grid(profiles: Sequence[Profile]) -> Grid:
    from configtron.model.knobs import KNOBS

    settings = {one for profile in profiles for one in profile.settings}
    for name, value in settings:
        setting(name, value)  # the program that logged it may not have checked
    names = sorted({name for name, _ in settings})
    knobs, rows = [], []
    for name in names:
        known = KNOBS[name]
        logged = {dict(profile.settings).get(name, known.default) for profile in profiles}
        values = tuple(sorted((v for v in logged | {known.default} if v is not None), key=lambda v: (str(type(v)), v)))
        default = values[0] if known.default is None else known.default
        knobs.append(Knob(name, known.layer, known.unit, default, values, known.scope))
    for profile in (Profile("default"), *profiles):
        given = dict(profile.settings)
        rows.append(tuple(knob.values.index(given.get(knob.name, knob.default)) for knob in knobs))
    return Grid(tuple(knobs), tuple(dict.fromkeys(rows)))
