# SPDX-License-Identifier: MIT
"""The hosts of a simulated fleet: kernels and disks that outlive processes, and the product's processes on them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nacl.signing import SigningKey

from configtron.db.fleet import FleetStore
from configtron.fleet.manager_session import SendTo
from configtron.fleet.map_document import SignedMap
from configtron.fleet.messages import AgentHello
from configtron.intake.pageloads.intake import BEACON_PATH
from configtron.model.close_records import CloseRecord, OpenRecord
from configtron.model.draw import Mix, Plan
from configtron.model.errors import Refused, Unwritten
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Rules
from configtron.service.fleet.agent_core import AgentCore
from configtron.service.fleet.agent_log import ApplierLog, resume_kept
from configtron.service.fleet.applier import Applier, LeaseOver, LoadResult
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.fleet.map_journal import NOT_DRAWN, DrawnPlace
from configtron.service.fleet.map_maker import FixedMapMaker
from configtron.service.fleet.spool import Spool
from configtron.tune.rules import after
from tests.support.fleet_kernel import Beginning
from tests.support.fleet_pages import Client, PageReaders, WebServer

if TYPE_CHECKING:
    from tests.support.fleet_world import World

log = logging.getLogger("configtron.fleet")

AGENTS = ("a0", "a1", "a2")
START_NS = 1_800_000_000 * 10**9
KEY, FORGER = SigningKey(b"m" * 32), SigningKey(b"f" * 32)
HUMAN = "192.0.2.0/24"
BASE = Rules({"human": Profile("human", (("initcwnd", 12),))}, {HUMAN: "human"})
PROFILES = {name: Profile(name, (("initcwnd", 10 + at),)) for at, name in enumerate(("p0", "p1", "p2", "p3"))}
PROFILES |= {
    "bad": Profile("bad", (("initcwnd", 99),)), "off": Profile("off"), "barred": Profile("barred", (("x", 1),)),
}  # fmt: skip
SPOOL_BYTES = 20_000


class Killed(BaseException):
    """The process ended between two of its writes."""


@dataclass
class Kernel:
    """What outlives an agent's processes on its host."""

    rules: Rules = BASE
    until_s: float = -1.0
    documents: dict[tuple[int, int], bytes] = field(default_factory=dict)
    drawn: DrawnPlace = NOT_DRAWN
    place: tuple[int, int] = (0, 0)
    foreign: str = ""
    frozen: str = ""

    def in_force(self, now_s: float) -> Rules:
        return self.rules if now_s < self.until_s else BASE


