# SPDX-License-Identifier: MIT
"""The closed loop on this kernel, for clients behind one gateway whose paths differ and change. JSON.

    one_gateway.py ebpf                   run it apart (tests/support/isolation.py)
    one_gateway.py configtron.ko          run it in a guest of the lab

Learner, maps, applier, journal and driver are those of `learn serve --local`; wall-clock time is handed in, so that
epochs pass as fast as rows come. Connections are real ones over a path of user space that delays each client's
packets (`support/impaired_path.py`): the kernel draws by prefix or by the handshake's round trip. Page load times are a
formula of round trip and profile: `wide` suits far clients, `plain` near ones.
"""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from configtron.db.agent_journal import AgentJournal
from configtron.db.fleet import FleetStore
from configtron.fleet.transport.curve_keys import signing_key
from configtron.learner.classes import Classes
from configtron.learner.loop_maker import LoopMapMaker
from configtron.learner.saved import Recipe
from configtron.linux import netns
from configtron.model.close_records import OpenRecord
from configtron.model.draw import draw, propensity, unit_of
from configtron.model.fleet import WHOLE, FleetMap, OutcomeRow
from configtron.model.grid import Grid
from configtron.model.nearest import point
from configtron.model.nouns import Context, Knob
from configtron.model.tuning import Place, Rules
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.enforcement import JournaledEnforcement
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.fleet.retuning import ClassRetuning
from configtron.service.learning.local_loop import GuardedMaker, LocalApplying, LocalLearning, LoopStep, drawn_from
from configtron.service.learning.serve_local import ServeOptions, loop_options
from configtron.service.lease.options import LeaseOptions
from configtron.tune.drivers import load as driver_of
from tests.support.dated_plans import dated_plan
from tests.support.impaired_path import Rig, rig
from tests.support.tune.kmod_net import device, ended, load
from tests.support.tune.left import GROUP, nothing_left, placed, serving
from tests.support.tune.sockets import OPTIONS
from tests.support.waiting import PATIENCE_S, until

PORT, NS = 8080, 10**9
# s of the wall clock that is handed in; rows of an epoch that others' clients send, and how many prefixes these have.
FIRST, EPOCH_S, ROWS, OTHERS, LEARNED = 2_000_000, 60, 160, 8, 2
# Round trips of others' clients, and one-way delays of the path, s: its own work adds some milliseconds, and between 0
# and 60 ms, and 60 and 240 ms, a busy machine changes no band's class.
NEAR_MS, FAR_MS, NEAR_S, FAR_S, LATE_S = 25.0, 120.0, 0.012, 0.06, 0.03
KBPS = 20_000.0
LOWAT = {"plain": 5_000, "wide": 50_000}
GATEWAY = ("10.99.0.11", "10.99.0.12")
LISTED = [f"10.98.0.{at + 1}" for at in range(24)]


# Default and two configurations that a socket shows by its notsent_lowat.
GRID = Grid((Knob("notsent_lowat", "tcp", "bytes", 0, (0, *LOWAT.values())),), ((0,), (1,), (2,)))
# A class of near clients and one of far ones.
CLASSES = Classes(("near", "far"), np.array([point(Context(KBPS, rtt_ms, 0.0)) for rtt_ms in (NEAR_MS, FAR_MS)]),
                  np.full((2, 3), 0.3), np.full(2, 100.0), np.full(2, 0.1))  # fmt: skip


