# SPDX-License-Identifier: MIT
"""Which map and epoch a connection began under, while the host's wall clock is stepped forward and back.

The applier turns by the wall clock; what came into force when is recorded by the clock since boot. The oracle is what
the enforcement held at the moment of the connection.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from typing import Any, NamedTuple

import pytest

from configtron.fleet.map_document import document
from configtron.intake.pageloads.plan_book import OFFSETS, DrawnArm, PlanBook, WallOffsets
from configtron.model.close_records import OpenRecord
from configtron.model.draw import draw, unit_of
from configtron.model.errors import Refused
from configtron.model.tuning import Rules
from configtron.service.fleet.applier import Applier
from configtron.tune.drivers.bpf.connection_records import RecordParser
from configtron.tune.drivers.kmod.abi import FLAGS
from configtron.tune.drivers.kmod.draws import RecordReader
from configtron.tune.plan import UNTOUCHED
from tests.support.applied_maps import EPOCH_S, KEY, MAP, NS, START_NS, Recorded, made

CLIENT, PREFIX = "198.51.4.9", "198.51.4.0/24"
NUMBERS = {1: "near", 2: "far", 3: "fast", 4: "slow"}
DRIVERS = ("route", "ebpf", "kmod")
HOUR_S = 3600


class Seen(NamedTuple):
    """A connection: its record, and what was in force at its start: version of the map, epoch, arm, profile."""

    record: OpenRecord
    at_s: float
    version: int
    epoch: int
    arm: int | None
    profile: str


@dataclass
class Host:
    """A host with a driver, whose wall clock is `skew_s` off; connections name what was in force then."""

    driver: str
    now_s: float = 0.0
    skew_s: int = 20
    seen: list[Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draws = self.driver != "route"
        self.kernel, self.book = Recorded(self.draws), PlanBook(self.draws)
        self.applier = Applier(self.kernel, KEY.verify_key, Rules())  # type: ignore[arg-type]
        self.before = self.version = self.in_force = 0

    def wall_ns(self) -> int:
        return START_NS + round((self.now_s + self.skew_s) * NS)

    def load(self, version: int, **changes: Any) -> None:
        """Take a map, as its whole table."""
        found = self.applier.load(_document(version, changes), self.now_s, self.wall_ns())
        assert found.result.error == ""
        self.until(self.now_s)

    def until(self, end_s: float) -> None:
        """Let time pass, by quarters of a second; the reader looks at the clocks."""
        while True:
            self.applier.tick(self.now_s, self.wall_ns())
            self.applier.activations.pass_on(self.book, round(self.now_s * NS))
            self.book.clocks(round(self.now_s * NS), self.wall_ns())
            if self.now_s >= end_s:
                return
            self.now_s = min(self.now_s + 0.25, end_s)

    def connect(self) -> None:
        """Begin a connection."""
        drawing = self.applier.drawing
        assert drawing is not None
        arm, profile = None, self.kernel.rules.prefixes.get(PREFIX, "")
        if self.draws:
            plan, mixes = self.kernel.plans[-1]
            arm = draw(plan, mixes["near"], unit_of(CLIENT)).arm
            assert arm is not None and plan.epoch == drawing.epoch
            profile = mixes["near"].profiles[arm]
        record = RECORDS[self.driver](round(self.now_s * NS), drawing.epoch, arm, profile)
        self.seen.append(Seen(record, self.now_s, drawing.head.version, drawing.epoch, arm, profile))

    def described(self, at: int = -1) -> DrawnArm:
        return self.book.describe(self.seen[at].record, IPv4Address(CLIENT).packed)


def _document(version: int, changes: dict[str, Any]) -> bytes:
    return document(made(replace(MAP, version=version, **changes)))


def _of_route(start_ns: int, epoch: int, arm: int | None, profile: str) -> OpenRecord:
    """As sock_diag shows it: nothing of a draw."""
    return OpenRecord(PREFIX, 443, 40_000, start_ns, None, None, None, False, None, None, None, None, 20_000, False)


def _of_ebpf(start_ns: int, epoch: int, arm: int | None, profile: str) -> OpenRecord:
    numbers = {name: number for number, name in NUMBERS.items()}
    remote = bytes(10) + b"\xff\xff" + IPv4Address(CLIENT).packed
    return RecordParser(NUMBERS, 1000).opened(
        epoch, start_ns, 7, numbers["near"], numbers[profile], 1, 20_000, remote, 443, 40_000, arm or 0, 0, 1, 0
    )


class _Device:
    """A module's device that has one record."""

    def __init__(self, fields: dict[str, int | bytes]) -> None:
        self.fields = fields

    def begin_records(self, capacity: int) -> None: ...

    def close(self) -> None: ...

    def profiles(self) -> dict[int, str]:
        return NUMBERS

    def records(self) -> list[dict[str, int | bytes]]:
        return [self.fields]