class Host:
    """One agent's host: kernel, disk, clock, and the agent while it runs. It is the applier's `Enforcement`."""

    draws = False

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.kernel, self.skew_ns, self.starts, self.boots, self.booted_s = Kernel(), 0, 0, 1, 0.0
        self.web = WebServer(self)
        self.waiting: deque[OpenRecord | CloseRecord] = deque()
        self.page_rows: dict[str, OutcomeRow] = {}
        self.key, self.path = f"key-{name}-0", world.folder / f"{name}.db"
        self.core: AgentCore | None = None
        self.applier: Applier | None = None
        self.readers: PageReaders | None = None
        self.taken: dict[tuple[str, str, int], OutcomeRow] = {}
        self.taken_s: dict[tuple[str, str, int], float] = {}
        self.obeyed = (0, "")
        self.dead_since = 0.0
        self.unsteady: list[float] = []
        self.full_until_s = -1.0
        self.protocol: int | None = None
        self.revoked_at: float | None = None
        self.rejected = set[tuple[int, int]]()
        # What the judge of lines knows: starts, and whether a map was kept; rows that found no room (start, time).
        self.begun: list[tuple[float, bool]] = []
        self.refusals: list[tuple[int, float, bool]] = []
        self.log = ApplierLog()

    # The enforcement.

    def barred(self, profile: Profile) -> str:
        return "the driver has no such knob" if profile.name == "barred" else ""

    def begin(self, rules: Rules, lease_s: float, ports: tuple[int, ...]) -> None:
        self._refuse(rules)
        self.world.may_kill()
        self.kernel.rules, self.kernel.until_s = rules, self.world.now + lease_s
        self.world.may_kill()

    def change(self, changes: Changes, target: Rules) -> None:
        self._refuse(target)
        self._check_leased()
        self._check_room()
        self.world.may_kill()
        self.kernel.rules = after(self.kernel.rules, changes)
        self.world.check(self.kernel.rules == target, f"{self.name}: a change does not lead to its target")
        self.world.may_kill()

    def turn(self, plan: Plan, mixes: Mapping[str, Mix]) -> None:
        raise AssertionError("this kernel does not draw")

    def renew(self, lease_s: float) -> None:
        self._check_leased()
        self.kernel.until_s = self.world.now + lease_s

    def gone(self) -> bool:
        return False

    def foreign(self) -> str:
        found, self.kernel.foreign = self.kernel.foreign, ""
        if found:
            self.kernel.frozen = found
        return found

    def frozen(self) -> str:
        return self.kernel.frozen

    def keep(self, document: bytes, term: int, version: int) -> None:
        self.world.may_kill()
        self._check_room()
        self.kernel.documents[term, version] = document

    def turned(self, drawn: DrawnPlace) -> None:
        self.world.may_kill()
        self._check_room()
        self.kernel.drawn = drawn
        self.kernel.documents = {at: one for at, one in self.kernel.documents.items() if at >= drawn[:2]}

    def dropped(self, place: tuple[int, int]) -> None:
        self.world.may_kill()
        self._check_room()
        self.kernel.documents = {at: one for at, one in self.kernel.documents.items() if at <= place}

    def heal(self) -> None:
        """End what was planted on this host."""
        self.kernel.frozen = self.kernel.foreign = ""
        self.full_until_s, self.protocol = -1.0, None

    def _check_room(self) -> None:
        if self.world.now < self.full_until_s:
            raise Unwritten("agent.db: no space left on device")

    def _check_leased(self) -> None:
        if self.world.now >= self.kernel.until_s:
            raise LeaseOver("the transaction is over")

    def _refuse(self, rules: Rules) -> None:
        if "bad" in rules.used and self.name == AGENTS[1]:
            raise Refused("the driver refuses profile bad")

    # The agent's life.

    def start(self) -> None:
        self.starts += 1
        self.rejected.clear()
        # What a full disk did not keep is not known any more.
        self.kernel.place = min(self.kernel.place, self.kernel.drawn[:2])
        spool = Spool(self.path, self.name, boot=f"{self.name}-{self.starts}", most_bytes=SPOOL_BYTES)
        self.applier = Applier(self, KEY.verify_key, BASE, BASE)
        self.applier.frozen = self.kernel.frozen
        kept = list(self.kernel.documents.values())
        self.begun.append((self.world.now, bool(kept)))
        self.log = ApplierLog()
        resume_kept(self.applier, kept, self.boot_s(), self.wall_ns(), self.kernel.drawn)
        self.core = AgentCore(AgentHello(spool.boot, "sim"), self.applier.held, spool, self._load)
        self.readers = PageReaders(self, spool.boot)

    def wall_ns(self) -> int:
        return START_NS + round(self.world.now * 1e9) + self.skew_ns

    def boot_s(self) -> float:
        """Return seconds of CLOCK_BOOTTIME."""
        return self.world.now - self.booted_s

    def boot_ns(self) -> int:
        return round(self.boot_s() * 1e9)

    def jump(self, span_s: int) -> None:
        """Step the wall clock."""
        self.skew_ns += span_s * 10**9
        self.unsteady.append(self.world.now)

    def reboot(self) -> None:
        """Start the host anew: of its memory nothing is left, and its clock since boot begins at 0."""
        self.kill()
        self.boots += 1
        self.booted_s = self.world.now
        self.forget_kernel()

    def forget_kernel(self) -> None:
        """Lose what the kernel had, as the end of a lease or a reboot does."""
        self.kernel.rules, self.kernel.until_s = BASE, -1.0

    def _load(self, document: bytes) -> None:
        document = self.world.faults.handed_on(document, self.name)
        self.world.later(0.05, lambda: self._loaded(document), self)

    def _loaded(self, document: bytes) -> None:
        if self.applier is None or self.core is None:
            return
        found = self.applier.load(document, self.boot_s(), self.wall_ns())
        self.log.loaded(found, 0.0)
        self._report(found)

    def _report(self, found: LoadResult) -> None:
        """Hand a result to the network side, which sends it."""
        assert self.core is not None
        place = (found.result.term, found.result.version)
        if found.result.error and not found.retry and place != (0, 0):
            self.rejected.add(place)
        self.world.note(f"{self.name} loads {place} {found.result.error}")
        self.send(self.core.loaded(found.result, found.held, found.retry, self.world.now))

    def step(self) -> None:
        if self.core is None or self.applier is None:
            return
        self.applier.tick(self.boot_s(), self.wall_ns())
        for late in self.applier.take_late():
            self._report(late)
        self.log.turn(self.applier, self.boot_s(), self.wall_ns())
        if self.readers is not None:
            self.readers.turn()
        if self.core.session.frozen and not self.applier.frozen:
            self.rejected.clear()
        self.core.holds(self.applier.held, self.applier.frozen)
        self.send(self.core.tick(self.world.now, self.wall_ns()))

    def report(self) -> None:
        """Log what became of page loads, as a process does each minute and at its end."""
        if self.readers is not None:
            self.readers.report()

    def produce(self) -> None:
        if self.core is None:
            return
        spool = self.core.spool
        row = OutcomeRow(self.name, spool.boot, 0, self.wall_ns(), "a.example", "198.51.100.0/24", "0" * 16,
                         self.world.rng.uniform(1, 9))  # fmt: skip
        self.keep_rows([row._replace(epoch=at) for at in range(self.world.rng.randint(1, 5))])

    def keep_rows(self, rows: Sequence[OutcomeRow]) -> None:
        """Put rows into the spool; remember those that it took."""
        assert self.core is not None
        spool, first = self.core.spool, self.core.spool._next
        self.world.may_kill()
        taken = spool.add(rows)
        self.refusals.append((self.starts, self.world.now, taken < len(rows)))
        for at, each in enumerate(rows[:taken], first):
            name = (self.name, spool.boot, at)
            self.taken[name] = each._replace(agent=self.name, boot=spool.boot, sequence=at)
            self.taken_s[name] = self.world.now
        for each in rows:
            self.page_rows[each.site] = each
        self.world.may_kill()

    def keep_watch(self) -> None:
        """Let the watchdog process undo what is overdue; here the kernel's rules lapse by `until_s`."""

    # Visitors' connections.

    def connect(self, client: Client, port: int) -> Beginning | None:
        """Return what a new connection gets; where the kernel does not draw, sock_diag lists it."""
        rules = self.kernel.in_force(self.world.now)
        profile = rules.prefixes.get(client.prefix, "")
        opened = OpenRecord(client.prefix, 443, port, self.boot_ns(), None, None, None, False, None, None, None, None,
                            client.rtt_us, False)  # fmt: skip
        if self.core is not None:
            self.waiting.append(opened)
        return Beginning(opened._replace(profile=profile), 0, 0)

    def disconnect(self, begun: Beginning | None, boots: int, min_rtt_us: int, is_reset: bool) -> None:
        """End a connection."""
        if begun is None or self.core is None or boots != self.boots:
            return
        opened = begun.opened._replace(profile=None)
        # To sock_diag a reset and a close look alike.
        self.waiting.append(CloseRecord(opened, self.boot_ns(), min_rtt_us, 10, 50_000, 900, 40, 2, None, None, 4000.0,
                                        None))  # fmt: skip

    def records(self) -> Iterator[OpenRecord | CloseRecord]:
        while self.waiting:
            yield self.waiting.popleft()

    def lost_records(self) -> int:
        return 0

    def post(self, body: bytes, client: Client, path: str = BEACON_PATH) -> int:
        """Hand a browser's request on to the endpoint; 502: it is not there."""
        return self.readers.post(body, client, path) if self.readers is not None else 502

    def send(self, frames: list[bytes]) -> None:
        for data in frames:
            self.world.to_managers(self, data if self.protocol is None else bytes((self.protocol,)) + data[1:])

    def receive(self, data: bytes) -> None:
        if self.core is None or not data:
            return
        # To a process of another protocol all frames of this one are of another.
        shown = data if self.protocol is None else bytes((data[0] + 1 - self.protocol,)) + data[1:]
        self.send(self.core.receive(shown, self.world.now))
        term, name = self.core.session.manager
        self.world.check(term >= self.obeyed[0], f"{self.name}: obeys term {term} after {self.obeyed[0]}")
        self.obeyed = (term, name)

    def kill(self) -> None:
        if self.core is not None:
            self.core.spool._file._connection.close()
            self.unsteady.append(self.world.now)
        self.core = self.applier = self.readers = None
        self.dead_since = self.world.now
        self.web.forget()
        self.waiting.clear()


