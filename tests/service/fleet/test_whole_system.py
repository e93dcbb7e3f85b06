# SPDX-License-Identifier: MIT
"""The whole fleet under faults: no outcome lost or doubled, no wrong profile left, Default within the lease.

Each rule is also broken on purpose: some seed must notice (`-s` prints how). `benchmarks/fleet_faults.py` runs 500
seeds, and more with a profile that kills loads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from configtron.db.fleet import FleetStore
from configtron.db.spool_file import SpoolFile
from configtron.fleet.agent_session import AgentSession, ForgetRows
from configtron.fleet.clock_steps import ClockSteps
from configtron.fleet.manager_session import ManagerSession
from configtron.fleet.map_document import document
from configtron.fleet.messages import Chunk
from configtron.intake.pageloads import beacon_join, plan_book
from configtron.intake.pageloads.beacon_join import BeaconJoin
from configtron.intake.pageloads.flood import FloodLimits
from configtron.intake.pageloads.plan_book import PlanBook, near_turn
from configtron.intake.pageloads.request_join import RequestJoin
from configtron.model import draw, siphash
from configtron.model.draw import PARTS
from configtron.model.tuning import Rules
from configtron.service.fleet import drawing
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.drawing import DrawnMap
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.outcomes.root_reader import RootReader
from tests.support.fleet_killing import KillingWorld
from tests.support.fleet_world import ran

pytestmark = pytest.mark.slow
# Seeds in which each broken rule must be noticed, and the first that is tried, where it is not 0.
SEEDS = 6
FIRST = {"sends_rejected_versions_again": 8, "finds_plans_by_epoch_alone": 3, "asks_the_wall_clock_of_now": 118}
# s by which the alarm of seed 0 has come.
ENOUGH_S = 220.0


@pytest.mark.parametrize("seed", range(4))
def test_no_order_of_faults_breaks_a_rule(seed: int, tmp_path: Path) -> None:
    world = ran(seed, tmp_path)
    assert world.wrong == []
    assert len(world.maps) > 1 and sum(world.counts.values()) > 20


def test_a_seed_replays_bit_for_bit(tmp_path: Path) -> None:
    first, again, other = ran(7, tmp_path / "a"), ran(7, tmp_path / "b"), ran(8, tmp_path / "c")
    assert first.digest == again.digest != other.digest
    assert first.counts == again.counts


# ---- what breaks a rule takes the place of a method or function, which is its own first argument


def forgets(spooled: Any, self: Any, boot: str, first: int, rows: Any, now: float) -> Any:
    found, self._batch = spooled(self, boot, first, rows, now), None
    return [*found, ForgetRows(boot, first + rows.number - 1)] if rows.number else found


def stores_again(add: Any, self: Any, agent: str, boot: str, first: int, rows: Any, at: int) -> int:
    """Number rows by their arrival, as AUTOINCREMENT did."""
    through = next((each.through for each in self.streams() if (each.agent, each.boot) == (agent, boot)), 0)
    add(self, agent, boot, through + 1, [row._replace(sequence=through + 1 + n) for n, row in enumerate(rows)], at)
    return int(first + len(rows) - 1)


def sends_any_version(_: Any, self: Any, connection: bytes, agent: Any, message: Any) -> Any:
    """Send the version before the current one now and then."""
    kept: list[Any] = self.__dict__.setdefault("kept", [])
    if self.current is not None and self.current not in kept:
        kept.append(self.current)
    new = kept[0] if len(kept) > 1 and len(self.agents) % 2 else self.current
    if new is None:
        return []
    return [self._to(connection, Chunk(self.manager, message.term, message.version, 0, 1, document(new)))]


def drops_uncounted(append: Any, self: Any, batch: Any) -> bool:
    before = self.dropped
    append(self, batch)
    self.dropped = before
    return True


def begins_at_once(load: Any, self: Any, document: bytes, now_s: float, now_ns: int) -> Any:
    """Put each map in force when it comes, as before prefixes waited for the turn."""
    found, now = load(self, document, now_s, now_ns), self._now
    if not found.result.error and self._accepted is not None and now is not None:
        self._begin(now._replace(accepted=self._accepted, drawing=self._drawn(self._accepted.head, now_ns)), now_s)
    return found


def plan_by_the_clock_of_now(_: Any, self: Any, start_ns: int) -> Any:
    """Find the plan by the wall clock as it is now, which may have been stepped since."""
    wall_ns = start_ns + self._wall._offsets[-1][1]
    return next((one for one in reversed(self._periods) if one.begin_ns <= start_ns and one.plan
                 and wall_ns // 10**9 // one.plan.epoch_s == one.plan.plan.epoch), None)  # fmt: skip


def settles_twice(settled: Any, self: Any, page: Any) -> Any:
    row = settled(self, page)
    self._gone = type(self._gone)(10)
    self._pages[page.request.token], page.reported = page, None
    if page.connection is not None:
        page.connection.begins = ()
    return row


def takes_later(fault: Any, self: Any, page: Any, reported: Any) -> Any:
    if page.reported is not None:
        page.reported = reported
        return ""
    return fault(self, page, reported)


BROKEN: tuple[tuple[str, Any, str, Callable[..., Any]], ...] = (
    # rows
    ("forgets_rows_when_sent", AgentSession, "spooled", forgets),
    ("acknowledges_without_room", ManagerCore, "_store", lambda store, self, batch, now_ns: store(self, batch, now_ns)
     or self.session.stored(batch.connection, batch.boot, batch.first + len(batch.rows) - 1)),
    ("names_rows_without_their_boot", FleetStore, "add_rows",
     lambda add, self, agent, boot, *rest: add(self, agent, "", *rest)),
    ("stores_rows_again", FleetStore, "add_rows", stores_again),
    ("drops_rows_uncounted", SpoolFile, "append", drops_uncounted),
    ("drops_rows_uncounted", SpoolFile, "__init__", lambda made, self, path, most_bytes: made(self, path, 600)),
    # managers and their terms
    ("obeys_any_term", AgentSession, "_obey",
     lambda _, self, message: setattr(self, "manager", (message.term, message.manager)) or []),
    ("obeys_any_term", ManagerSession, "_objected", lambda *_: []),
    ("gives_a_term_twice", FleetStore, "begin_term", lambda begin, self, name: max(begin(self, name) - 1, 1)),
    ("hears_revoked_keys", ManagerSession, "allow",
     lambda _, self, allowed: setattr(self, "allowed", {**self.allowed, **allowed})),
    ("is_silent_on_stepped_clocks", ClockSteps, "step_s", lambda *_: 0.0),
    # maps
    ("applies_older_maps", Applier, "load",
     lambda load, self, *rest: setattr(self, "_latest", (0, 0)) or load(self, *rest)),
    ("applies_older_maps", AgentSession, "_is_news", lambda _, self, place: place[1] > 0 and place != self.held[:2]),
    ("applies_older_maps", ManagerSession, "_sent", sends_any_version),
    ("believes_any_signature", Applier, "__init__", lambda made, self, enforcement, key, *rest: made(
        self, enforcement, SimpleNamespace(verify=lambda *_: None), *rest)),
    ("sends_rejected_versions_again", AgentSession, "loaded",
     lambda loaded, self, *rest, **named: (loaded(self, *rest, **named), setattr(self, "rejected", None))[0]),
    ("sends_rejected_versions_again", ManagerSession, "_result", lambda result, self, name, agent, message: (
        result(self, name, agent, message), setattr(agent, "rejected", None))[0]),
    # what is in force
    ("renews_what_is_void", Applier, "_lost", lambda _, self, why: setattr(self, "_accepted", None)),
    ("renews_what_is_void", Applier, "tick",
     lambda tick, self, *now: tick(self, *now) or (self._rules is not None and self._enforcement.renew(30.0))),
    ("renews_for_an_hour", Applier, "tick", lambda tick, self, *now: tick(self, *now) or (
        self._accepted is not None and self._rules is not None and self._enforcement.renew(3600.0))),
    ("replaces_what_a_human_set", Applier, "_humans_of", lambda *_: {}),
    ("replaces_what_a_human_set", Applier, "_target",
     lambda target, self, *rest: setattr(self, "_base", Rules()) or target(self, *rest)),
    ("keeps_the_epoch", Applier, "_turn", lambda *_: None),
    ("changes_arms_within_the_epoch", Applier, "load", begins_at_once),
    ("changes_arms_when_started_again", Applier, "_under_way", lambda *_: None),
    # draws
    ("draws_by_chance", drawing, "prefix_unit", lambda _, prefix: len(prefix)),
    ("draws_by_another_hash", siphash, "_round", lambda once, v0, v1, v2, v3: once(v0, v1, v2, v3 ^ np.uint64(1))),
    ("holds_back_anew_each_epoch", draw, "is_held", lambda _, plan, units: draw._slices(
        plan.key, plan.epoch + 1, units) < np.uint64(plan.holdback)),
    ("turns_to_the_epoch_before", DrawnMap, "plan",
     lambda plan, self, not_after: replace(found := plan(self, not_after), epoch=found.epoch - 1)),
    ("forgets_the_holdback_in_propensities", plan_book, "propensity", lambda _, plan, mix, arm: (
        plan.holdback / PARTS if arm is None else mix.weights[arm] / PARTS)),
    # page loads
    ("finds_plans_by_epoch_alone", PlanBook, "_of_epoch", lambda _, self, epoch, start_ns: next(
        (one for one in reversed(self._periods) if one.plan and one.plan.plan.epoch == epoch), None)),
    ("finds_plans_by_epoch_alone", PlanBook, "_is_outside", lambda *_: False),
    ("finds_plans_by_epoch_alone", PlanBook, "_near",
     lambda _, self, plan, start_ns: near_turn(self._wall.wall_ns(start_ns), plan.epoch_s)),
    ("asks_the_wall_clock_of_now", PlanBook, "_at", plan_by_the_clock_of_now),
    ("teaches_near_turns", PlanBook, "_near", lambda *_: False),
    ("teaches_by_used_connections", RequestJoin, "_request",
     lambda request, self, *rest: request(self, *rest)._replace(first=True)),
    ("believes_impossible_times", BeaconJoin, "_slow_or_fast", lambda *_: ""),
    ("believes_any_clock", beacon_join, "load_fault", lambda *_: ""),
    ("takes_a_token_twice", BeaconJoin, "_settled", settles_twice),
    ("takes_the_later_body", BeaconJoin, "_fault", takes_later),
    ("names_a_unit_by_its_network", plan_book, "unit",
     lambda unit, key, client, epoch: unit(key, client[:3] + b"\1", epoch)),
    ("loses_what_waits", RootReader, "read_lines", lambda read, self: read(self) or self.join._waiting.clear()),
    ("lets_one_flood_silence_all", FloodLimits, "fault",
     lambda fault, self, address, now_ns: fault(self, b"same", now_ns)),
)  # fmt: skip


def broken(patch: pytest.MonkeyPatch, target: Any, name: str, instead: Callable[..., Any]) -> None:
    former = getattr(target, name)
    patch.setattr(target, name, lambda *given, **named: instead(former, *given, **named))


@pytest.mark.parametrize("rule", dict.fromkeys(rule for rule, *_ in BROKEN))
def test_a_broken_rule_is_noticed(rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, *where in BROKEN:
        if name == rule:
            broken(monkeypatch, *where)
    first = FIRST.get(rule, 0)
    for seed in range(first, first + SEEDS):
        if wrong := ran(seed, tmp_path).wrong:
            print(f"{rule}: {wrong[0]}")
            return
    raise AssertionError(f"{rule}: no seed of {SEEDS} from {first} on noticed")


# ---- a profile that kills loads


def killing(folder: Path, reports: bool = True, most_s: float = ENOUGH_S) -> KillingWorld:
    world = KillingWorld(0, folder, reports, most_s)
    try:
        world.run()
    finally:
        logging.disable(logging.NOTSET)
    return world


@pytest.mark.parametrize("reports", [True, False])
def test_it_is_taken_back_by_the_failures_that_browsers_report_and_without_reports_looks_good(
    tmp_path: Path, reports: bool
) -> None:
    world = killing(tmp_path, reports)
    found = world.found
    assert world.wrong == [] and found is not None
    assert found.faster < 1.0, "the loads that finish are faster"
    if reports:
        assert (found.stage, found.why, found.goal) == ("returned", "alarm", "failures")
        assert found.failures == found.reported >= 5 and "failures" in found.line
    else:
        assert found.stage == "canary" and found.broken > 15 and found.failures == 0


def test_a_failure_that_counts_against_another_client_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch, PlanBook, "of_client", lambda of_client, self, client, at_ns: of_client(
        self, bytes([*client[:3], client[3] ^ 1]), at_ns))  # fmt: skip
    assert any("the failure of visit" in line for line in killing(tmp_path, most_s=80.0).wrong)
