# SPDX-License-Identifier: MIT
"""Which map and epoch a connection began under, while the host's wall clock is stepped forward and back.

The applier turns by the wall clock; what came into force when is recorded by the clock since boot. The oracle is what
the enforcement held at the moment of the connection.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any, NamedTuple

import pytest

from configtron.intake.pageloads.plan_book import OFFSETS, DrawnArm, PlanBook, WallOffsets
from configtron.model.close_records import OpenRecord
from configtron.model.draw import draw, unit_of
from configtron.model.errors import Refused
from configtron.tune.drivers.kmod.abi import FLAGS
from configtron.tune.drivers.kmod.draws import RecordReader
from configtron.tune.plan import UNTOUCHED
from tests.support.applied_maps import EPOCH_S, MAP, NS, START_NS, Trial

CLIENT, PREFIX = "198.51.4.9", "198.51.4.0/24"
PACKED = IPv4Address(CLIENT).packed
HOUR_S = 3600


class Seen(NamedTuple):
    """A connection: its record, and what was in force at its start: version of the map, epoch, arm, profile."""

    record: OpenRecord
    at_s: float
    version: int
    epoch: int
    profile: str


class Device:
    """The device of a module that has one record."""

    def __init__(self, now_ns: int, epoch: int, arm: int, profile: str) -> None:
        self._fields: dict[str, int | bytes] = {
            "flags": FLAGS["RECORD_OPEN"], "socket": 1, "arm": arm, "class_profile": 1, "family": 2,
            "remote": PACKED + bytes(12), "local_port": 443, "remote_port": 40_000, "cookie": 7, "boot_ns": now_ns,
            "profile": {"fast": 3, "slow": 4}[profile], "version": 1, "epoch": epoch, "band": 0, "handshake_us": 20_000,
        }  # fmt: skip

    def begin_records(self, capacity: int) -> None: ...

    def profiles(self) -> dict[int, str]:
        return {1: "near", 2: "far", 3: "fast", 4: "slow"}

    def records(self) -> list[dict[str, int | bytes]]:
        return [self._fields]


class Host:
    """A host whose kernel draws or not, and whose wall clock is `skew_s` off; `seen`: its connections. by_module: as
    the module's records are read."""

    def __init__(self, draws: bool, skew_s: int = 20, by_module: bool = False) -> None:
        self.by_module = by_module
        self.draws, self.skew_s, self.now_s, self.seen = draws, skew_s, 0.0, list[Seen]()
        self.trial, self.book = Trial(draws), PlanBook(draws)
        self.kernel, self.applier = self.trial.kernel, self.trial.one

    def load(self, version: int, **changes: Any) -> str:
        """Take a map; return why it is refused."""
        found = self.trial.load(self.now_s, self.now_s + self.skew_s, version=version, **changes).result.error
        self.until(self.now_s)
        return found

    def until(self, end_s: float) -> None:
        """Let time pass, by quarters of a second; the reader looks at the clocks."""
        while True:
            wall_s = self.now_s + self.skew_s
            self.trial.tick(self.now_s, wall_s)
            self.applier.activations.pass_on(self.book, round(self.now_s * NS))
            self.book.clocks(round(self.now_s * NS), START_NS + round(wall_s * NS))
            if self.now_s >= end_s:
                return
            self.now_s = min(self.now_s + 0.25, end_s)

    def connect(self) -> None:
        """Begin a connection: where the kernel does not draw, sock_diag shows nothing of a draw."""
        drawing = self.applier.drawing
        assert drawing is not None
        record = OpenRecord(
            PREFIX, 443, 40_000, round(self.now_s * NS), *(None,) * 3, False, *(None,) * 4, 20_000, False
        )
        profile = self.kernel.rules.prefixes.get(PREFIX, "")
        if self.draws:
            plan, mixes = self.kernel.plans[-1]
            arm = draw(plan, mixes["near"], unit_of(CLIENT)).arm
            assert arm is not None and plan.epoch == drawing.epoch
            profile = mixes["near"].profiles[arm]
            record = record._replace(epoch=plan.epoch, class_name="near", arm=arm, profile=profile)
            if self.by_module:
                (record,) = RecordReader(Device(record.start_ns, plan.epoch, arm, profile)).records()  # type: ignore[arg-type]
        self.seen.append(Seen(record, self.now_s, drawing.head.version, drawing.epoch, profile))

    def described(self, at: int = -1) -> DrawnArm:
        return self.book.describe(self.seen[at].record, PACKED)


