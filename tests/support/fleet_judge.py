# SPDX-License-Identifier: MIT
"""Invariants of the fleet under any order of faults, checked from outside: kernels at each step, databases last."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING

from configtron.db.end_state_rows import EndStateRows
from configtron.db.fleet import UNKNOWN_MAP, FleetStore
from configtron.model.fleet import END_STATE, FleetMap, OutcomeRow
from configtron.service.fleet.manager_core import ManagerCore
from tests.support.fleet_drawing import DrawingHost
from tests.support.fleet_hosts import BASE, HUMAN, START_NS, Host
from tests.support.fleet_lines import unnamed
from tests.support.fleet_page_judge import PageJudge
from tests.support.fleet_pages import Visit
from tests.support.fleet_siphash import MASK, siphash, slice_of

if TYPE_CHECKING:
    from tests.support.fleet_world import World

# Term, version and digest of a map.
Place = tuple[int, int, bytes]
# s; the longest lease, and the time in which a manager reads its allow-list and frames arrive.
LEASE_S, NOTICE_S = 3.0, 2.0


class Judge:
    """Checks the invariants of one simulated world; violations go to `World.wrong`."""

    def __init__(self, world: World) -> None:
        self.world, self._known = world, dict[tuple[object, ...], dict[str, str]]()
        self.pages = PageJudge(world)
        self._of_epoch, self._skews = dict[tuple[str, bytes, int], Place](), dict[str, int]()

    def _check(self, holds: bool, rule: str) -> None:
        self.world.check(holds, rule)

    def kernels(self) -> None:
        for host in self.world.hosts.values():
            rules, applier = host.kernel.in_force(self.world.now), host.applier
            self._check(rules.prefixes.get(HUMAN) == "human", f"{host.name}: a human's prefix was replaced")
            if host.core is None and self.world.now - host.dead_since > LEASE_S:
                self._check(rules == BASE, f"{host.name}: rules outlive a dead agent's lease")
            if applier is None or host.kernel.frozen or rules == BASE:
                continue
            place = applier.held[:2]
            if place == (0, 0):
                # Given up: nothing may renew it.
                self._check(
                    host.kernel.until_s <= self.world.now + 3.0, f"{host.name}: a lease without a map is renewed"
                )
                continue
            self._check(applier.held in self.world.maps, f"{host.name}: map {place} was never published")
            if applier.held in self.world.maps and applier.drawing is not None:
                head = applier.drawing.head
                turned = (head.term, head.version)
                self._check(turned >= host.kernel.place, f"{host.name}: map {turned} after {host.kernel.place}")
                host.kernel.place = max(host.kernel.place, turned)
                late = host.wall_ns() // 1_000_000_000 // head.epoch_s != applier.drawing.epoch
                self._check(not late, f"{host.name}: epoch {applier.drawing.epoch} is over")
                drawn = (head.term, head.version, head.digest)
                expected = self._expected(drawn, applier.drawing.epoch, host.draws)
                self._check(rules.prefixes == expected, f"{host.name}: prefixes are not those of map {turned}")
                self._arms(host, drawn, head.key, applier.drawing.epoch)

    def _arms(self, host: Host, drawn: Place, key: bytes, epoch: int) -> None:
        """No client changes its arm within an epoch: under one key, an epoch has one map."""
        full = self.world.now < host.full_until_s
        if full or self._skews.setdefault(host.name, host.skew_ns) != host.skew_ns:
            # Its clock was stepped: an epoch may come again. A full disk: the turn is not journaled.
            self._skews[host.name] = host.skew_ns
            self._of_epoch = {at: one for at, one in self._of_epoch.items() if at[0] != host.name}
        if full:
            return
        before = self._of_epoch.setdefault((host.name, key, epoch), drawn)
        self._check(before == drawn, f"{host.name}: epoch {epoch} is drawn from map {before[:2]}, then {drawn[:2]}")

    def _expected(self, drawn: Place, epoch: int, draws: bool) -> dict[str, str]:
        if (drawn, epoch, draws) not in self._known:
            self._known[drawn, epoch, draws] = _drawn_one_by_one(self.world.maps[drawn], epoch, draws)
        return self._known[drawn, epoch, draws]

    def visited(self, host: Host, visit: Visit) -> None:
        """Check what a visitor's connection got."""
        kernel = host.draw if isinstance(host, DrawingHost) else None
        self.pages.visited(host, visit, kernel, host.kernel.in_force(self.world.now))

    def lines(self) -> None:
        """Check that the log reports each fault, and that the fleet recovered from each."""
        log, world = self.world.log.lines, self.world
        for one in world.recovery.open:
            self._check(False, f"{one.kind} of {one.process} at {one.at_s:.1f} s has not come to its end")
        for why in unnamed(world):
            self._check(False, why)
        for host in world.hosts.values():
            mine = [line for line in log if line.process == host.name]
            anew = sum("the agent was started anew" in line.text for line in mine)
            kept = sum(had_map for _, had_map in host.begun)
            killed = sum(
                one.kind == "killed between writes" and one.process == host.name for one in world.recovery.every
            )
            self._check(kept - killed <= anew <= kept,
                        f"{host.name} was started {kept} times with a kept map, {anew} lines name it")  # fmt: skip
            full = any(no_room for _, _, no_room in host.refusals)
            lines = sum("no room on the disk: new outcomes" in line.text for line in mine)
            most = len({start for start, _, _ in host.refusals}) + len(host.refusals)
            # One that was killed between the row and the line has none.
            named = lines > 0 or not full or len(host.begun) > 1
            self._check(named and lines <= most * full, f"{host.name}: {lines} lines name its full disk")

    def end(self) -> None:
        core = self.world.managers[0].core
        if core is None or core.session.current is None:
            self._check(False, "the manager does not run at the end")
            return
        stored: dict[tuple[str, str, int], OutcomeRow] = {}
        for row in core.store.every_row():
            name = (row.agent, row.boot, row.sequence)
            self._check(name not in stored, f"row {name} is stored twice")
            stored[name] = row
        elsewhere = set()
        for manager in self.world.managers[1:]:
            with FleetStore(manager.path) as store:
                elsewhere = {(row.agent, row.boot, row.sequence) for row in store.every_row()}
        ends = {end for manager in self.world.managers for end in _ends(manager.path)}
        for host in self.world.hosts.values():
            elsewhere |= {name for name, row in host.taken.items() if row.failure == END_STATE and _end(row) in ends}
        self._check(core.store.latest_term()[0] == core.term, "the manager's term is not the latest")
        for host in self.world.hosts.values():
            self._judge_host(host, core, stored, elsewhere)
        self.pages.rows(stored)
        taken = {name for host in self.world.hosts.values() for name in host.taken}
        # Rows of a process that was killed after the write and before it returned: stored, which is right.
        extra = [name for name in stored if name not in taken]
        self._check(
            len(extra) <= 5 * sum(host.starts for host in self.world.hosts.values()),
            f"rows that no agent sent: {extra[:3]}",
        )

    def _same(self, stored: OutcomeRow, sent: OutcomeRow) -> bool:
        """Return whether a row is as it was sent. One of a map that this database lacks does not teach, nor one that a
        clock set an hour ahead of the manager's has dated: worlds last less than the minute that is allowed."""
        set_back = any(manager.skew_ns < 0 for manager in self.world.managers)
        ahead_ns = max(sent.at_ns, sent.epoch * self.world.epoch_s * 10**9) - START_NS
        if stored.why_not == UNKNOWN_MAP or (stored.why_not == "dated-ahead" and (set_back or ahead_ns > 60 * 10**9)):
            sent = sent._replace(teaches=False, why_not=stored.why_not)
        return stored == sent

    def _judge_host(self, host: Host, core: ManagerCore, stored: Mapping[tuple[str, str, int], OutcomeRow],
                    elsewhere: set[tuple[str, str, int]]) -> None:  # fmt: skip
        if host.core is None or host.applier is None:
            self._check(False, f"{host.name} does not run at the end")
            return
        for name in host.taken.keys() & stored.keys():
            self._check(self._same(stored[name], host.taken[name]), f"row {name} is not as it was sent")
        missing = host.taken.keys() - stored.keys() - elsewhere
        dropped = host.core.spool.dropped
        waiting = host.core.spool.waiting
        if host.revoked_at is not None:
            self._check(len(missing) <= dropped + waiting, f"{host.name}: {len(missing)} rows lost, {waiting} wait")
            since_s = host.revoked_at + NOTICE_S
            late = [name for name in stored if host.taken_s.get(name, 0.0) > since_s]
            self._check(not late, f"{host.name}: rows were stored after its key was revoked")
            return
        self._check(waiting == 0, f"{host.name}: {waiting} rows still wait")
        self._check(len(missing) <= dropped, f"{host.name}: {len(missing)} rows lost, {dropped} counted")
        assert core.session.current is not None
        place = core.session.current.place
        self._check(host.applier.held[:2] == place, f"{host.name}: holds {host.applier.held[:2]}, current is {place}")
        self._check(host.kernel.in_force(self.world.now) == host.applier.rules or host.applier.rules == BASE,
                   f"{host.name}: the kernel has other rules than the applier")  # fmt: skip


