# SPDX-License-Identifier: MIT
"""What each visitor ought to have, and each row to state: computed from published maps alone, one client at a time.

A visit that nothing disturbed must be a row, exactly once, with the arm, the propensity and the map of its connection;
a lie that the client's own connection disproves must be none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from configtron.model.fleet import TURN_MARGIN_S, FleetMap, OutcomeRow
from configtron.model.tuning import Rules
from tests.support.fleet_hosts import Host
from tests.support.fleet_kernel import DrawingKernel, Half
from tests.support.fleet_pages import SETTLE_S, Visit
from tests.support.fleet_siphash import MASK, siphash, slice_of

if TYPE_CHECKING:
    from tests.support.fleet_world import World

WHOLE = 65_536
# Lies that no row may come of.
DISPROVED = ("fast", "slow", "clock", "guessed")
# s by which steps and frames delay what a process does.
SLACK_S = 0.7
# Profiles without settings: of this simulation's maps, and of staged ones.
SETS_NOTHING = ("off", "default")


class Expected(NamedTuple):
    """What a client ought to get. places: maps that give just this; epoch None: no plan was in force."""

    class_name: str
    arm: int | None
    held: bool
    profile: str
    propensity: float
    epoch: int | None
    places: frozenset[tuple[int, int]]


class PageJudge:
    """The rules of visits and their rows; what it finds goes to `World.wrong`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.expected: dict[int, Expected] = {}
        self._arms: dict[tuple[object, ...], tuple[object, ...]] = {}
        self._units: dict[tuple[str, str], tuple[object, ...]] = {}
        self.counts: Counter[str] = Counter()

    def _check(self, holds: bool, rule: str) -> None:
        self.world.check(holds, rule)

    # Connections.

    def visited(self, host: Host, visit: Visit, kernel: DrawingKernel | None, rules: Rules) -> None:
        """Check what a connection got."""
        if visit.begun is None or visit.page != 1:
            if visit.page != 1 and self.world.visitors.visits[visit.number - 1].number in self.expected:
                self.expected[visit.number] = self.expected[visit.number - 1]
            return
        found = self._drawn(host, visit, kernel) if kernel is not None else self._by_prefix(host, visit, rules)
        if found is None:
            return
        self.expected[visit.number] = found
        opened = visit.begun.opened
        if kernel is not None:
            got = (opened.class_name or "", opened.arm, opened.held, opened.profile, opened.epoch)
            want = (found.class_name, found.arm, found.held, found.profile, found.epoch)
            self._check(got == want, f"{host.name}: client {visit.client.address} has {got}, ought to have {want}")
        else:
            self._check(opened.profile == found.profile, f"{host.name}: {visit.client.prefix} has {opened.profile}")
        if host.applier is not None and found.epoch is not None:
            # An IPv4 address and an IPv6 /64 are one client each.
            drawing = host.applier.drawing
            # Without a map in force, a host that was killed in the midst of a turn may have prefixes that no other has.
            turned = (drawing.head.term, drawing.head.version) if drawing else host.name
            key = (host.draws, turned, found.places, found.epoch, visit.client.address)
            arm = (found.class_name, found.arm, found.held)
            self._check(self._arms.setdefault(key, arm) == arm, f"{visit.client.address} has two arms in one epoch")

    def _drawn(self, host: Host, visit: Visit, kernel: DrawingKernel) -> Expected | None:
        half = kernel.half
        if half is None:
            return None
        self._check(host.boot_ns() <= kernel.lease_ns, f"{host.name}: a plan without a lease gives arms")
        maps = self._maps_of(half)
        self._check(bool(maps), f"{host.name}: the plan in force is of no published map")
        name = kernel.rules.prefixes.get(visit.client.prefix, "")
        one = next(iter(maps.values()), None)
        if one is None:
            return None
        if not name:
            bands = [(band.up_to_us, band.class_name) for band in one.bands if band.class_name in half.mixes]
            name = next((band for up_to_us, band in bands if visit.client.rtt_us <= up_to_us), "")
        places = frozenset(maps)
        if name not in half.mixes:
            return Expected("", None, False, name, 1.0, half.plan.epoch, places)
        address = ip_address(visit.client.address)
        unit = int(address) >> 64 if address.version == 6 else 0xFFFF << 32 | int(address)
        return _given(one, name, unit, half.plan.epoch, places)

    def _maps_of(self, half: Half) -> dict[tuple[int, int], FleetMap]:
        """Return the published maps that have the key, the shares and the classes of a plan in force."""
        key = half.plan.key
        octets = key.first.to_bytes(8, "little") + key.second.to_bytes(8, "little")
        found = {}
        for (term, version, _), one in self.world.maps.items():
            mixes = {name: tuple(zip(mix.profiles, mix.weights, strict=True)) for name, mix in half.mixes.items()}
            inside = all(one.mixes.get(name) == mix for name, mix in mixes.items())
            if one.key == octets and one.holdback == half.plan.holdback and inside:
                found[term, version] = one
        return found

    def _by_prefix(self, host: Host, visit: Visit, rules: Rules) -> Expected | None:
        applier = host.applier
        if applier is None or applier.drawing is None or self.world.now >= host.kernel.until_s:
            return None
        head = applier.drawing.head
        drawn = self.world.maps.get((head.term, head.version, head.digest))
        if drawn is None:
            return None
        epoch, places = applier.drawing.epoch, frozenset({(head.term, head.version)})
        name = drawn.prefixes.get(visit.client.prefix, "")
        human = rules.prefixes.get(visit.client.prefix) == "human"
        if human or not drawn.mixes.get(name) or any(profile == "barred" for profile, _ in drawn.mixes[name]):
            return Expected("", None, False, "human" if human else "", 1.0, epoch, places)
        network = ip_address(visit.client.prefix.partition("/")[0])
        unit = int(network) >> 64 if network.version == 6 else 0xFFFF << 32 | int(network)
        found = _given(drawn, name, unit, epoch, places)
        sets = bool(found.profile) and bool(drawn.profiles[found.profile].settings)
        return found._replace(profile=found.profile if sets else "")

    # Rows.

    def rows(self, stored: Mapping[tuple[str, str, int], OutcomeRow]) -> None:
        """Check the rows of page loads that the manager stored, and that none is missing."""
        hosts, visits = self.world.hosts, {visit.site: visit for visit in self.world.visitors.visits}
        seen = set[str]()
        for row in stored.values():
            visit = visits.get(row.site)
            if visit is None:
                continue
            self._check(row.site not in seen, f"visit {visit.number} is stored twice")
            seen.add(row.site)
            self._row(row, visit)
        for host in hosts.values():
            for site, row in host.page_rows.items():
                if site in visits and site not in seen:
                    self._row(row, visits[site])
        for visit in visits.values():
            if self._is_clear(hosts[visit.host], visit):
                self.counts["clear"] += 1
                self._check(visit.site in hosts[visit.host].page_rows, f"visit {visit.number} of {visit.host} is lost")

    def _row(self, row: OutcomeRow, visit: Visit) -> None:
        what = f"row of visit {visit.number} at {visit.start_s:.1f} s"
        self._check(row.agent == visit.host and row.prefix == visit.client.prefix, f"{what}: agent or prefix")
        self._check(visit.lie not in DISPROVED, f"{what}: the lie {visit.lie!r} is an outcome")
        self._check(row.plt_ms is not None and abs(row.plt_ms - visit.plt_ms) < 1.1, f"{what}: {row.plt_ms} ms")
        into_s = visit.wall_ns / 1e9 % self.world.epoch_s
        near = min(into_s, self.world.epoch_s - into_s) < TURN_MARGIN_S - SLACK_S
        stepped = any(abs(at - visit.start_s) < TURN_MARGIN_S for at in self.world.hosts[visit.host].unsteady)
        if (near and not stepped) or visit.page != 1:
            self._check(not row.teaches, f"{what}: teaches, near a turn or on a used connection")
        if row.why_not == "undrawn":
            return
        expected = self.expected.get(visit.number)
        if expected is None:
            self._check(not row.teaches or (row.arm is None and not row.class_name), f"{what}: nothing was in force")
            return
        if not row.teaches and row.why_not in ("turn", "quarantined"):
            return
        draws = self.world.hosts[visit.host].draws
        got = (row.class_name, row.arm, row.held, row.profile if draws or row.class_name else "", row.epoch)
        want = (expected.class_name, expected.arm, expected.held,
                expected.profile if draws or expected.class_name else "", expected.epoch)  # fmt: skip
        if not draws and expected.profile == "" and row.profile in SETS_NOTHING:
            got = (*got[:3], "", got[4])
        self._check(got == want, f"{what}: has {got}, ought to have {want}")
        near = row.propensity is not None and abs(row.propensity - expected.propensity) < 1e-9
        self._check(near, f"{what}: propensity {row.propensity}, ought to be {expected.propensity}")
        place = (row.term, row.map_version)
        self._check(place in expected.places, f"{what}: of map {place}, ought to be of {sorted(expected.places)}")
        self.counts["rows checked"] += 1
        # One unit is one client in an epoch, on every server that has the key.
        if draws:
            who = (visit.client.address if ":" not in visit.client.address else visit.client.address[:19], row.epoch)
            self._check(self._units.setdefault((row.unit, ""), who) == who, f"{what}: its unit is of two clients")

    def _is_clear(self, host: Host, visit: Visit) -> bool:
        """Return whether nothing was planted that may cost this visit its row."""
        if visit.lie or visit.begun is None or visit.posted_s is None or not visit.logged:
            return False
        if visit.refused and (visit.host, visit.client.address) in self.world.visitors.flooded:
            return False
        if visit.number not in self.expected or host.lost_records() or not visit.is_up:
            return False
        until_s = visit.posted_s + SETTLE_S + SLACK_S
        if until_s > self.world.now or visit.client.lies:
            return False
        return not any(visit.start_s - SLACK_S <= at <= until_s for at in host.unsteady)


def _given(one: FleetMap, name: str, unit: int, epoch: int, places: frozenset[tuple[int, int]]) -> Expected:
    """Return what a map gives a unit of a class in an epoch."""
    mix, share = one.mixes[name], one.holdback / WHOLE
    if siphash(one.key, MASK, unit) & 0xFFFF < one.holdback:
        return Expected(name, None, True, "", share, epoch, places)
    arm = slice_of(mix, siphash(one.key, epoch, unit) & 0xFFFF)
    return Expected(name, arm, False, mix[arm][0], mix[arm][1] / WHOLE * (1 - share), epoch, places)