@pytest.mark.parametrize(("draws", "by_module"), [(False, False), (True, False), (True, True)])
def test_steps_of_the_wall_clock_do_not_move_what_was_in_force(draws: bool, by_module: bool) -> None:
    host = Host(draws, by_module=by_module)
    host.load(1)
    host.until(10.0)
    host.connect()
    # An hour forward, two back, and to the first epoch again, now by a later map.
    for at_s, step_s, version in ((20.0, HOUR_S, 0), (40.0, -2 * HOUR_S, 0), (60.0, HOUR_S, 2)):
        host.until(at_s)
        host.skew_s += step_s
        if version:
            host.load(version, mixes={"near": (("slow", 30_000), ("fast", 35_536)), "far": MAP.mixes["far"]})
        host.until(at_s + 10.0)
        host.connect()
    first = START_NS // NS // EPOCH_S
    assert [(one.version, one.epoch - first) for one in host.seen] == [(1, 0), (1, 36), (1, -36), (2, 0)]
    host.until(75.0)
    for at, one in enumerate(host.seen):
        found = host.described(at)
        assert (found.map_version, found.epoch, found.doubt) == (one.version, one.epoch, "")
        assert found.class_name == "near" and found.propensity
        assert found.profile == (one.profile if one.profile != UNTOUCHED else "")
        again = host.book.of_client(PACKED, round(one.at_s * NS))
        assert again is not None and (again.map_version, again.epoch) == (one.version, one.epoch)
        assert (again.profile, again.arm) == (found.profile, found.arm)


@pytest.mark.parametrize("step_s", [-30, 30])
def test_a_turn_is_near_by_the_clock_of_its_time(step_s: int) -> None:
    """The clock is stepped after the connection began and before its line is joined."""
    host = Host(draws=True, skew_s=50)
    host.load(1)
    # 2 s before a turn by the clock of then, in the middle of an epoch by the clock of now.
    host.until(48.0)
    host.connect()
    host.until(48.5)
    host.skew_s += step_s
    host.until(70.0)
    assert host.described().doubt == "turn"
    # The other way: in the middle of an epoch then, 2 s before a turn by the clock of now.
    host.skew_s = 0
    host.until(150.0)
    host.connect()
    host.until(155.0)
    host.skew_s = EPOCH_S - 52
    host.until(158.0)
    host.skew_s += 2
    host.until(160.0)
    assert host.described().doubt == ""


def test_by_routes_nothing_is_known_from_the_last_look_before_another_programs_change() -> None:
    host = Host(draws=False)
    host.load(1)
    host.until(10.0)
    host.connect()
    host.until(20.0)
    host.kernel.external = "another program"
    host.connect()
    host.until(21.0)
    host.connect()
    assert [host.described(at).doubt for at in range(3)] == ["", "undrawn", "undrawn"]
    host.kernel.freeze = ""
    host.until(22.0)
    host.load(2)
    host.until(30.0)
    host.connect()
    assert (host.described().doubt, host.described().map_version) == ("", 1), "within the epoch, the former map"


def test_by_routes_connections_beside_a_change_that_was_taken_back_do_not_teach() -> None:
    host = Host(draws=False)
    host.load(1)
    host.until(20.0)
    host.kernel.refuses = Refused("no")
    found = host.trial.load(host.now_s, host.now_s + host.skew_s, version=2, key=b"b" * 16)
    host.kernel.refuses = None
    assert found.result.error == "no"
    for at_s in (21.0, 30.0):
        host.until(at_s)
        host.connect()
    assert [host.described(at).doubt for at in range(2)] == ["turn", ""]


def test_a_kernel_that_drew_by_no_plan_gave_nothing_of_ours() -> None:
    host = Host(draws=True)
    host.load(1)
    host.until(10.0)
    host.connect()
    without = host.seen[0].record._replace(epoch=None, class_name=None, arm=None, profile="")
    assert host.book.describe(without, PACKED).doubt == "undrawn"


def test_the_wall_clock_of_then_is_known_after_steps_and_slews() -> None:
    clock = WallOffsets()
    assert clock.wall_ns(5) == 5
    for since_s, wall_ns in ((10, 1_000 * NS), (20, 1_010 * NS + NS // 20), (30, 500 * NS), (40, 2_000 * NS)):
        clock.read(since_s * NS, wall_ns)
    wanted = {0: 990, 15: 1005, 25: 1015, 35: 505, 45: 2005}
    assert {at: clock.wall_ns(at * NS) // NS for at in wanted} == wanted
    for at in range(50, 50 + 2 * OFFSETS):
        clock.read(at * NS, 2 * at * NS)
    assert clock.wall_ns(15 * NS) // NS == 15 + 50 + OFFSETS, "the oldest that is remembered"
