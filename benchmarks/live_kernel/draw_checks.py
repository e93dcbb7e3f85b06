# SPDX-License-Identifier: MIT
"""Check a guest's recorded run outside the guest: every connection against the draw in user space, and clients' gain.

Question   Did the kernels draw as model/draw.py does? Did each client keep its arm for an epoch? Is every row correct?
           Did tuned clients' pages load faster than held-back clients'?
Method     A connection is matched to its page load by prefix, the client's port and time; the load knows its client.
           Class, arm, profile and holdback are computed again from the map and the epoch. Page load times are as
           the client measured them, not as the learner has them.
Fails as   `Checks`: connections and rows that differ, each with an example.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.live.judge import Judged
from benchmarks.live_kernel.scenario import KernelScenario
from benchmarks.live_kernel.visits import Visited
from configtron.intake.pageloads.plan_book import DatedPlan, unit
from configtron.learner.map_text import map_of_text
from configtron.model.close_records import OpenRecord
from configtron.model.draw import draw, is_held, unit_of
from configtron.model.fleet import FleetMap
from tests.support.dated_plans import dated_plan

# Seconds by which a connection may start before or after its load, whose times come from another clock reading.
SLACK_S = 0.5
# Examples of differences to print.
EXAMPLES = 5


@dataclass
class Checks:
    """Results of the comparison with the draw.

    connections, rows  compared; drawn: connections with a class; units: clients in an epoch
    wrong              differences by kind; examples: some of them
    clients_mixed      clients of listed prefixes with connections of two arms within an epoch
    banded_mixed       the same of clients of unlisted prefixes, whose class is by the handshake's round trip
    loads_mixed        page loads of both
    unmatched          connections without a page load
    """

    connections: int = 0
    drawn: int = 0
    rows: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    loads_mixed: int = 0
    clients_mixed: int = 0
    banded_mixed: int = 0
    units: int = 0
    unmatched: int = 0

    def add(self, kind: str, words: str) -> None:
        """Count a difference."""
        self.wrong[kind] += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(f"{kind}: {words}")


@dataclass(frozen=True)
class RecordedRun:
    """A run that the guest recorded, in the product's types."""

    scenario: KernelScenario
    loads: list[Visited]
    opened: list[tuple[str, OpenRecord]]
    closed: list[tuple[str, OpenRecord, list[Any]]]
    plans: dict[tuple[int, int, int], DatedPlan]
    in_force: dict[tuple[str, int], list[tuple[int, int]]]
    applied: dict[str, list[tuple[float, tuple[int, int]]]]
    maps: dict[tuple[int, int], FleetMap]
    rows: list[dict[str, Any]]
    raw: dict[str, Any]

    def address(self, load: Visited) -> str:
        """Return the address of a load's client."""
        return self.scenario.access_networks()[load.network].address(load.client)


COLUMNS = ("agent", "sequence", "at_ns", "site", "prefix", "unit", "plt_ms", "term", "version", "epoch", "class_name",
           "arm", "profile", "propensity", "held", "teaches", "why_not", "rtt_ms", "bandwidth_kbps",
           "loss")  # fmt: skip


def parse_run(scenario: KernelScenario, found: dict[str, Any]) -> RecordedRun:
    """Parse the JSON of a guest's run."""
    kept_maps = (map_of_text(text, bytes.fromhex(key)) for text, key in found["maps"])
    maps = {(one.term, one.version): one for one in kept_maps}
    in_force: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    plans: dict[tuple[int, int, int], DatedPlan] = {}
    for name, term, version, epoch in found["plans"]:
        in_force[name, epoch].append((term, version))
        plans[term, version, epoch] = dated_plan(maps[term, version], epoch)
    applied: dict[str, list[tuple[float, tuple[int, int]]]] = defaultdict(list)
    for name, at_s, term, version in found["applied"]:
        applied[name].append((at_s, (term, version)))
    width = len(OpenRecord._fields)
    opened = [(name, OpenRecord(*row)) for name, kind, row in found["records"] if kind == "open"]
    closed = [(name, OpenRecord(*row[:width]), row[width:]) for name, kind, row in found["records"] if kind == "close"]
    loads = [Visited._make([*row[:-1], tuple(row[-1])]) for row in found["loads"]]
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in found["rows"]]
    return RecordedRun(scenario, loads, opened, closed, plans, dict(in_force), dict(applied), maps, rows, found)


