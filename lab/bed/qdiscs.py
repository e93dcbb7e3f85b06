# SPDX-License-Identifier: MIT
"""Queueing disciplines by netlink: written in one go, read back by value.

Rules for this file: it knows the wire format and nothing of conditions. One socket for a namespace, one message for
all that changes at once, because a fork of `tc` costs more than the rest of a change, and because iproute2 6.1 cannot
hand over netem's seed.

Source     linux/pkt_sched.h, linux/rtnetlink.h; net/sched/sch_netem.c, sch_tbf.c, sch_fifo.c
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from configtron.linux.netns import inside
from configtron.model.errors import Missing

HEADER = struct.Struct("=IHHII")
TCMSG = struct.Struct("=BxxxiIII")  # family, interface, handle, parent, info
NEW, DELETE, GET = 36, 37, 38
ERROR, DONE = 2, 3
REQUEST, ACK, REPLACE, CREATE, DUMP = 1, 4, 0x100, 0x400, 0x300
ROOT = 0xFFFFFFFF
KIND, OPTIONS, STATS = 1, 2, 3
# Of struct tc_stats: where packets and qlen stand.
PASSED_AT, WAITING_AT = 8, 28
BUFFER_BYTES = 1 << 16

# struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter
NETEM = struct.Struct("=IIIIII")
NETEM_LOSS, NETEM_LATENCY64, NETEM_SLOT, NETEM_SEED = 5, 10, 12, 14
# NETEM_LOSS_GE and struct tc_netem_gemodel (p, r, h, k1, in parts of 2^32); struct tc_netem_slot
NETEM_LOSS_GE, GE, SLOT = 2, struct.Struct("=IIII"), struct.Struct("=qqiiqq")
# struct tc_ratespec twice (cell_log, linklayer, overhead, cell_align, mpu, rate), limit, buffer, mtu
TBF = struct.Struct("=BBHhHI BBHhHI III")
TBF_PARMS, TBF_BURST = 1, 6
ETHERNET = 1  # TC_LINKLAYER_ETHERNET: no table of sizes is needed
FIFO = struct.Struct("=I")
# Managed queues' attributes, all of 32 bits: TCA_FQ_CODEL_*, TCA_PIE_*, TCA_CAKE_*.
MANAGED: Mapping[str, Mapping[str, int]] = {
    "fq_codel": {"target_us": 1, "limit": 2, "interval_us": 3},
    "pie": {"target_us": 1, "limit": 2},
    "cake": {"rtt_us": 7, "target_us": 8, "memory": 10},
}

# The kernel gives tbf's burst back as a time, and CoDel's times in units of 1024 ns, which are rounded.
ROUNDED = {"burst": 2, "target_us": 1, "interval_us": 1}

Knobs = Mapping[str, int]


class Qdisc(NamedTuple):
    """One discipline: its number, its parent's, its kind, its settings in the kernel's units; packets so far, in it."""

    handle: int
    parent: int
    kind: str
    knobs: Knobs = {}  # noqa: RUF012
    passed: int = 0
    waiting: int = 0


def _netem(knobs: Knobs) -> bytes:
    head = NETEM.pack(0, knobs["limit"], knobs["loss"], 0, 0, 0)
    late = _attribute(NETEM_LATENCY64, struct.pack("=q", knobs["delay_ns"]))
    slot_ns = knobs.get("slot_ns", 0)
    # a change without this attribute leaves the slots that there were
    slots = _attribute(NETEM_SLOT, SLOT.pack(slot_ns, slot_ns, 0, 0, 0, 0))
    runs = b""
    if "ge_p" in knobs:
        # h: 0 of what meets the bad state passes; k1: 0 of what meets the good one is lost
        runs = _attribute(NETEM_LOSS, _attribute(NETEM_LOSS_GE, GE.pack(knobs["ge_p"], knobs["ge_r"], 0, 0)))
    return head + late + slots + runs + _attribute(NETEM_SEED, struct.pack("=Q", knobs["seed"]))


def _netem_said(options: bytes) -> Knobs:
    _, limit, loss, *_ = NETEM.unpack_from(options)
    more = attributes(options, NETEM.size)
    (delay,), (seed,) = struct.unpack("=q", more[NETEM_LATENCY64]), struct.unpack("=Q", more[NETEM_SEED])
    found = {"limit": limit, "loss": loss, "delay_ns": delay, "seed": seed}
    if NETEM_LOSS_GE in (models := attributes(more.get(NETEM_LOSS, b""))):
        found["ge_p"], found["ge_r"], *_ = GE.unpack_from(models[NETEM_LOSS_GE])
    if slot_ns := SLOT.unpack_from(more[NETEM_SLOT])[0] if NETEM_SLOT in more else 0:
        found["slot_ns"] = slot_ns
    return found


def _tbf(knobs: Knobs) -> bytes:
    rate = (0, ETHERNET, 0, 0, 0, knobs["rate"])
    parms = TBF.pack(*rate, 0, 0, 0, 0, 0, 0, knobs["limit"], 0, 0)
    return _attribute(TBF_PARMS, parms) + _attribute(TBF_BURST, struct.pack("=I", knobs["burst"]))


def _tbf_said(options: bytes) -> Knobs:
    fields = TBF.unpack_from(attributes(options)[TBF_PARMS])
    # the burst comes back as the time that it takes, in ticks of 64 ns
    return {"rate": fields[5], "limit": fields[12], "burst": round(fields[13] * 64 * fields[5] / 1e9)}


def _fifo(knobs: Knobs) -> bytes:
    return FIFO.pack(knobs["limit"])


def _fifo_said(options: bytes) -> Knobs:
    return {"limit": FIFO.unpack_from(options)[0]}


def _managed(kind: str) -> tuple[Callable[[Knobs], bytes], Callable[[bytes], Knobs]]:
    names = MANAGED[kind]

    def write(knobs: Knobs) -> bytes:
        return b"".join(_attribute(names[knob], struct.pack("=I", value)) for knob, value in knobs.items())

    def read(options: bytes) -> Knobs:
        found = attributes(options)
        return {knob: struct.unpack("=I", found[number])[0] for knob, number in names.items() if number in found}

    return write, read


# kind -> how its settings are written and read. A kind that is not here has its kernel's defaults.
FORMS: Mapping[str, tuple[Callable[[Knobs], bytes], Callable[[bytes], Knobs]]] = {
    "netem": (_netem, _netem_said),
    "tbf": (_tbf, _tbf_said),
    "bfifo": (_fifo, _fifo_said),
    "pfifo": (_fifo, _fifo_said),
    **{kind: _managed(kind) for kind in MANAGED},
}


class Qdiscs:
    """The disciplines of one network namespace ("": where this thread stands)."""

    def __init__(self, netns: str = "") -> None:
        with inside(netns):
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
            self._index = dict((name, index) for index, name in socket.if_nameindex())
        self._shapes: dict[str, tuple[tuple[int, int, str], ...]] = {}
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    def put(self, wanted: Mapping[str, Sequence[Qdisc]]) -> None:
        """On each interface these, from the root to the leaf, and no other. Errors: `Missing`.

        Where the same kinds stand already in the same places they are changed, not made anew.
        """
        requests = [request for interface, qdiscs in wanted.items() for request in self._requests(interface, qdiscs)]
        first, parts = self._sequence + 1, []
        for kind, flags, body in requests:
            self._sequence += 1
            parts += [HEADER.pack(16 + len(body), kind, flags | REQUEST | ACK, self._sequence, 0), body]
        if parts:
            self._socket.send(b"".join(parts))
        left = len(requests)
        while left:
            for kind, body, sequence in self._received():
                if kind == ERROR and sequence >= first:
                    left -= 1
                    number = -struct.unpack_from("=i", body)[0]
                    # there may be none to delete
                    if number and requests[sequence - first][0] != DELETE:
                        raise Missing(f"queueing disciplines: the kernel refuses {wanted}: {os.strerror(number)}")
        self._shapes |= {interface: _shape(qdiscs) for interface, qdiscs in wanted.items()}

    def _requests(self, interface: str, qdiscs: Sequence[Qdisc]) -> list[tuple[int, int, bytes]]:
        index, found = self._index[interface], []
        # unknown until the kernel has taken all
        if self._shapes.pop(interface, None) != _shape(qdiscs):
            found.append((DELETE, 0, TCMSG.pack(0, index, 0, ROOT, 0)))
        for qdisc in qdiscs:
            body = TCMSG.pack(0, index, qdisc.handle, qdisc.parent, 0) + _attribute(KIND, qdisc.kind.encode() + b"\0")
            if qdisc.kind in FORMS:
                body += _attribute(OPTIONS, FORMS[qdisc.kind][0](qdisc.knobs))
            found.append((NEW, CREATE | REPLACE, body))
        return found

    def read(self) -> dict[str, dict[int, Qdisc]]:
        """All that stands: by interface, by handle."""
        self._sequence += 1
        body = TCMSG.pack(0, 0, 0, 0, 0)
        self._socket.send(HEADER.pack(16 + len(body), GET, REQUEST | DUMP, self._sequence, 0) + body)
        names = {index: name for name, index in self._index.items()}
        found: dict[str, dict[int, Qdisc]] = {name: {} for name in self._index}
        while True:
            for kind, body, sequence in self._received():
                if sequence != self._sequence:
                    continue
                if kind == NEW:
                    _, index, handle, parent, _ = TCMSG.unpack_from(body)
                    if index in names:
                        found[names[index]][handle] = _said(handle, parent, attributes(body, TCMSG.size))
                elif kind in (DONE, ERROR):
                    return found

    def _received(self) -> list[tuple[int, bytes, int]]:
        block, at = self._socket.recv(BUFFER_BYTES), 0
        found = []
        while at + 16 <= len(block):
            length, kind, _, sequence, _ = HEADER.unpack_from(block, at)
            found.append((kind, block[at + 16 : at + length], sequence))
            at += (length + 3) & ~3
        return found


def _shape(qdiscs: Sequence[Qdisc]) -> tuple[tuple[int, int, str], ...]:
    """What must be the same for a change in place."""
    return tuple((qdisc.handle, qdisc.parent, qdisc.kind) for qdisc in qdiscs)


def differences(wanted: Sequence[Qdisc], found: Mapping[int, Qdisc]) -> list[str]:
    """What is not as asked, in words: one a knob."""
    wrong = []
    for want in wanted:
        have = found.get(want.handle)
        if have is None or (have.kind, have.parent) != (want.kind, want.parent):
            wrong.append(f"{want.kind} {want.handle >> 16:x}: is {have.kind if have else 'absent'}")
            continue
        wrong += [
            f"{want.kind} {knob} is {have.knobs.get(knob)} instead of {value}"
            for knob, value in want.knobs.items()
            if abs(have.knobs.get(knob, -99) - value) > ROUNDED.get(knob, 0)
        ]
        wrong += [f"{want.kind} has {knob} {value}" for knob, value in have.knobs.items() if knob not in want.knobs]
    extra = [have.kind for handle, have in found.items() if handle and handle not in {want.handle for want in wanted}]
    return wrong + [f"there is also {kind}" for kind in extra]


def _said(handle: int, parent: int, told: Mapping[int, bytes]) -> Qdisc:
    kind = told[KIND].rstrip(b"\0").decode()
    passed, waiting = (struct.unpack_from("=I", told[STATS], at)[0] for at in (PASSED_AT, WAITING_AT))
    return Qdisc(handle, parent, kind, FORMS[kind][1](told[OPTIONS]) if kind in FORMS else {}, passed, waiting)


def _attribute(kind: int, body: bytes) -> bytes:
    """struct rtattr, padded to four bytes."""
    return struct.pack("=HH", 4 + len(body), kind) + body + bytes(-len(body) % 4)


def attributes(body: bytes, at: int = 0) -> dict[int, bytes]:
    """The attributes from there on, by kind."""
    found = {}
    while at + 4 <= len(body):
        length, kind = struct.unpack_from("=HH", body, at)
        if length < 4:
            break
        found[kind & 0x3FFF] = body[at + 4 : at + length]
        at += (length + 3) & ~3
    return found
