# SPDX-License-Identifier: MIT
"""Page loads of the simulated fleet: each rule of their readers and of drawn plans, broken on purpose, is noticed.

Seed 0 notices each but two, which need a rollback within an epoch and a clock's jump (`FIRST`); `-s` prints the rule
that was broken.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configtron.intake.pageloads import beacon_join, plan_book
from configtron.intake.pageloads.beacon_join import BeaconJoin
from configtron.intake.pageloads.flood import FloodLimits
from configtron.intake.pageloads.plan_book import PlanBook, PlanPeriod
from configtron.intake.pageloads.request_join import JoinedRequest, RequestJoin
from configtron.model import draw as drawing
from configtron.model import siphash
from configtron.model.draw import PARTS, Plan
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.drawing import DrawnMap
from configtron.service.outcomes.root_reader import RootReader
from tests.support.simulated_fleet import ran

Patch = Callable[[pytest.MonkeyPatch], None]
# Seeds in which each broken rule must be noticed.
SEEDS = 6
# The first seed that is tried, where it is not 0.
FIRST = {"finds_plans_by_epoch_alone": 3, "asks_the_wall_clock_of_now": 110}


def finds_plans_by_epoch_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PlanBook, "_of_epoch", lambda self, epoch, start_ns: next(
        (one for one in reversed(self._periods) if one.plan and one.plan.plan.epoch == epoch), None))  # fmt: skip
    patch.setattr(PlanBook, "_is_outside", lambda self, at, start_ns: False)
    patch.setattr(PlanBook, "_near", lambda self, plan, start_ns: plan_book.near_turn(
        self._wall.wall_ns(start_ns), plan.epoch_s))  # fmt: skip


def asks_the_wall_clock_of_now(patch: pytest.MonkeyPatch) -> None:
    def broken(self: PlanBook, start_ns: int) -> PlanPeriod | None:
        """Find the plan by the wall clock as it is now, which may have been stepped since."""
        wall_ns = start_ns + self._wall._offsets[-1][1]
        return next((one for one in reversed(self._periods) if one.begin_ns <= start_ns and one.plan
                     and wall_ns // 10**9 // one.plan.epoch_s == one.plan.plan.epoch), None)  # fmt: skip

    patch.setattr(PlanBook, "_at", broken)


def teaches_near_turns(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PlanBook, "_near", lambda self, plan, start_ns: False)


def teaches_by_used_connections(patch: pytest.MonkeyPatch) -> None:
    request = RequestJoin._request

    def broken(self: RequestJoin, *arguments: Any) -> JoinedRequest:
        return request(self, *arguments)._replace(first=True)

    patch.setattr(RequestJoin, "_request", broken)


def believes_impossible_times(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BeaconJoin, "_slow_or_fast", lambda self, page, reported: "")


def believes_any_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(beacon_join, "load_fault", lambda load: "")


def takes_a_token_twice(patch: pytest.MonkeyPatch) -> None:
    settled = BeaconJoin._settled

    def broken(self: BeaconJoin, page: Any) -> Any:
        row = settled(self, page)
        self._gone = type(self._gone)(10)
        self._pages[page.request.token], page.reported = page, None
        if page.connection is not None:
            page.connection.begins = ()
        return row

    patch.setattr(BeaconJoin, "_settled", broken)


def takes_the_later_body(patch: pytest.MonkeyPatch) -> None:
    fault = BeaconJoin._fault

    def broken(self: BeaconJoin, page: Any, reported: Any) -> str:
        if page.reported is not None:
            page.reported = reported
            return ""
        return fault(self, page, reported)

    patch.setattr(BeaconJoin, "_fault", broken)


def names_a_unit_by_its_network(patch: pytest.MonkeyPatch) -> None:
    unit = plan_book.unit
    patch.setattr(plan_book, "unit", lambda key, client, epoch: unit(key, client[:3] + b"\1", epoch))


def forgets_the_holdback_in_propensities(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plan_book, "propensity", lambda plan, mix, arm: (
        plan.holdback / PARTS if arm is None else mix.weights[arm] / PARTS))  # fmt: skip


def draws_by_another_hash(patch: pytest.MonkeyPatch) -> None:
    once = siphash._round
    patch.setattr(siphash, "_round", lambda v0, v1, v2, v3: once(v0, v1, v2, v3 ^ np.uint64(1)))


def holds_back_anew_each_epoch(patch: pytest.MonkeyPatch) -> None:
    def broken(plan: Plan, units: Any) -> Any:
        return drawing._slices(plan.key, plan.epoch + 1, units) < np.uint64(plan.holdback)

    patch.setattr(drawing, "is_held", broken)


def turns_to_the_epoch_before(patch: pytest.MonkeyPatch) -> None:
    plan = DrawnMap.plan

    def broken(self: DrawnMap, not_after: int) -> Plan:
        found = plan(self, not_after)
        return Plan(found.key, found.epoch - 1, found.not_after, found.holdback, found.held_profile, found.bands)

    patch.setattr(DrawnMap, "plan", broken)


def renews_for_an_hour(patch: pytest.MonkeyPatch) -> None:
    tick = Applier.tick

    def broken(self: Applier, now_s: float, now_ns: int) -> None:
        tick(self, now_s, now_ns)
        if self._accepted is not None and self._rules is not None:
            self._enforcement.renew(3600.0)

    patch.setattr(Applier, "tick", broken)


def loses_what_waits(patch: pytest.MonkeyPatch) -> None:
    read = RootReader.read_lines

    def broken(self: RootReader) -> None:
        read(self)
        self.join._waiting.clear()

    patch.setattr(RootReader, "read_lines", broken)


def lets_one_flood_silence_all(patch: pytest.MonkeyPatch) -> None:
    fault = FloodLimits.fault
    patch.setattr(FloodLimits, "fault", lambda self, address, now_ns: fault(self, b"same", now_ns))


BROKEN: tuple[Patch, ...] = (
    finds_plans_by_epoch_alone, asks_the_wall_clock_of_now, teaches_near_turns, teaches_by_used_connections,
    believes_impossible_times, believes_any_clock, takes_a_token_twice, takes_the_later_body,
    names_a_unit_by_its_network, forgets_the_holdback_in_propensities, draws_by_another_hash,
    holds_back_anew_each_epoch, turns_to_the_epoch_before, renews_for_an_hour, loses_what_waits,
    lets_one_flood_silence_all,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN, ids=[each.__name__ for each in BROKEN])
def test_a_broken_rule_of_page_loads_is_noticed(broken: Patch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    first = FIRST.get(broken.__name__, 0)
    for seed in range(first, first + SEEDS):
        if wrong := ran(seed, tmp_path).wrong:
            print(f"{broken.__name__}: {wrong[0]}")
            return
    raise AssertionError(f"{broken.__name__}: no seed of {SEEDS} from {first} on noticed")
