# SPDX-License-Identifier: MIT
"""The module's plans and records: `Drawing`'s mixes as its structures, its records as open and close records.

Question   What does the module draw for each client, and what came of each connection?
Method     A plan goes to the module with the mixes of all classes in one call, and turns in another. The socket has no
           room for what was drawn, so the module writes a record when a connection begins and one when it ends; both
           have the same hash of the socket. Addresses are cut to prefixes here.
Reads as   OpenRecord and CloseRecord
           Connections that were open when the reader began are listed once, from /proc/net/tcp, as after a restart of
           the agent: what was drawn for them is unknown (`epoch` None), their requests and ends are theirs.
Fails as   a connection whose open record was lost: nothing is reported of its end, and `unpaired` counts it, with those
           that this host opened; nor is anything of one that left the module for good, because its program chose
           another congestion control
Differs    from eBPF: the largest round trip is unknown, a cookie where no program has asked for it, and the largest
           congestion window under those that leave no room for it (bbr and others that reno, cubic and vegas are not)
Source     kmod/draw.c, kmod/records.c
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network
from socket import AF_INET

from configtron.linux.proc import TcpLine
from configtron.model.close_records import (
    ABORTED,
    CLOSED,
    RESET,
    RETREATED,
    TIMED_OUT,
    UNUSED,
    VALIDATED,
    CloseRecord,
    OpenRecord,
)
from configtron.model.draw import ARMS, BANDS, Mix, Plan
from configtron.model.errors import BadInput
from configtron.tune.drivers.kmod.abi import FLAGS, pack
from configtron.tune.drivers.kmod.device import Device

# As configtron.h has them.
ARM_HELD, ARM_NONE = 8, 255
# Records that a reader may leave waiting: some seconds of ten thousand connections each.
CAPACITY = 65_536
# Open connections that are remembered until they end; the oldest are forgotten.
MOST_OPEN = 1_000_000
# The prefix that an address is cut to.
LENGTH4, LENGTH6 = 24, 48
ENDINGS = {errno.ECONNRESET: RESET, errno.EPIPE: RESET, errno.ETIMEDOUT: TIMED_OUT}

Fields = Mapping[str, int | bytes]
# Family, client's address, local port, client's port.
Ends = tuple[int, bytes, int, int]


def load(device: Device, plan: Plan, mixes: Mapping[str, Mix]) -> None:
    """Load a plan into the module. Errors: `BadInput` for a profile that is not there, and for mixes that would move
    clients within the epoch that is in force."""
    numbers = {name: number for number, name in device.profiles().items()}
    used = {plan.held_profile, *mixes, *(name for _, name in plan.bands)}
    used |= {name for mix in mixes.values() for name in mix.profiles}
    if absent := sorted(used - numbers.keys() - {""}):
        raise BadInput(f"the plan names profile {absent[0]!r}; there is: {', '.join(sorted(numbers)) or 'none'}")
    if "" in mixes or any("" in mix.profiles for mix in mixes.values()):
        raise BadInput("a mix of the driver kmod has named profiles; make one without settings for the untouched stack")
    packed = b"".join(_mix(numbers, name, mix) for name, mix in mixes.items())
    try:
        device.load_plan(
            packed,
            key=struct.pack("=2Q", plan.key.first, plan.key.second),
            epoch=plan.epoch,
            not_after=plan.not_after,
            held=plan.holdback,
            held_profile=numbers.get(plan.held_profile, 0),
            band_us=_padded("I", BANDS, [end for end, _ in plan.bands]),
            band_class=_padded("I", BANDS, [numbers[name] for _, name in plan.bands]),
        )
    except FileExistsError as error:
        why = (
            f"epoch {plan.epoch} is in force with other mixes, bands or control group, which change only with the epoch"
        )
        raise BadInput(why) from error


def drawn(device: Device) -> frozenset[int]:
    """Return the numbers of the profiles that the plan in force draws, and of those that stand for its classes."""
    found = {device.plan_status()["held_profile"]}
    for mix in device.plan_mixes():
        arms = mix["arm"]
        assert isinstance(arms, bytes)
        found |= {_int(mix, "profile"), *struct.unpack(f"={ARMS}I", arms)}
    return frozenset(found - {0})


def _mix(numbers: Mapping[str, int], name: str, mix: Mix) -> bytes:
    arms = [numbers[profile] for profile in mix.profiles]
    upto = struct.pack(f"={ARMS}H", *mix.upto)
    return bytes(pack("mix", profile=numbers[name], arms=len(arms), upto=upto, arm=_padded("I", ARMS, arms)))


def _padded(code: str, count: int, numbers: Sequence[int]) -> bytes:
    """Return numbers as an array of `count`, zeros behind them."""
    return struct.pack(f"={count}{code}", *numbers, *[0] * (count - len(numbers)))


class RecordReader:
    """An open file of the module that receives its records, and the connections that are open.

    listed    returns the clients' connections that are open now; they come with the first records
    unpaired  how many connections ended without anything known of their beginning
    """

    def __init__(self, device: Device, listed: Callable[[], Iterable[TcpLine]] = tuple) -> None:
        self._device = device
        self._names: dict[int, str] = {}
        self._open: dict[int, OpenRecord] = {}
        # Of connections whose profile was set anew: those that the module was asked for, by its hash of the socket, and
        # those whose options were set, by SO_COOKIE.
        self._reassigned: set[int] = set()
        self._marked: dict[int, None] = {}
        self.unpaired = 0
        device.begin_records(CAPACITY)
        # Behind that call, so that each connection is in the list, or its beginning in a record, or both.
        self._earlier = {
            (line.family, line.client, line.port, line.client_port): _begun_before(line) for line in listed()
        }
        self._is_listed = False

    def close(self) -> None:
        self._device.close()

    def mark_moved(self, cookies: Iterable[int]) -> None:
        """Mark connections by SO_COOKIE, which the record of their end has."""
        self._marked.update(dict.fromkeys(cookies))
        while len(self._marked) > MOST_OPEN:
            del self._marked[next(iter(self._marked))]

    def records(self) -> Iterator[OpenRecord | CloseRecord]:
        """Yield what has come since the last call, oldest first; with the first, what was open before."""
        come = self._device.records()
        if not self._is_listed:
            self._is_listed = True
            for begun in (_ends(fields) for fields in come if _int(fields, "flags") & FLAGS["RECORD_OPEN"]):
                self._earlier.pop(begun, None)
            yield from tuple(self._earlier.values())
        for fields in come:
            if found := self._record(fields):
                yield found

    def _record(self, fields: Fields) -> OpenRecord | CloseRecord | None:
        flags, socket = _int(fields, "flags"), _int(fields, "socket")
        if flags & FLAGS["RECORD_OPEN"]:
            opened = self._opened(fields, flags)
            self._earlier.pop(_ends(fields), None)
            self._forget(socket)
            self._open[socket] = opened
            if len(self._open) > MOST_OPEN:
                self._forget(next(iter(self._open)))
            return opened
        if flags & FLAGS["RECORD_LEFT"]:
            if socket in self._open:
                self._reassigned.add(socket)
            return None
        cookie = _int(fields, "cookie")
        moved = socket in self._reassigned or cookie in self._marked
        self._marked.pop(cookie, None)
        known = self._forget(socket) or self._earlier.pop(_ends(fields), None)
        if known is None:
            self.unpaired += 1
            return None
        return _closed(known, fields, flags, moved)

    def _forget(self, socket: int) -> OpenRecord | None:
        """Return what is known of a connection, which has ended or is too old; None: nothing."""
        self._reassigned.discard(socket)
        return self._open.pop(socket, None)

    def _opened(self, fields: Fields, flags: int) -> OpenRecord:
        arm, class_number = _int(fields, "arm"), _int(fields, "class_profile")
        return OpenRecord(
            prefix=_prefix(*_ends(fields)[:2]),
            local_port=_int(fields, "local_port"),
            remote_port=_int(fields, "remote_port"),
            start_ns=_int(fields, "boot_ns"),
            cookie=_int(fields, "cookie") or None,
            class_name=self._name(class_number) if class_number else None,
            arm=arm if arm < ARM_HELD else None,
            held=arm == ARM_HELD,
            profile=self._name(_int(fields, "profile")),
            version=_int(fields, "version") or None,
            epoch=_int(fields, "epoch"),
            band=_int(fields, "band") or None,
            rtt_us=_int(fields, "handshake_us") or None,
            window_cut=bool(flags & FLAGS["RECORD_WINDOW_CUT"]),
        )

    def _name(self, number: int) -> str:
        """Return a profile's name; numbers are not used again, so those of deleted profiles keep theirs."""
        if number and number not in self._names:
            self._names.update(self._device.profiles())
        return self._names.get(number, "")


