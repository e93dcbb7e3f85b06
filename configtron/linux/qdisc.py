# SPDX-License-Identifier: MIT
"""Queueing disciplines by netlink: written in one go, read back by value.

Rules for this file: it knows the wire format and nothing of network conditions. One socket for a namespace, one message
for all that changes at once, because a fork of `tc` costs more than the rest of a change, and because iproute2 6.1
cannot set netem's seed.

Dropped: correlations, reordering, corruption, rate and gaps of netem, peak rate and overhead of tbf, since `put` writes
none of them and deletes what others have set.

Source     linux/pkt_sched.h, linux/rtnetlink.h; net/sched/sch_netem.c, sch_tbf.c, sch_fifo.c
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from configtron.linux.netlink import CREATE, REPLACE, Netlink, NetlinkError, attribute, attributes
from configtron.linux.netns import inside
from configtron.model.errors import Missing

TCMSG = struct.Struct("=BxxxiIII")  # family, interface, handle, parent, info
NEW, DELETE, GET = 36, 37, 38
ROOT = 0xFFFFFFFF
_ANY_ERROR = range(1, 4096)  # MAX_ERRNO
KIND, OPTIONS, STATS = 1, 2, 3
# Of struct tc_stats: where packets and qlen stand.
PASSED_AT, WAITING_AT = 8, 28

# Packets under way at once on a path of 0.2 s at 500 Mbit/s of full segments; netem drops beyond its limit.
NETEM_LIMIT_PACKETS = 100_000
# struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter
NETEM = struct.Struct("=IIIIII")
NETEM_DELAY_DIST, NETEM_LOSS, NETEM_LATENCY64, NETEM_JITTER64, NETEM_SLOT, NETEM_SEED = 2, 5, 10, 11, 12, 14
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
NOTHING: Knobs = MappingProxyType({})


class Qdisc(NamedTuple):
    """One discipline: its number, its parent's, its kind, its settings in the kernel's units; packets so far, in it.

    delays   netem's table of delays, shares of the jitter in units of 1/8192; the kernel does not list it again
    """

    handle: int
    parent: int
    kind: str
    knobs: Knobs = {}  # noqa: RUF012
    passed: int = 0
    waiting: int = 0
    delays: Sequence[int] = ()


def netem(*, delay_ms: float, seed: int, loss: float = 0.0, more: Knobs = NOTHING, delays: Sequence[int] = ()) -> Qdisc:
    """Return a netem at a device's root that holds `NETEM_LIMIT_PACKETS`.

    loss    share of the packets lost one by one, 0 to 1
    seed    of its own chance, 64 bits
    more    further knobs in the kernel's units: duplicate, jitter_ns, slot_ns, ge_p and ge_r (then without `loss`)
    delays  table of delays, as in `Qdisc`
    """
    knobs = {"limit": NETEM_LIMIT_PACKETS, "loss": round(loss * 0xFFFFFFFF), "delay_ns": round(delay_ms * 1e6)}
    return Qdisc(0x10000, ROOT, "netem", {**knobs, "seed": seed, **more}, delays=delays)


def _netem(knobs: Knobs) -> bytes:
    head = NETEM.pack(0, knobs["limit"], knobs["loss"], 0, knobs.get("duplicate", 0), 0)
    late = attribute(NETEM_LATENCY64, struct.pack("=q", knobs["delay_ns"]))
    slot_ns = knobs.get("slot_ns", 0)
    # a change without this attribute leaves the slots that there were
    slots = attribute(NETEM_SLOT, SLOT.pack(slot_ns, slot_ns, 0, 0, 0, 0))
    runs = b""
    if "ge_p" in knobs:
        # h: 0 of what meets the bad state passes; k1: 0 of what meets the good one is lost
        runs = attribute(NETEM_LOSS, attribute(NETEM_LOSS_GE, GE.pack(knobs["ge_p"], knobs["ge_r"], 0, 0)))
    jitter_ns = knobs.get("jitter_ns", 0)
    jitter = attribute(NETEM_JITTER64, struct.pack("=q", jitter_ns)) if jitter_ns else b""
    return head + late + jitter + slots + runs + attribute(NETEM_SEED, struct.pack("=Q", knobs["seed"]))


def _netem_read(options: bytes) -> Knobs:
    _, limit, loss, _, duplicate, _ = NETEM.unpack_from(options)
    more = attributes(options, NETEM.size)
    (delay,), (seed,) = struct.unpack("=q", more[NETEM_LATENCY64]), struct.unpack("=Q", more[NETEM_SEED])
    found = {"limit": limit, "loss": loss, "delay_ns": delay, "seed": seed}
    if NETEM_LOSS_GE in (models := attributes(more.get(NETEM_LOSS, b""))):
        found["ge_p"], found["ge_r"], *_ = GE.unpack_from(models[NETEM_LOSS_GE])
    if duplicate:
        found["duplicate"] = duplicate
    if jitter_ns := struct.unpack("=q", more[NETEM_JITTER64])[0] if NETEM_JITTER64 in more else 0:
        found["jitter_ns"] = jitter_ns
    if slot_ns := SLOT.unpack_from(more[NETEM_SLOT])[0] if NETEM_SLOT in more else 0:
        found["slot_ns"] = slot_ns
    return found


def _tbf(knobs: Knobs) -> bytes:
    rate = (0, ETHERNET, 0, 0, 0, knobs["rate"])
    parms = TBF.pack(*rate, 0, 0, 0, 0, 0, 0, knobs["limit"], 0, 0)
    return attribute(TBF_PARMS, parms) + attribute(TBF_BURST, struct.pack("=I", knobs["burst"]))


def _tbf_read(options: bytes) -> Knobs:
    fields = TBF.unpack_from(attributes(options)[TBF_PARMS])
    # the burst comes back as the time that it takes, in ticks of 64 ns
    return {"rate": fields[5], "limit": fields[12], "burst": round(fields[13] * 64 * fields[5] / 1e9)}


def _fifo(knobs: Knobs) -> bytes:
    return FIFO.pack(knobs["limit"])


def _fifo_read(options: bytes) -> Knobs:
    return {"limit": FIFO.unpack_from(options)[0]}


def _managed(kind: str) -> tuple[Callable[[Knobs], bytes], Callable[[bytes], Knobs]]:
    names = MANAGED[kind]

    def write(knobs: Knobs) -> bytes:
        return b"".join(attribute(names[knob], struct.pack("=I", value)) for knob, value in knobs.items())

    def read(options: bytes) -> Knobs:
        found = attributes(options)
        return {knob: struct.unpack("=I", found[number])[0] for knob, number in names.items() if number in found}

    return write, read


# kind -> how its settings are written and read. A kind that is not here has its kernel's defaults.
FORMS: Mapping[str, tuple[Callable[[Knobs], bytes], Callable[[bytes], Knobs]]] = {
    "netem": (_netem, _netem_read),
    "tbf": (_tbf, _tbf_read),
    "bfifo": (_fifo, _fifo_read),
    "pfifo": (_fifo, _fifo_read),
    **{kind: _managed(kind) for kind in MANAGED},
}


class Qdiscs:
    """The disciplines of one network namespace ("": where this thread stands)."""

    def __init__(self, netns: str = "") -> None:
        self._net = Netlink(netns)
        with inside(netns):
            self._index = dict((name, index) for index, name in socket.if_nameindex())
        self._shapes: dict[str, tuple[tuple[int, int, str], ...]] = {}

    def close(self) -> None:
        """Close the socket."""
        self._net.close()

    def put(self, wanted: Mapping[str, Sequence[Qdisc]]) -> None:
        """Set these disciplines on each interface, from the root to the leaf, and no other. Errors: `Missing`.

        Where the same kinds stand already in the same places they are changed, not made anew.
        """
        stale = [interface for interface, qdiscs in wanted.items() if self._shapes.get(interface) != _shape(qdiscs)]
        for interface in stale:
            self._shapes.pop(interface, None)  # unknown until the kernel has taken all
        # There may be none to delete.
        self._net.write(
            ((DELETE, 0, TCMSG.pack(0, self._index[interface], 0, ROOT, 0)) for interface in stale), forgiven=_ANY_ERROR
        )
        requests = (request for interface, qdiscs in wanted.items() for request in self._requests(interface, qdiscs))
        try:
            self._net.write(requests)
        except NetlinkError as error:
            raise Missing(f"queueing disciplines: the kernel refuses {wanted}: {os.strerror(error.number)}") from error
        self._shapes |= {interface: _shape(qdiscs) for interface, qdiscs in wanted.items()}

    def _requests(self, interface: str, qdiscs: Sequence[Qdisc]) -> list[tuple[int, int, bytes]]:
        index, found = self._index[interface], []
        for qdisc in qdiscs:
            body = TCMSG.pack(0, index, qdisc.handle, qdisc.parent, 0) + attribute(KIND, qdisc.kind.encode() + b"\0")
            if qdisc.kind in FORMS:
                table = struct.pack(f"={len(qdisc.delays)}h", *qdisc.delays)
                options = FORMS[qdisc.kind][0](qdisc.knobs) + (attribute(NETEM_DELAY_DIST, table) if table else b"")
                body += attribute(OPTIONS, options)
            found.append((NEW, CREATE | REPLACE, body))
        return found

    def read(self) -> dict[str, dict[int, Qdisc]]:
        """Return all that stands: by interface, by handle."""
        names = {index: name for name, index in self._index.items()}
        found: dict[str, dict[int, Qdisc]] = {name: {} for name in self._index}
        for body in self._net.dump(GET, TCMSG.pack(0, 0, 0, 0, 0)):
            _, index, handle, parent, _ = TCMSG.unpack_from(body)
            if index in names:
                found[names[index]][handle] = _parsed(handle, parent, attributes(body, TCMSG.size))
        return found


def _shape(qdiscs: Sequence[Qdisc]) -> tuple[tuple[int, int, str], ...]:
    """Return handle, parent and kind of each discipline, which must stay equal for a change in place."""
    return tuple((qdisc.handle, qdisc.parent, qdisc.kind) for qdisc in qdiscs)


def differences(wanted: Sequence[Qdisc], found: Mapping[int, Qdisc]) -> list[str]:
    """Return the differences from the request, one line for each setting."""
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


def _parsed(handle: int, parent: int, found: Mapping[int, bytes]) -> Qdisc:
    kind = found[KIND].rstrip(b"\0").decode()
    passed, waiting = (struct.unpack_from("=I", found[STATS], at)[0] for at in (PASSED_AT, WAITING_AT))
    return Qdisc(handle, parent, kind, FORMS[kind][1](found[OPTIONS]) if kind in FORMS else {}, passed, waiting)