class LoadFinder:
    """Finds the page load of a connection by prefix, the client's port and time."""

    def __init__(self, run: RecordedRun) -> None:
        prefixes = [network.prefix for network in run.scenario.access_networks()]
        self._by_port: dict[tuple[str, str, int], list[int]] = defaultdict(list)
        self._loads = run.loads
        for at, load in enumerate(run.loads):
            for port in load.ports:
                self._by_port[f"web{load.server}", prefixes[load.network], port].append(at)

    def of(self, name: str, record: OpenRecord) -> int | None:
        """Return the index of a connection's load; None: it has none."""
        start_s = record.start_ns / 1e9
        for at in self._by_port.get((name, record.prefix, record.remote_port), ()):
            load = self._loads[at]
            if load.begin_s - SLACK_S <= start_s <= load.end_s + SLACK_S:
                return at
        return None


def check_draws(run: RecordedRun) -> Checks:
    """Compare every connection to port 443, and every row, with the draw in user space."""
    found, finder = Checks(), LoadFinder(run)
    of_load: dict[tuple[int, int], set[tuple[str | None, int | None]]] = defaultdict(set)
    of_unit: dict[tuple[int, str], set[tuple[str | None, int | None]]] = defaultdict(set)
    banded: set[tuple[int, str]] = set()
    for name, record in run.opened:
        if record.local_port != 443:
            continue
        found.connections += 1
        at = finder.of(name, record)
        if at is None:
            found.unmatched += 1
            continue
        address = run.address(run.loads[at])
        if record.epoch is None:
            continue
        of_load[at, record.epoch].add((record.class_name, record.arm))
        of_unit[record.epoch, address].add((record.class_name, record.arm))
        if record.band:
            banded.add((record.epoch, address))
        _check_connection(found, run, name, record, address)
    found.units = len(of_unit)
    mixed = {one for one, arms in of_unit.items() if len(arms) > 1}
    found.clients_mixed, found.banded_mixed = len(mixed - banded), len(mixed & banded)
    found.loads_mixed = sum(len(arms) > 1 for arms in of_load.values())
    _check_rows(found, run)
    return found


def _check_connection(found: Checks, run: RecordedRun, name: str, record: OpenRecord, address: str) -> None:
    """Compare a connection with the draw of the plans that its server had in that epoch. Prefixes and mixes are of the
    plan's map."""
    epoch = record.epoch or 0
    plans = [run.plans[term, version, epoch] for term, version in run.in_force.get((name, epoch), ())]
    facts = (record.class_name, record.arm, record.held, record.profile)
    expected = [expected_draw(plan, address, class_of(run, record, plan)) for plan in plans]
    found.drawn += record.class_name is not None
    if facts not in expected:
        found.add("connection", f"{address} in epoch {epoch} at {name}: {facts}, by the plan {expected}")


def expected_draw(plan: DatedPlan, address: str, name: str) -> tuple[str | None, int | None, bool, str]:
    """Return (class, arm, whether held back, profile) of a client of a class by a plan."""
    mix = plan.mixes.get(name)
    if mix is None:
        return None, None, False, ""
    now = draw(plan.plan, mix, unit_of(address))
    return name, now.arm, now.held, "" if now.arm is None else mix.profiles[now.arm]


def class_of(run: RecordedRun, record: OpenRecord, plan: DatedPlan) -> str:
    """Return the class of a connection's client by a plan: by its prefix if that is listed, else by the round trip of
    its handshake, which the record has."""
    name = run.maps[plan.term, plan.map_version].prefixes.get(record.prefix, "")
    banded = next((one for up_to, one in plan.plan.bands if 0 < (record.rtt_us or 0) <= up_to), "")
    return name if name in plan.mixes else banded