def _closed(opened: OpenRecord, fields: Fields, flags: int, moved: bool) -> CloseRecord:
    end_ns, busy_us = _int(fields, "boot_ns"), _int(fields, "busy_us")
    life_us = (end_ns - opened.start_ns) / 1000 if opened.start_ns else 0.0
    limited = flags & FLAGS["RECORD_APP_LIMITED"]
    rate = _int(fields, "delivery_rate")
    return CloseRecord(
        opened=opened,
        end_ns=end_ns,
        min_rtt_us=_int(fields, "min_rtt_us") or None,
        max_cwnd=_int(fields, "max_cwnd") or None,
        bytes_acked=_int(fields, "bytes_acked"),
        bytes_received=_int(fields, "bytes_received"),
        segments=_int(fields, "segs_out"),
        retransmits=_int(fields, "retrans"),
        app_limited=min(max(1.0 - busy_us / life_us, 0.0), 1.0) if life_us > 0 else None,
        rwnd_limited=_int(fields, "rwnd_limited_us") / busy_us if busy_us else None,
        delivery_kbps=rate * 8 / 1000 if rate and not limited else None,
        ending=_ending(_int(fields, "error"), flags),
        moved=moved,
        packets_in=_int(fields, "segs_in"),
        resumed=_resumed(flags),
    )