class Hosted(NamedTuple):
    """Both halves of the loop and what they act on."""

    learning: LocalLearning
    applying: LocalApplying
    enforcement: JournaledEnforcement
    clock: list[float]

    def turn(self) -> LoopStep:
        """Turn both halves, as at the second that the clock shows."""
        now_ns = round(self.clock[0] * NS)
        self.learning.turn(self.clock[0], now_ns)
        return self.applying.turn(time.clock_gettime(time.CLOCK_BOOTTIME), now_ns)

    @property
    def map(self) -> FleetMap:
        """Return the map that arms are drawn from."""
        return self.applying.maps[drawn_from(self.applying.applier)[:2]]

    @property
    def epoch(self) -> int:
        return int(self.clock[0] // EPOCH_S)


@contextmanager
def hosted(folder: Path, name: str, place: Place) -> Iterator[Hosted]:
    """The loop of `learn serve --local` with a small grid, on a driver that draws."""
    lease = LeaseOptions(folder / "loop.db", name, place)
    options = ServeOptions(lease, folder / "keys", "mab_nc", 0.0, EPOCH_S, least_clients=20, begin_with=ROWS,
                           ports=(PORT,), budget=1.0)  # fmt: skip
    key, clock, driver = signing_key(options.keys), [float(FIRST * EPOCH_S + 1)], driver_of(name, place)
    with AgentJournal(lease.database) as journal, FleetStore(lease.database) as store:
        enforcement = JournaledEnforcement(lease, journal, driver)
        made = loop_options(options, GRID, (), frozenset(), enforcement.draws)
        # In one thread with the learner, the lease is not renewed each second.
        made = replace(made, map=replace(made.map, lease_s=60.0))
        maker = LoopMapMaker(made, bytes(range(16)))
        # Classes as an earlier start left them: making them imports what takes seconds.
        maker.learner.recipe_ = Recipe(options.policy, made.grid, ("site",), CLASSES, 1, 0, budget=made.budget)
        maker.learner.policy = maker.learner.recipe_.make()
        core = ManagerCore(store, GuardedMaker(maker, enforcement.barred), key, "local/test", round(clock[0] * NS))
        applier = Applier(enforcement, key.verify_key, Rules())
        try:
            learning = LocalLearning(core, maker, "boot")
            applying = LocalApplying(learning, applier, key.verify_key, ClassRetuning(applier, enforcement))
            yield Hosted(learning, applying, enforcement, clock)
        finally:
            enforcement.release()


class World:
    """Rows of clients, synthetic ones and those of real connections, in one sequence."""

    def __init__(self, here: Hosted) -> None:
        self.here, self.rng, self.sequence = here, np.random.default_rng(5), 0

    def row(self, address: str, rtt_ms: float, class_name: str, arm: int | None) -> OutcomeRow:
        """Return the outcome of a load by what was drawn for it: far clients gain by `wide`, near ones by `plain`."""
        fleet_map, epoch, self.sequence = self.here.map, self.here.epoch, self.sequence + 1
        profile, chance = "", None
        if class_name:
            dated = dated_plan(fleet_map, epoch)
            chance = propensity(dated.plan, dated.mixes[class_name], arm)
            profile = "" if arm is None else dated.mixes[class_name].profiles[arm]
        lowat = lowat_asked(fleet_map, profile) if profile else 0
        gain = 0.5 if lowat == LOWAT["wide" if rtt_ms > 30.0 else "plain"] else 1.0 if not lowat else 1.2
        made = (100.0 + 10.0 * rtt_ms) * gain * float(np.exp(0.1 * self.rng.standard_normal()))
        return OutcomeRow("local", "boot", self.sequence, round(self.here.clock[0] * NS), "site", prefix_of(address),
                          f"{unit_of(address):010x}{epoch:06x}", made, fleet_map.term, fleet_map.version, epoch,
                          class_name, arm, profile, chance, rtt_ms=rtt_ms, bandwidth_kbps=KBPS, loss=0.0)  # fmt: skip

    def others(self) -> list[OutcomeRow]:
        """Return an epoch's rows of other prefixes, half of them far, drawn as the kernel would."""
        fleet_map, rows = self.here.map, []
        dated = dated_plan(fleet_map, self.here.epoch)
        for at, by in enumerate(np.exp(0.1 * self.rng.standard_normal(ROWS))):
            address = f"198.51.{at % OTHERS}.{at // OTHERS + 1}"
            rtt_ms = float((FAR_MS if at % OTHERS >= OTHERS // 2 else NEAR_MS) * by)
            bands = (band.class_name for band in fleet_map.bands if rtt_ms * 1000 <= band.up_to_us)
            name = fleet_map.prefixes.get(prefix_of(address)) or next(bands, "")
            arm = draw(dated.plan, dated.mixes[name], unit_of(address)).arm if name else None
            rows.append(self.row(address, rtt_ms, name, arm))
        return rows

    def next_epoch(self, rows: Sequence[OutcomeRow]) -> list[LoopStep]:
        """Learn rows, have the next map made ten seconds before its epoch, and let the epoch begin."""
        here, steps = self.here, []
        here.learning.rows(rows)
        steps.append(here.turn())
        end = (here.epoch + 1) * EPOCH_S
        for second in (end - 9.0, end + 1.0):
            here.clock[0] = second
            steps += [here.turn(), here.turn()]
        return steps


def prefix_of(address: str) -> str:
    return f"{address.rpartition('.')[0]}.0/24"


def lowat_asked(fleet_map: FleetMap, profile: str) -> int:
    return int(str(dict(fleet_map.profiles[profile].settings).get("notsent_lowat", 0)))


class Visitors:
    """Connections of clients behind the gateway to a listener in the driver's control group."""

    def __init__(self, path: Rig, here: Hosted) -> None:
        self.path, self.here = path, here
        # Records have the client's port and no address: each connection has a port of its own.
        self.ports = count(20_000)
        with netns.inside(path.names["server"]):
            self.listener = socket.create_server(("10.99.0.2", PORT), backlog=64)
        self.listener.settimeout(PATIENCE_S)

    def connect(self, addresses: Sequence[str]) -> dict[str, Connected]:
        """Return each client's socket, the server's, and what the kernel recorded; all handshakes at once."""
        clients, records = {}, dict[int, OpenRecord]()
        for address in addresses:
            with netns.inside(self.path.names["client"]):
                one = socket.socket()
            one.bind((address, next(self.ports)))
            one.setblocking(False)
            one.connect_ex(("10.99.0.2", PORT))
            clients[one.getsockname()[1]] = address, one
        accepted = (self.listener.accept() for _ in addresses)
        served = {port: one for one, (_, port) in accepted}

        def recorded() -> bool:
            found = self.here.enforcement.drawing().records()
            records.update((one.remote_port, one) for one in found if isinstance(one, OpenRecord))
            return len(records) >= len(addresses)

        until(recorded)
        return {address: (one, served[port], records[port]) for port, (address, one) in clients.items()}


# A client's socket, the server's, the kernel's record.
Connected = tuple[socket.socket, socket.socket, OpenRecord]


def lowat_of(served: socket.socket) -> int:
    return served.getsockopt(*OPTIONS["notsent_lowat"])


@contextmanager
def gateway() -> Iterator[Rig]:
    """The path, and the addresses of all clients at its one end."""
    with rig(delay_s=NEAR_S) as path:
        for address in (*GATEWAY, *LISTED):
            subprocess.run(
                ["ip", "-n", path.names["client"], "addr", "add", f"{address}/16", "dev", "tun0"], check=True
            )
        subprocess.run(["ip", "-n", path.names["server"], "route", "add", "10.98.0.0/24", "dev", "tun0"], check=True)
        yield path


def by_ebpf(folder: Path) -> dict[str, Any]:
    # The mount namespace is its own: names of other programs' network namespaces are neither seen nor swept, nor ours.
    Path("/run/netns").mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run/netns"], check=True)
    with gateway() as path:
        place = Place(netns=path.names["server"], cgroup=GROUP)
        with placed(place), serving(), hosted(folder, "ebpf", place) as here:
            answer = played(here, path)
    return {**answer, "nothing left": nothing_left()}


def by_kmod(folder: Path, module: str) -> dict[str, Any]:
    # On the guest's console stands nothing but the JSON.
    logging.disable(logging.WARNING)
    load(module)
    with gateway() as path:
        with hosted(folder, "kmod", Place(netns=path.names["server"])) as here:
            answer = played(here, path)
        with device(path.names["server"]) as left:
            answer["nothing left"] = not left.profiles() and not left.dump()
    return answer | ended()


def played(here: Hosted, path: Rig) -> dict[str, Any]:
    world, visitors = World(here), Visitors(path, here)
    here.turn()
    for _ in range(LEARNED):
        world.next_epoch(world.others())
    return {**two_bands(visitors, path), **new_network(world, visitors, path)}


def best_of(fleet_map: FleetMap, class_name: str) -> tuple[int, float]:
    """Return the notsent_lowat that most clients of a class get, and their share."""
    name, parts = max(fleet_map.mixes[class_name], key=lambda one: one[1])
    return lowat_asked(fleet_map, name), parts / WHOLE


def in_time(one: OpenRecord, delay_s: float) -> bool:
    """Whether a handshake shows the path's delay: on a busy machine some are late."""
    return 2 * delay_s <= (one.rtt_us or 0) / 1e6 < 2 * delay_s + LATE_S


def two_bands(visitors: Visitors, path: Rig) -> dict[str, Any]:
    """Two clients of one prefix, one near and one far; then the far one comes near."""
    fleet_map, found = visitors.here.map, {}
    near, far = GATEWAY
    for when, delays in (("apart", {near: NEAR_S, far: FAR_S}), ("after", {near: NEAR_S, far: NEAR_S})):
        path.delays = delays
        for _ in range(20):
            begun = time.monotonic()
            ends = visitors.connect(GATEWAY)
            seconds = time.monotonic() - begun
            if all(in_time(ends[address][2], delay) for address, delay in delays.items()):
                break
            close(ends)
        found[when] = [
            {"prefix": one.prefix, "band": one.band, "class": one.class_name, "lowat": lowat_of(served),
             "best": best_of(fleet_map, one.class_name or ""), "listed": one.prefix in fleet_map.prefixes,
             "seconds": seconds}
            for _, served, one in (ends[address] for address in GATEWAY)
        ]  # fmt: skip
        close(ends)
    return found


def new_network(world: World, visitors: Visitors, path: Rig) -> dict[str, Any]:
    """A listed prefix whose network changes: its outcomes until its class does, and its open connections."""
    here, prefix = world.here, "10.98.0.0/24"

    def best() -> tuple[str, int, float]:
        name = here.map.prefixes.get(prefix, "")
        return name, *best_of(here.map, name)

    path.delays = dict.fromkeys(LISTED, NEAR_S)
    world.next_epoch([*world.others(), *loads(world, visitors)])
    ends = visitors.connect([*LISTED, GATEWAY[0]])
    answer: dict[str, Any] = {"before": best(), "begun": lowats(ends), "moved": [], "epochs": 0}
    path.delays = dict.fromkeys(LISTED, FAR_S)
    changed_s = here.clock[0]
    while not answer["moved"] and answer["epochs"] < 3:
        some = world.next_epoch([*world.others(), *loads(world, visitors)])
        moved = [one for step in some for one in step.moved if one.prefix == prefix]
        answer["moved"] = [(one.before, one.now, one.outcomes, one.seconds) for one in moved]
        answer["retuned"] = [step.retuned.text for step in some if step.retuned]
        answer["epochs"] += 1
    fresh = visitors.connect(LISTED)
    answer |= {"now": best(), "virtual seconds": here.clock[0] - changed_s, "given": lowats(ends),
               "fresh": lowats(fresh), "left out": dict(here.learning.maker.learner.left_out_)}  # fmt: skip
    close(fresh)
    close(ends)
    return answer


def lowats(ends: dict[str, Connected]) -> dict[str, int]:
    return {address: lowat_of(served) for address, (_, served, _) in ends.items()}


def loads(world: World, visitors: Visitors) -> list[OutcomeRow]:
    """Return the outcomes of a load of each listed client, by the kernel's record of a connection that was not late."""
    rows: dict[str, OutcomeRow] = {}
    for _ in range(40):
        ends = visitors.connect([address for address in LISTED if address not in rows])
        for address, (_, _, one) in ends.items():
            if in_time(one, visitors.path.delays[address]):
                rows[address] = world.row(address, (one.rtt_us or 0) / 1000, one.class_name or "", one.arm)
        close(ends)
        if len(rows) == len(LISTED):
            break
    return sorted(rows.values(), key=lambda row: row.sequence)


def close(ends: dict[str, Connected]) -> None:
    for client, served, _ in ends.values():
        client.close()
        served.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="gateway-") as made:
        print(json.dumps(by_ebpf(Path(made)) if sys.argv[1] == "ebpf" else by_kmod(Path(made), sys.argv[1])))
