# SPDX-License-Identifier: MIT
"""In the guest: servers, networks, visitors, agents and the manager for so many epochs; all that was seen is kept.

    python -m benchmarks.live_kernel.inside PROGRAM SCENARIO        writes found.json into the guest's output

PROGRAM: the page-load client. Nothing is judged here: `draw_checks.py` does that, outside.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.live.scenario import guarded, measured
from benchmarks.live_kernel.hosts import DATABASE, HostAgent, LearningManager
from benchmarks.live_kernel.place import FOLDER, WebProgram, Wires
from benchmarks.live_kernel.scenario import CHANGED, KernelScenario, pages
from benchmarks.live_kernel.visits import Visited, Visitors
from configtron.lab.testbed import servers
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from configtron.learner.closed_loop import LoopOptions
from configtron.learner.loop_maker import LoopMapMaker
from configtron.learner.map_making import MapOptions
from configtron.learner.map_text import map_text
from configtron.model.close_records import CloseRecord, OpenRecord
from configtron.model.nouns import Profile
from configtron.service.learning.serve_local import TURN_S, reachable_grid
from tests.support.guest_module import MODULE

POLICY = "thompson"
OUTPUT, GROUPS = Path(GUEST_OUTPUT), Path("/run/cgroup")
# Clients of an epoch that a prefix needs to be listed.
LEAST_CLIENTS = 4
# Bytes that a squeezed queue holds: eight frames.
SQUEEZED_BYTES = 12_112
# s after the last load in which the last rows settle (`beacon_join.SETTLE_NS`, and more).
SETTLED_S = 15.0


class KernelExperiment:
    """All that runs, and what was kept of it."""

    def __init__(self, scenario: KernelScenario, program: str) -> None:
        self.scenario, self.program = scenario, program
        self.networks = scenario.access_networks()
        self.pages = pages()
        self.lost: set[int] = set()
        self.loads: list[Visited] = []
        self.records: list[tuple[str, OpenRecord | CloseRecord]] = []
        self.plans: list[tuple[str, int, int, int]] = []
        self.maps: dict[tuple[int, int], tuple[str, str]] = {}
        self.applied: list[tuple[str, float, int, int]] = []
        self.restarts: list[tuple[int, int, int]] = []
        self.counts: Counter[str] = Counter()
        self.events: list[tuple[int, str]] = []
        self.event_s: dict[str, float] = {}
        self.starts, self.lost_records = 0, 0
        # a run begins with the next epoch: what is before it serves to start
        self.first = int(time.time() // scenario.epoch_s) + 1
        self.boot_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        self.wires = Wires(self.networks, scenario.hosts, scenario.seed)
        servers.lay_out(list(self.pages.values()))
        self.programs = [
            WebProgram(at, self.pages, OUTPUT / "tls", GROUPS / f"web{at}") for at in range(scenario.hosts)
        ]
        self.agents: dict[int, HostAgent] = {}
        self.barred: Callable[[Profile], str] = lambda profile: ""
        self.manager = self._manager()

    def _manager(self) -> LearningManager:
        scenario = self.scenario
        maps = MapOptions(scenario.seed, scenario.holdback, LEAST_CLIENTS, epoch_s=scenario.epoch_s, ports=(443,))
        grid = guarded(measured(), scenario.windows)
        if self.agents:
            grid = reachable_grid(self.barred, grid)
        self.starts += 1
        options = LoopOptions(grid, POLICY, maps, scenario.begin_with, budget=scenario.budget)
        maker = LoopMapMaker(options, scenario.key)
        return LearningManager(maker, lambda profile: self.barred(profile), self.starts)

    async def agent(self, number: int) -> None:
        """Start the agent of a server; all of them may do the same."""
        self.starts += 1
        made = HostAgent(number, self.scenario.driver, self.starts, self.manager, self.records, self.plans)
        self.barred = made.enforcement.barred
        await made.start()
        self.agents[number] = made

    def server_of(self, client: int) -> int:
        """Return the server of a client now: its own, or the next that is not lost."""
        hosts = self.scenario.hosts
        return next(at % hosts for at in range(client, client + hosts) if at % hosts not in self.lost)

    async def run(self) -> None:
        """Run all epochs."""
        scenario = self.scenario
        for program in self.programs:
            program.start()
        for number in range(scenario.hosts):
            await self.agent(number)
        given = (self.pages, scenario.hosts, self.program, scenario.seed, self.server_of, self.loads.append)
        visitors = [Visitors(network, *given) for network in self.networks]
        over = asyncio.Event()
        visiting = [asyncio.ensure_future(one.visit(over.is_set)) for one in visitors]
        shown, acted = -1, -1
        while (epoch := int(time.time() // scenario.epoch_s) - self.first) < scenario.epochs:
            if epoch > acted and epoch >= 0:
                await self.act(epoch)
                acted = epoch
            into_s = time.time() % scenario.epoch_s
            if epoch == scenario.restart and scenario.restart and into_s > scenario.epoch_s / 2:
                self.restart(epoch)
            self.turn()
            if epoch > shown:
                shown = epoch
                print(f"epoch {epoch}: {len(self.loads)} loads, {self.manager.learned} learned", flush=True)
            await asyncio.sleep(TURN_S)
            for one in visiting:
                if one.done():
                    one.result()
        over.set()
        while not all(one.done() for one in visiting):
            self.turn()
            await asyncio.sleep(TURN_S)
        await asyncio.gather(*visiting)
        # rows settle ten seconds after their beacon
        for _ in range(round(SETTLED_S / TURN_S)):
            await asyncio.sleep(TURN_S)
            self.turn()
        for agent in self.agents.values():
            assert agent.outcomes is not None
            self.counts += agent.outcomes.counts()
            self.lost_records += agent.records.lost_records()
            await agent.stop()
        self.manager.turn()
        for program in self.programs:
            program.kill()
        for every in visitors:
            every.close()
        self.wires.close()

    def turn(self) -> None:
        """Turn the manager and every agent."""
        self.manager.turn()
        for agent in self.agents.values():
            if (applied := agent.turn()) is not None:
                self.maps[applied.term, applied.version] = map_text(applied), applied.key.hex()
                self.applied.append((agent.name, _boot_s(), applied.term, applied.version))

    async def act(self, epoch: int) -> None:
        """Do what is planted in this epoch."""
        scenario = self.scenario
        if scenario.change and epoch == scenario.change:
            self.change()
            self.note(epoch, "change")
        if scenario.squeeze and epoch == scenario.squeeze:
            for network in self.networks:
                self.wires.put(network, SQUEEZED_BYTES)
            self.note(epoch, "squeeze")
        if scenario.lost and epoch == scenario.lost:
            await self.lose(1)
            self.note(epoch, "lost")
        if scenario.lost and epoch == scenario.lost + scenario.lost_for:
            self.programs[1].start()
            await self.agent(1)
            self.lost.clear()
            self.note(epoch, "back")

    def note(self, epoch: int, name: str) -> None:
        """Keep what was planted, and when."""
        self.events.append((epoch, name))
        self.event_s[name] = _boot_s()

    def change(self) -> None:
        """Give the networks of a continent other conditions."""
        self.networks = self.scenario.networks_in(self.scenario.change)
        for network in self.networks:
            if network.continent == CHANGED:
                self.wires.put(network)

    async def lose(self, number: int) -> None:
        """Kill a server and its agent: what was not reported is lost, and its lease ends by itself."""
        self.lost.add(number)
        self.programs[number].kill()
        await self.agents.pop(number).abandon()

    def restart(self, epoch: int) -> None:
        """Kill the manager and start it from its database."""
        if (epoch, "restart") in self.events:
            return
        self.note(epoch, "restart")
        before = self.manager.learned
        self.manager.kill()
        self.manager = self._manager()
        after = self.manager.learned
        self.restarts.append((self.manager.learning.core.term, before, after))
        for agent in self.agents.values():
            agent.follow(self.manager)

    def found(self) -> dict[str, Any]:
        """Return all that is judged."""
        rows = [list(map(_plain, _row(row))) for row in self.manager.store.every_row()]
        return {
            "first": self.first, "maps": list(self.maps.values()), "plans": self.plans,
            "loads": self.loads, "records": [(name, *_record(one)) for name, one in self.records], "rows": rows,
            "counts": dict(self.counts), "events": self.events, "event_s": self.event_s,
            "learned": self.manager.learned,
            "applied": self.applied, "restarts": self.restarts, "boot_s": self.boot_s,
            "lost_records": self.lost_records,
        }  # fmt: skip


def _boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, int | float | str | bool) else str(value)


def _row(row: Any) -> list[object]:
    return [row.agent, row.sequence, row.at_ns, row.site, row.prefix, row.unit, row.plt_ms, row.term, row.map_version,
            row.epoch, row.class_name, row.arm, row.profile, row.propensity, row.held, row.teaches, row.why_not,
            row.rtt_ms, row.bandwidth_kbps, row.loss]  # fmt: skip


def _record(record: OpenRecord | CloseRecord) -> tuple[str, list[object]]:
    if isinstance(record, OpenRecord):
        return "open", list(record)
    return "close", [*record.opened, record.end_ns, record.segments, record.retransmits, record.max_cwnd, record.ending]


def main(program: str, text: str) -> int:
    """Play, keep."""
    scenario = KernelScenario.of(text)
    FOLDER.mkdir(parents=True)
    DATABASE.parent.mkdir(exist_ok=True)
    if scenario.driver == "kmod":
        subprocess.run(["insmod", str(MODULE)], check=True)
    experiment = KernelExperiment(scenario, program)
    asyncio.run(experiment.run())
    (OUTPUT / "found.json").write_text(json.dumps(experiment.found()))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
