# SPDX-License-Identifier: MIT
"""The whole fleet under faults: no outcome lost or doubled, no wrong profile left, Default within the lease.

Each rule is also broken on purpose: some seed must notice. `benchmarks/fleet_faults.py` runs 500 seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configtron.db.fleet import FleetStore
from configtron.db.spool_file import SpooledBatch, SpoolFile
from configtron.fleet import manager_session, map_document
from configtron.fleet.agent_session import AgentSession, ForgetRows
from configtron.fleet.clock_steps import ClockSteps
from configtron.fleet.manager_session import ManagerSession
from configtron.service.fleet import applier as applying
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.manager_core import ManagerCore
from tests.support.simulated_fleet import ran

# Seeds in which each broken rule must be noticed.
SEEDS = 25


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_order_of_faults_breaks_a_rule(seed: int, tmp_path: Path) -> None:
    world = ran(seed, tmp_path)
    assert world.wrong == []
    assert len(world.maps) > 1 and sum(world.counts.values()) > 20


@pytest.mark.slow
def test_a_seed_replays_bit_for_bit(tmp_path: Path) -> None:
    first, again, other = ran(7, tmp_path / "a"), ran(7, tmp_path / "b"), ran(8, tmp_path / "c")
    assert first.digest == again.digest != other.digest
    assert first.counts == again.counts


Patch = Callable[[pytest.MonkeyPatch], None]


def forgets_rows_when_sent(patch: pytest.MonkeyPatch) -> None:
    spooled = AgentSession.spooled

    def broken(self: AgentSession, boot: str, first: int, rows: Any, now: float) -> Any:
        found = spooled(self, boot, first, rows, now)
        self._batch = None
        return [*found, ForgetRows(boot, first + rows.number - 1)] if rows.number else found

    patch.setattr(AgentSession, "spooled", broken)


def acknowledges_without_room(patch: pytest.MonkeyPatch) -> None:
    store = ManagerCore._store

    def broken(self: ManagerCore, batch: Any, now_ns: int) -> Any:
        last = batch.first + len(batch.rows) - 1
        return store(self, batch, now_ns) or self.session.stored(batch.connection, batch.boot, last)

    patch.setattr(ManagerCore, "_store", broken)


def names_rows_without_their_boot(patch: pytest.MonkeyPatch) -> None:
    add = FleetStore.add_rows

    def broken(self: FleetStore, agent: str, boot: str, first: int, rows: Any, at: int) -> int:
        return add(self, agent, "", first, rows, at)

    patch.setattr(FleetStore, "add_rows", broken)


def stores_rows_again(patch: pytest.MonkeyPatch) -> None:
    add = FleetStore.add_rows

    def broken(self: FleetStore, agent: str, boot: str, first: int, rows: Any, at: int) -> int:
        """Number rows by their arrival, as AUTOINCREMENT did."""
        through = next((each.through for each in self.streams() if (each.agent, each.boot) == (agent, boot)), 0)
        add(self, agent, boot, through + 1, [row._replace(sequence=through + 1 + n) for n, row in enumerate(rows)], at)
        return first + len(rows) - 1

    patch.setattr(FleetStore, "add_rows", broken)


def obeys_any_term(patch: pytest.MonkeyPatch) -> None:
    def broken(self: AgentSession, message: Any) -> list[Any]:
        self.manager = (message.term, message.manager)
        return []

    patch.setattr(AgentSession, "_obey", broken)
    patch.setattr(ManagerSession, "_objected", lambda self, name, term, manager: [])


def applies_older_maps(patch: pytest.MonkeyPatch) -> None:
    load = Applier.load

    def broken(self: Applier, document: bytes, now_s: float, now_ns: int) -> Any:
        self._latest = (0, 0)
        return load(self, document, now_s, now_ns)

    patch.setattr(Applier, "load", broken)
    patch.setattr(AgentSession, "_is_news", lambda self, place: place[1] > 0 and place != self.held[:2])
    patch.setattr(ManagerSession, "_sent", _any_version)


def _any_version(self: ManagerSession, connection: bytes, agent: Any, message: Any) -> Any:
    """Send the version before the current one now and then."""
    kept: list[Any] = self.__dict__.setdefault("kept", [])
    if self.current is not None and self.current not in kept:
        kept.append(self.current)
    new = kept[0] if len(kept) > 1 and len(self.agents) % 2 else self.current
    if new is None:
        return []
    chunk = manager_session.Chunk(self.manager, message.term, message.version, 0, 1, map_document.document(new))
    return [self._to(connection, chunk)]


def hears_revoked_keys(patch: pytest.MonkeyPatch) -> None:
    def broken(self: ManagerSession, allowed: Any) -> None:
        self.allowed = {**self.allowed, **allowed}

    patch.setattr(ManagerSession, "allow", broken)


def believes_any_signature(patch: pytest.MonkeyPatch) -> None:
    class Anyone:
        def verify(self, *_: Any) -> None:
            return None

    made = Applier.__init__

    def broken(self: Applier, enforcement: Any, key: Any, humans: Any, base: Any = None) -> None:
        made(self, enforcement, Anyone(), humans, base)  # type: ignore[arg-type]

    patch.setattr(Applier, "__init__", broken)


def renews_what_is_void(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Applier, why: str) -> None:
        self._accepted = self._drawing = None

    patch.setattr(Applier, "_lost", broken)
    tick = Applier.tick

    def on(self: Applier, now_s: float, now_ns: int) -> None:
        tick(self, now_s, now_ns)
        self._enforcement.renew(30.0) if self._rules is not None else None

    patch.setattr(Applier, "tick", on)


def sends_rejected_versions_again(patch: pytest.MonkeyPatch) -> None:
    loaded = AgentSession.loaded

    def broken(self: AgentSession, *arguments: Any, **named: Any) -> Any:
        found = loaded(self, *arguments, **named)
        self.rejected = None
        return found

    result = ManagerSession._result

    def forgets(self: ManagerSession, name: str, agent: Any, message: Any) -> Any:
        found = result(self, name, agent, message)
        agent.rejected = None
        return found

    patch.setattr(AgentSession, "loaded", broken)
    patch.setattr(ManagerSession, "_result", forgets)


def replaces_what_a_human_set(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Applier, "_humans_of", lambda self, prefixes: {})
    target = Applier._target

    def broken(self: Applier, *arguments: Any) -> Any:
        self._base = applying.Rules()
        return target(self, *arguments)

    patch.setattr(Applier, "_target", broken)


def drops_rows_uncounted(patch: pytest.MonkeyPatch) -> None:
    append = SpoolFile.append

    def broken(self: SpoolFile, batch: SpooledBatch) -> bool:
        before = self.dropped
        append(self, batch)
        self.dropped = before
        return True

    patch.setattr(SpoolFile, "append", broken)
    patch.setattr("tests.support.fleet_hosts.SPOOL_BYTES", 600)


def gives_a_term_twice(patch: pytest.MonkeyPatch) -> None:
    begin = FleetStore.begin_term
    patch.setattr(FleetStore, "begin_term", lambda self, name: max(begin(self, name) - 1, 1))


def draws_by_chance(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("configtron.service.fleet.drawing.prefix_unit", lambda prefix: len(prefix))


def keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Applier, "_turn", lambda self, now_s, now_ns: None)


def changes_arms_within_the_epoch(patch: pytest.MonkeyPatch) -> None:
    load = Applier.load

    def broken(self: Applier, document: bytes, now_s: float, now_ns: int) -> Any:
        """Put each map in force when it comes, as before prefixes waited for the turn."""
        found, now = load(self, document, now_s, now_ns), self._now
        if not found.result.error and self._accepted is not None and now is not None:
            self._begin(now._replace(accepted=self._accepted, drawing=self._drawn(self._accepted.head, now_ns)), now_s)
        return found

    patch.setattr(Applier, "load", broken)


def changes_arms_when_started_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Applier, "_under_way", lambda self, head, now_ns: None)


def is_silent_on_stepped_clocks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClockSteps, "step_s", lambda self, now_s, now_ns: 0.0)


BROKEN: tuple[Patch, ...] = (
    forgets_rows_when_sent, acknowledges_without_room, names_rows_without_their_boot, stores_rows_again, obeys_any_term,
    applies_older_maps, hears_revoked_keys, believes_any_signature, renews_what_is_void, sends_rejected_versions_again,
    replaces_what_a_human_set, drops_rows_uncounted, gives_a_term_twice, draws_by_chance, keeps_the_epoch,
    changes_arms_within_the_epoch, changes_arms_when_started_again,
    is_silent_on_stepped_clocks,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN, ids=[each.__name__ for each in BROKEN])
def test_a_broken_rule_is_noticed(broken: Patch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    for seed in range(SEEDS):
        if ran(seed, tmp_path).wrong:
            return
    raise AssertionError(f"{broken.__name__}: no seed of {SEEDS} noticed")