def _ends(database: Path) -> set[tuple[float, str]]:
    """Return prefix and round trip of the stored connections that ended: agents' clocks may be hours ahead."""
    with EndStateRows(database) as store:
        every = store.every()
    return set(zip(every.min_rtt_ms.tolist(), every.prefix.tolist(), strict=True))


def _end(row: OutcomeRow) -> tuple[float, str]:
    return row.more["min_rtt_ms"], row.prefix


def _drawn_one_by_one(drawn: FleetMap, epoch: int, draws: bool) -> dict[str, str]:
    """Return prefix -> profile by a draw of the judge's own, one prefix at a time; class, where the kernel draws."""
    found = {HUMAN: "human"}
    for prefix, name in drawn.prefixes.items():
        mix = drawn.mixes.get(name, ())
        if not mix or prefix in (HUMAN, "192.0.2.128/25") or any(profile == "barred" for profile, _ in mix):
            continue
        if draws:
            found[prefix] = name
            continue
        network = ip_network(prefix).network_address
        unit = int(network) >> 64 if network.version == 6 else 0xFFFF << 32 | int(network)
        held_back = siphash(drawn.key, MASK, unit) & 0xFFFF < drawn.holdback
        profile = "" if held_back else mix[slice_of(mix, siphash(drawn.key, epoch, unit) & 0xFFFF)][0]
        if profile and drawn.profiles[profile].settings:
            found[prefix] = profile
    return found