def _ending(error: int, flags: int) -> str | None:
    if flags & FLAGS["RECORD_ABORTED"]:
        return ABORTED
    if flags & FLAGS["RECORD_FINISHED"]:
        return ENDINGS.get(error, CLOSED)
    # No FIN, and no error left: a server that reads the client's reset takes it off the socket before it closes.
    return ENDINGS.get(error, None if error else RESET)


def _resumed(flags: int) -> str:
    if not flags & FLAGS["RECORD_RESUMED"]:
        return ""
    return (
        RETREATED if flags & FLAGS["RECORD_RETREATED"] else VALIDATED if flags & FLAGS["RECORD_VALIDATED"] else UNUSED
    )


def _prefix(family: int, remote: bytes) -> str:
    if family == AF_INET:
        return str(IPv4Network((remote, LENGTH4), strict=False))
    return str(IPv6Network((remote, LENGTH6), strict=False))


def _ends(fields: Fields) -> Ends:
    family, remote = _int(fields, "family"), fields["remote"]
    assert isinstance(remote, bytes)
    remote = remote[:4] if family == AF_INET else remote
    return family, remote, _int(fields, "local_port"), _int(fields, "remote_port")


def _begun_before(line: TcpLine) -> OpenRecord:
    """Return the record of a connection of which nothing is known but that it is open; it began at any time (0)."""
    return OpenRecord(
        _prefix(line.family, line.client), line.port, line.client_port, 0, None, None, None, False, None, None, None,
        None, None, False,
    )  # fmt: skip


def _int(fields: Fields, name: str) -> int:
    value = fields[name]
    assert isinstance(value, int)
    return value
