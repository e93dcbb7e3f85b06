# SPDX-License-Identifier: MIT
"""The whole simulated fleet with a profile that breaks connections and makes those that it leaves faster.

Question   Does the fleet take a profile back that kills loads, and what if browsers did not report failed loads?
Method     The product's manager with stages, its agents, readers and kernels (`fleet_world.py`), without other faults.
           The map's one profile leaves a load `FASTER` of its time, and breaks `KILLED` of the connections before their
           page has loaded: such a load sends no beacon. `REPORTING` of browsers send a report of Network Error Logging
           some seconds later, by another connection; `reports` False: none does. The roll-out goes on until it has
           ended, or every client that is not held back has the profile. Each failure that the manager stored is
           compared with what the judge draws for the client whose load broke.
Stop when  the roll-out is over, or `MOST_S`; then visits go on for `AFTER_S`, and the world comes to its end.
Reads as   `KillingWorld.found`, and `World.wrong` with the rules of every world, and those of failures here.
Source     W3C Network Error Logging; survivorship: a mean over loads that finished leaves out those that did not
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import partial
from math import nan
from pathlib import Path

import numpy as np

from configtron.db.fleet import FleetStore
from configtron.intake.pageloads.intake import REPORT_PATH
from configtron.learner.rollout import RolloutPlan
from configtron.model.fleet import WHOLE, FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.fleet.stages import Stages
from tests.support.fleet_hosts import KEY, Host, ManagerHost
from tests.support.fleet_kernel import Beginning
from tests.support.fleet_pages import Client, Visit, Visitors
from tests.support.fleet_world import QUIET_S, World
from tests.support.staged_world import PlannedMaker

HARSH = "harsh"
# Of connections under that profile; of the time of loads that finish; of browsers (Chromium's family).
KILLED, FASTER, REPORTING = 0.3, 0.85, 0.7
# Of clients; prefixes of a /16, and clients of each.
PREFIXES, EACH, EPOCH_S = 40, 50, 20
# s until a roll-out must be over; of visits after it; of its lease and of frames.
MOST_S, AFTER_S, LEASE_S = 1_200.0, 20.0, 4.0
# Small margins need many clients; these make a stage of some epochs.
PLAN = RolloutPlan(margins=(("median", 0.25), ("p95", 0.6), ("failures", 0.1)), clients=400)


@dataclass(frozen=True)
class KillingFound:
    """How a roll-out ended.

    stage, why, goal  of its last change of stage; at_s: when, virtual s
    broken, reported  loads that the profile killed, and reports of those
    failures          rows of them that the manager has; taught: those that teach
    faster            median of loads that finished under the profile, over that of held-back clients; NaN: none did
    begun_s, last_s   when a connection got the profile first, and last
    line              of the manager's log at the end of the roll-out; "": none
    """

    stage: str
    why: str
    goal: str
    at_s: float
    broken: int
    reported: int
    failures: int
    taught: int
    faster: float
    begun_s: float
    last_s: float
    line: str = ""


class StagedManager(ManagerHost):
    """A manager whose maps reach clients by stages."""

    stages: Stages

    def _made(self, store: FleetStore) -> ManagerCore:
        maker = PlannedMaker(self.world.wanted)
        self.stages = Stages(PLAN, None, b"k", maker.note)
        return ManagerCore(store, maker, KEY, f"{self.name}-{self.starts}", self.wall_ns(), self.stages)

    def _change(self) -> None:
        """Leave the map as it was planned."""

    @property
    def stage(self) -> str:
        """Return the stage of the roll-out; "": none has begun."""
        return self.stages.rollout.stage if self.stages.rollout is not None else ""


class KillingVisitors(Visitors):
    """Visitors of whom none lies, some of whose connections break."""

    world: KillingWorld

    def __init__(self, world: KillingWorld) -> None:
        super().__init__(world)
        rng = world.rng
        self.clients = [Client(f"198.51.{net}.{at}", f"198.51.{net}.0/24", rng.randrange(3_000, 150_000), False)
                        for net in range(PREFIXES) for at in rng.sample(range(1, 250), EACH)]  # fmt: skip
        self.broken: dict[str, Visit] = {}
        self.reported, self.begun_s, self.last_s = 0, 0.0, 0.0

    def step(self) -> None:
        """Let some clients visit: twice as many as in a world of faults."""
        super().step()
        super().step()

    def _planned(self, host: Host, client: Client, begun: Beginning | None, page: int) -> Visit:
        visit = super()._planned(host, client, begun, page)
        if is_harsh(begun):
            visit.plt_ms, self.last_s = round(FASTER * visit.plt_ms, 3), self.world.now
            self.begun_s = self.begun_s or self.world.now
        return visit

    def _breaks(self, host: Host, client: Client, begun: Beginning | None) -> bool:
        rng, world = self.world.rng, self.world
        if not is_harsh(begun) or rng.random() >= KILLED:
            return False
        visit = self._planned(host, client, begun, 1)
        self.broken[f"v{visit.number}"] = visit
        at_s, age_s = rng.uniform(0.05, 1.0), rng.uniform(0.2, 5.0)
        world.later(at_s, partial(host.disconnect, begun, host.boots, client.rtt_us, True), host)
        if rng.random() < REPORTING and world.reports:
            world.later(at_s + age_s, partial(self._report, host, visit, at_s, age_s), host)
        return True

    def _report(self, host: Host, visit: Visit, elapsed_s: float, age_s: float) -> None:
        """Send a browser's report; the protocol's name in it names the visit to the judge."""
        body = {"type": "tcp.reset", "phase": "connection", "elapsed_time": 1e3 * elapsed_s, "sampling_fraction": 1.0,
                "protocol": f"v{visit.number}"}  # fmt: skip
        report = {"type": "network-error", "age": 1e3 * age_s, "url": f"https://{visit.site}/", "body": body}
        self.reported += host.post(json.dumps([report]).encode(), visit.client, REPORT_PATH) == 204


def is_harsh(begun: Beginning | None) -> bool:
    """Return whether a connection got the profile that kills."""
    return begun is not None and begun.opened.profile == HARSH


class KillingWorld(World):
    """A world of one seed; reports: whether browsers report loads that failed; most_s: when it ends, s."""

    def __init__(self, seed: int, folder: Path, reports: bool = True, most_s: float = MOST_S) -> None:
        super().__init__(seed, folder)
        self.reports, self.most_s, self.faulty, self.visits_until_s = reports, most_s, False, most_s
        self.visitors: KillingVisitors = KillingVisitors(self)
        self.manager = StagedManager(self, "m", self.managers[0].path)
        self.managers = [self.manager]
        self.found: KillingFound | None = None

    def _random_map(self) -> FleetMap:
        self.epoch_s = EPOCH_S
        profiles = {HARSH: Profile(HARSH, (("initcwnd", 16),))}
        prefixes = {f"198.51.{at}.0/24": "near" for at in range(PREFIXES)}
        return FleetMap(0, 0, profiles, {"near": ((HARSH, WHOLE),)}, prefixes, self.rng.randbytes(16), 0, (), 9_830,
                        EPOCH_S, lease_s=3.0)  # fmt: skip

    def _run(self) -> None:
        self.do(self.manager, self.manager.start)
        for host in self.hosts.values():
            self.do(host, host.start)
        while self.now < self.most_s and self.manager.stage not in ("returned", "rejected", "all"):
            self._until(self.now + 1.0)
        ended_s, self.visits_until_s = self.now, self.now + AFTER_S
        self._until(self.now + AFTER_S + QUIET_S)
        self.judge.end()
        self.found = self._found(ended_s)
        self._close()

    def _found(self, ended_s: float) -> KillingFound:
        assert self.manager.core is not None and self.manager.stages.rollout is not None
        rows = {(row.agent, row.boot, row.sequence): row for row in self.manager.core.store.every_row()}.values()
        failed = [row for row in rows if row.failure]
        for row in failed:
            self._judge_failure(row)
        doubled = [name for name, count in Counter(row.protocol for row in failed).items() if count > 1]
        self.check(not doubled, f"failures are stored twice: {doubled[:3]}")
        stage = self.manager.stage
        if stage == "returned":
            late_s = self.visitors.last_s - ended_s
            self.check(late_s <= LEASE_S, f"a client got the profile {late_s:.1f} s after it was taken back")
        last = next(one for one in reversed(self.manager.stages.rollout.evidence) if one.stage == stage)
        times = {held: [row.plt_ms for row in rows if row.plt_ms and row.teaches and row.held is held
                        and (held or row.profile == HARSH)] for held in (False, True)}  # fmt: skip
        faster = float(np.median(times[False]) / np.median(times[True])) if all(times.values()) else nan
        lines = [line.text for line in self.log.lines if "is taken back" in line.text]
        visitors = self.visitors
        return KillingFound(stage, last.why, last.goal, ended_s, len(visitors.broken), visitors.reported, len(failed),
                            sum(row.teaches for row in failed), round(faster, 3), visitors.begun_s, visitors.last_s,
                            lines[-1] if lines else "")  # fmt: skip

    def _judge_failure(self, row: OutcomeRow) -> None:
        """Check that a failure has what the judge draws for the client whose load broke."""
        visit = self.visitors.broken.get(row.protocol)
        self.check(visit is not None, f"a failure of no load that broke: {row.protocol!r}")
        expected = self.judge.pages.expected.get(visit.number) if visit is not None else None
        if visit is None or expected is None or row.why_not == "turn":
            return
        got = (row.agent, row.prefix, row.class_name, row.arm, row.held, row.profile, row.epoch)
        want = (visit.host, visit.client.prefix, expected.class_name, expected.arm, expected.held, HARSH,
                expected.epoch)  # fmt: skip
        self.check(got == want, f"the failure of visit {visit.number} has {got}, ought to have {want}")
        chance = row.propensity is not None and abs(row.propensity - expected.propensity) < 1e-9
        place = (row.term, row.map_version) in expected.places
        self.check(chance and place, f"the failure of visit {visit.number}: propensity {row.propensity}, or its map")