class ManagerHost:
    """A manager's host: its database, and the manager while it runs."""

    def __init__(self, world: World, name: str, path: Path, salt: bytes = b"") -> None:
        self.world, self.name, self.path, self._salt = world, name, path, salt
        self.core: ManagerCore | None = None
        self.starts, self.terms, self.skew_ns = 0, list[int](), 0
        self.begun_s, self.ended_s = list[float](), list[float]()
        self.published = set[tuple[int, int]]()
        self.maker = FixedMapMaker(self._wanted(), 40.0)

    def start(self) -> None:
        self.starts += 1
        store = FleetStore(self.path)
        self._watch(store)
        core = self._made(store)
        self.world.check(not self.terms or core.term > self.terms[-1], f"{self.name}: term {core.term} does not rise")
        self.terms.append(core.term)
        self.begun_s.append(self.world.now)
        self._publishes(core)
        self.core = core

    def _made(self, store: FleetStore) -> ManagerCore:
        """Return the manager of a start, with what makes its maps."""
        self.maker = FixedMapMaker(self._wanted(), 40.0)
        return ManagerCore(store, self.maker, KEY, f"{self.name}-{self.starts}", self.wall_ns())

    def _change(self) -> None:
        """Hand the operator's latest map to the maker."""
        self.maker.change(self._wanted())

    def _wanted(self) -> FleetMap:
        """Return the operator's map; a second manager draws it by a key of its own."""
        return replace(self.world.wanted, key=self._salt) if self._salt else self.world.wanted

    def _watch(self, store: FleetStore) -> None:
        """Let the process be killed before and after each of its writes."""
        for name in ("add_rows", "put_map", "put_facts"):
            setattr(store, name, self._killable(getattr(store, name)))

    def _killable(self, write: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            self.world.may_kill()
            found = write(*arguments)
            self.world.may_kill()
            return found

        return call

    def _publishes(self, core: ManagerCore) -> None:
        if core.session.current is not None:
            self.world.published(self, core.session.current)
        publish = core.session.publish

        def call(new: SignedMap) -> object:
            self.world.published(self, new)
            return publish(new)

        core.session.publish = call  # type: ignore[method-assign,assignment]

    def wall_ns(self) -> int:
        return START_NS + round(self.world.now * 1e9) + self.skew_ns

    def step(self) -> None:
        if self.core is None:
            return
        self._change()
        self.send(self.core.tick(self.world.now, self.wall_ns()))
        if self.core is not None and self.core.stopped:
            self.world.note(f"{self.name} stops: {self.core.stopped}")
            log.error("%s", self.core.stopped)
            self.kill()

    def receive(self, host: Host, key: str, data: bytes) -> None:
        if self.core is not None:
            connection = host.name.encode()
            self.send(self.core.receive(connection, key, data, self.world.now, self.wall_ns()))

    def send(self, frames: list[SendTo]) -> None:
        for connection, data in frames:
            for host in self.world.hosts.values():
                if connection == host.name.encode():
                    self.world.to_agent(host, data)

    def kill(self) -> None:
        if self.core is not None:
            self.core.store._connection.close()
            self.ended_s.append(self.world.now)
        self.core = None