def _of_kmod(start_ns: int, epoch: int, arm: int | None, profile: str) -> OpenRecord:

    numbers = {name: number for number, name in NUMBERS.items()}
    fields: dict[str, int | bytes] = {
        "flags": FLAGS["RECORD_OPEN"], "socket": 1, "arm": arm or 0, "class_profile": numbers["near"], "family": 2,
        "remote": IPv4Address(CLIENT).packed + bytes(12), "local_port": 443, "remote_port": 40_000, "cookie": 7,
        "boot_ns": start_ns, "profile": numbers[profile], "version": 1, "epoch": epoch, "band": 0,
        "handshake_us": 20_000,
    }  # fmt: skip
    (record,) = RecordReader(_Device(fields)).records()  # type: ignore[arg-type]
    assert isinstance(record, OpenRecord)
    return record


RECORDS = {"route": _of_route, "ebpf": _of_ebpf, "kmod": _of_kmod}


@pytest.mark.parametrize("driver", DRIVERS)
def test_steps_of_the_wall_clock_do_not_move_what_was_in_force(driver: str) -> None:
    host = Host(driver)
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
        again = host.book.of_client(IPv4Address(CLIENT).packed, round(one.at_s * NS))
        assert again is not None and (again.map_version, again.epoch) == (one.version, one.epoch)
        assert (again.profile, again.arm) == (found.profile, found.arm)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("step_s", [-30, 30])
def test_a_turn_is_near_by_the_clock_of_its_time(driver: str, step_s: int) -> None:
    """The clock is stepped after the connection began and before its line is joined."""
    host = Host(driver, skew_s=50)
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


@pytest.mark.parametrize("driver", DRIVERS)
def test_two_turns_between_two_readings_are_both_known(driver: str) -> None:
    host = Host(driver)
    host.load(1)
    host.until(20.0)
    # A rollback, and at once the turn of the epoch, before the reader looks.
    for version in (2, 3):
        host.now_s += 0.1
        assert not host.applier.load(_document(version, {"key": bytes((version,)) * 16}), host.now_s, host.wall_ns()
                                     ).result.error  # fmt: skip
        host.now_s += 5.0
        host.connect()
    host.until(40.0)
    assert [host.described(at).map_version for at in range(2)] == [2, 3]


def test_by_routes_nothing_is_known_from_the_last_look_before_another_programs_change() -> None:
    host = Host("route")
    host.load(1)
    host.until(10.0)
    host.connect()
    host.until(20.0)
    host.kernel.external = "another program"
    host.connect()
    host.until(20.25)
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
    host = Host("route")
    host.load(1)
    host.until(20.0)
    host.kernel.refuses = Refused("no")
    found = host.applier.load(_document(2, {"key": b"b" * 16}), host.now_s, host.wall_ns())
    host.kernel.refuses = None
    assert found.result.error == "no"
    for at_s in (21.0, 30.0):
        host.until(at_s)
        host.connect()
    assert [host.described(at).doubt for at in range(2)] == ["turn", ""]


def test_a_kernel_that_drew_by_no_plan_gave_nothing_of_ours() -> None:
    host = Host("ebpf")
    host.load(1)
    host.until(10.0)
    host.connect()
    without = host.seen[0].record._replace(epoch=None, class_name=None, arm=None, profile="")
    assert host.book.describe(without, IPv4Address(CLIENT).packed).doubt == "undrawn"


def test_the_wall_clock_of_then_is_known_after_steps_and_slews() -> None:
    clock = WallOffsets()
    assert clock.wall_ns(5) == 5
    clock.read(10 * NS, 1_000 * NS)
    clock.read(20 * NS, 1_010 * NS + NS // 20)
    clock.read(30 * NS, 500 * NS)
    clock.read(40 * NS, 2_000 * NS)
    wanted = {0: 990, 15: 1005, 25: 1015, 35: 505, 45: 2005}
    assert {at: clock.wall_ns(at * NS) // NS for at in wanted} == wanted
    for at in range(50, 50 + 2 * OFFSETS):
        clock.read(at * NS, 2 * at * NS)
    assert clock.wall_ns(15 * NS) // NS == 15 + 50 + OFFSETS, "the oldest that is remembered"