def _check_rows(found: Checks, run: RecordedRun) -> None:
    """Compare every row with the draw for its client, which is found by the unit."""
    clients = {network.address(client) for network in run.scenario.access_networks()
               for client in range(network.clients)}  # fmt: skip
    units: dict[tuple[int, bytes], dict[str, str]] = {}
    seen: set[tuple[str, int, int]] = set()
    for row in run.rows:
        found.rows += 1
        epoch = row["epoch"]
        if not row["version"]:
            continue
        plan = run.plans.get((row["term"], row["version"], epoch))
        of_key = (epoch, b"" if plan is None else plan.unit_key)
        if plan is not None and of_key not in units:
            units[of_key] = {unit(plan.unit_key, packed(address), epoch): address for address in clients}
        address = units.get(of_key, {}).get(row["unit"], "")
        if not address or plan is None:
            found.add("row", f"{row} has no known client or plan")
            continue
        mix = plan.mixes.get(row["class_name"])
        now = draw(plan.plan, mix, unit_of(address)) if mix else None
        expected = (now.arm, now.held) if now else (None, False)
        chance = now.propensity if now else 1.0
        if (row["arm"], row["held"]) != expected:
            found.add("row", f"{address} in epoch {epoch}: {row['arm'], row['held']}, by the plan {expected}")
        if row["propensity"] != chance:
            found.add("propensity", f"{address} in epoch {epoch}: {row['propensity']}, by the plan {chance}")
    for row in run.rows:
        place = row["agent"], row["at_ns"], row["unit"]
        if place in seen:
            found.add("twice", f"{place}")
        seen.add(place)


def packed(address: str) -> bytes:
    """Return the bytes of an IPv4 address."""
    return bytes(map(int, address.split(".")))


@dataclass(frozen=True, slots=True)
class ServedLoad:
    """A page load with its client's arm. epoch: from 0, the first of the run; held: the client is held back;
    profile: "" for Default."""

    visited: Visited
    client: int
    continent: str
    epoch: int
    held: bool
    profile: str
    class_name: str


def served_loads(run: RecordedRun) -> list[ServedLoad]:
    """Return every load with its client's arm; a load during a change of epoch has the plan that it began with."""
    networks = run.scenario.access_networks()
    numbers = {network.address(client): number for number, (network, client) in enumerate(
        (network, client) for network in networks for client in range(network.clients))}  # fmt: skip
    finder, first = LoadFinder(run), dict[int, OpenRecord]()
    for name, record in run.opened:
        if record.local_port == 443 and record.epoch is not None and (at := finder.of(name, record)) is not None:
            first.setdefault(at, record)
    found = []
    some = next(iter(run.plans.values()))
    for at, load in enumerate(run.loads):
        address = run.address(load)
        began = first.get(at)
        held = bool(is_held(some.plan, np.array([unit_of(address)], dtype=np.uint64))[0])
        wall_s = run.raw["boot_s"] + load.begin_s
        epoch = int(wall_s // run.scenario.epoch_s) - run.raw["first"]
        profile, name = ("", "") if began is None else (began.profile or "", began.class_name or "")
        found.append(ServedLoad(load, numbers[address], networks[load.network].continent, epoch, held, profile, name))
    return found


def load_columns(loads: list[ServedLoad], continents: tuple[str, ...], worst_ms: float) -> Judged:
    """Return loads as columns; a failed load counts as `worst_ms`."""
    return Judged(
        np.array([one.client for one in loads]),
        np.array([continents.index(one.continent) for one in loads]),
        np.array([worst_ms if one.visited.plt_ms is None else one.visited.plt_ms for one in loads]),
        np.array([int(one.held) for one in loads]),
        np.array([one.epoch for one in loads]),
    )
