# SPDX-License-Identifier: MIT
"""Servers, router and client of the testbed, and the link between them, which is a condition's.

Question   How does a page load meet a network of known rate, delay, loss and queue, the same at each repetition?
Method     Three network namespaces:

               servers s0 --- r1 (router, here) r2 --- c0 client        what a load takes
               servers s1 --- r3                                        a way without delay: for the witness (stack.py)
                              play0 === the player === play1 client     instead of r2, when the link is uneven

           All origins are addresses of the one namespace "servers". The router's queues are the link: netem delays and
           loses by a seed, tbf and a fifo below it are the bottleneck. What the kernel cannot be is played (player.py).
           Offloads are off (netem would delay and drop 64 kB at once); neighbours are permanent (no ARP before a load);
           TCP forgets what it knew of a client.
Reads as   Every queue is read back by value after each change, the player by its answer.
Fails as   `Mismatch` naming the cell, the interface and the knob.
Differs    from Mahimahi in the kernel's links: loss and delay come before the queue, not after it. A rate counts IP
           packets of full size, as Mahimahi does, and not Ethernet's header too, as tc does.
Source     Linux net/sched/sch_netem.c, sch_tbf.c; Mahimahi's link queue (Netravali and others 2015)
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from configtron.lab.internet import links
from configtron.lab.internet.links import splitmix64
from configtron.lab.testbed.conditions import PACKET_BYTES, Condition, LinkChange, LinkDirection
from configtron.lab.testbed.player import Counts, TracePlayer
from configtron.lab.testbed.wires import (
    CLIENT,
    CLIENT_ADDRESS,
    CLIENT_DEVICE,
    CLIENT_PREFIX,
    DEVICE_PACKETS,
    FAR,
    MOST_ORIGINS,
    NEAR,
    ORIGINS_NET,
    SERVERS,
    TO_CLIENT,
    TO_SERVERS,
    raise_wires,
)
from configtron.linux.netns import inside
from configtron.linux.qdisc import ROOT, Qdisc, Qdiscs, differences, netem
from configtron.model.errors import BadInput, ConfigtronError, Mismatch, Missing

__all__ = ["CLIENT", "CLIENT_ADDRESS", "CLIENT_PREFIX", "SERVERS", "Testbed", "queues", "raise_testbed"]

# An IP packet of full size with Ethernet's header, which tc counts.
FRAME_BYTES = PACKET_BYTES + 14
# tbf lets one frame go at once, whatever its rate; a little more, so that a frame is not held for a rounded byte.
BURST_BYTES = FRAME_BYTES + 86
# What was under way is gone by then, or something goes on sending: 426 packets at 0.1 Mbit/s take 51 s; a flood's
# acknowledgements, each by itself over 0.12 Mbit/s, some minutes.
PATIENCE_S = 600.0
# At rest is what sends nothing for so long: longer than a first retransmission waits on most of the paths. Seconds cost
# nothing in virtual time; each look does.
QUIET_S = 1.0
# How soon a listener hears that there is nothing more to listen for.
HEAR_S = 0.25
# <linux/if_ether.h>
ETH_P_ALL = 3
# A packet of 1500 bytes takes 2304 in a receive buffer, its payload being 0.62 of that.
BUFFER_OF_WINDOW = 1.6
# A queue without end.
ENDLESS_BYTES = 1 << 30
# A number for each kind of bottleneck's queue, because a discipline's kind never changes under its number.
LEAVES = {"bfifo": 0x200000, "pfifo": 0x210000, "fq_codel": 0x220000, "cake": 0x230000, "pie": 0x240000}


class Testbed:
    """A raised testbed. It stays as long as its guest; `close` ends the player.

    addresses   origin -> the servers' address for it
    condition   what is in force
    """

    def __init__(self, addresses: Mapping[str, str], player: Path | None) -> None:
        self.addresses = addresses
        self.condition: Condition | None = None
        self._seed, self._cell = 0, ""
        self._program = player
        self._player: TracePlayer | None = None
        self._is_played = False
        self._qdiscs = Qdiscs()
        self._found: Mapping[str, Mapping[int, Qdisc]] = {}

    @property
    def seen(self) -> dict[str, str]:
        """What the kernel reported of the link at the last change: a text a device, from the root to the leaf.

        Without seeds, which differ between loads. Of a played link the kernel knows nothing: its player reports it.
        """
        if self._is_played and self._player:
            played = self._player.seen
            return {TO_CLIENT: f"played {played['down']}", TO_SERVERS: f"played {played['up']}"}
        return {device: qdisc_text(self._found[device].values()) for device in (TO_CLIENT, TO_SERVERS)}

    def change(self, condition: Condition, *, seed: int, cell: str = "") -> None:
        """Put a condition in force and read it back; its chance begins anew from `seed` and the condition's salt.

        For before every load: what went before has come to rest then. Errors: `Mismatch`, naming
        `cell` and the knob; `BadInput` for a trace that is not there.
        """
        self._cell = cell or condition.name
        self._rest()
        self.condition, self._seed = condition, seed
        self._lead(condition.is_played)
        self._put(condition.down, condition.up, seed)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While inside, the condition's steps happen, their times counted from the client's next packet.

        For around a load. Errors: those of `change`.
        """
        if not (self.condition and self.condition.steps):
            yield
            return
        over, errors = threading.Event(), list[ConfigtronError]()
        with self._listening() as heard:
            follower = threading.Thread(target=self._follow, args=(self.condition.steps, heard, over, errors))
            follower.start()
            try:
                yield
            finally:
                over.set()
                follower.join()
        if errors:
            raise errors[0]

    @contextmanager
    def _listening(self) -> Iterator[socket.socket]:
        """To what the client sends, on its device, so before any delay."""
        with inside(CLIENT):
            heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        with heard:
            # one packet is enough to hear; the kernel makes it as small as it may be
            heard.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            heard.bind((FAR if self._is_played else CLIENT_DEVICE, ETH_P_ALL))
            heard.settimeout(HEAR_S)
            yield heard

    def _follow(
        self, steps: Sequence[LinkChange], heard: socket.socket, over: threading.Event, errors: list[ConfigtronError]
    ) -> None:
        while not over.is_set():
            with suppress(TimeoutError):
                heard.recv(PACKET_BYTES)
                break
        began = time.monotonic()
        for number, step in enumerate(steps, 1):
            if over.wait(max(0.0, began + step.at_s - time.monotonic())):
                return
            try:
                self._put(step.down, step.up, splitmix64(self._seed + number), waits=False)
            except ConfigtronError as error:
                errors.append(error)

    def _rest(self) -> None:
        """Wait until nothing is under way, and nothing comes. Errors: `Mismatch` when that takes too long."""
        deadline, before = time.monotonic() + PATIENCE_S, self._traffic()
        while True:
            time.sleep(QUIET_S)
            now = self._traffic()
            if not now[0] and now == before:
                return
            if time.monotonic() > deadline:
                raise Mismatch(f"{self._cell}: what went before does not come to rest; {now[0]} packets are waiting")
            before = now

    def _traffic(self) -> tuple[int, int]:
        """Return packets waiting on the link, packets that went by."""
        found = self._qdiscs.read()
        roots = [q for device in (TO_CLIENT, TO_SERVERS) for q in found[device].values() if q.parent == ROOT]
        counts = self.counts().values()
        waiting = sum(qdisc.waiting for qdisc in roots) + sum(count.waiting for count in counts)
        return waiting, sum(qdisc.passed for qdisc in roots) + sum(count.arrived for count in counts)

    def counts(self) -> Mapping[str, Counts]:
        """Return the player's packets carried, dropped and lost; empty when the kernel is the link."""
        return self._player.counts() if self._player and self._is_played else {}

    def close(self) -> None:
        """End the player, if one runs."""
        self._qdiscs.close()
        if self._player:
            self._player.close()

    def _put(self, down: LinkDirection, up: LinkDirection, seed: int, *, waits: bool = True) -> None:
        assert self.condition
        salt = self.condition.salt
        chance = splitmix64(salt ^ splitmix64(seed))
        try:
            if self._is_played:
                assert self._player
                self._player.put({"down": down, "up": up}, salt=salt, seed=chance, waits=waits)
                wanted: dict[str, tuple[Qdisc, ...]] = {TO_CLIENT: (), TO_SERVERS: ()}
            else:
                wanted = {TO_CLIENT: queues(down, splitmix64(chance)), TO_SERVERS: queues(up, splitmix64(chance + 1))}
            self._qdiscs.put(wanted)
            found = self._found = self._qdiscs.read()
        except (Missing, Mismatch) as error:
            raise Mismatch(f"{self._cell}: {error}") from error
        wrong = [f"{device}: {words}" for device, q in wanted.items() for words in differences(q, found[device])]
        if wrong:
            raise Mismatch(f"{self._cell}: the link is not as asked: {'; '.join(wrong)}")

    def _lead(self, is_played: bool) -> None:
        """Packets go by the player's devices or by the kernel's link; read back."""
        if is_played and self._player is None:
            self._start_player()
        if is_played != self._is_played:
            word = "replace" if is_played else "del"
            links.ip("", [f"route {word} {CLIENT_ADDRESS}/32 dev {NEAR}"])
            links.ip(CLIENT, [f"route {word} {ORIGINS_NET}.0/24 dev {FAR} src {CLIENT_ADDRESS}"])
        self._is_played = is_played

    def _start_player(self) -> None:
        if self._program is None:
            raise BadInput("this condition is played; raise the testbed with the player's program (player.program())")
        self._player = TracePlayer(self._program, netns=CLIENT, near=NEAR, far=FAR)
        for netns, device in (("", NEAR), (CLIENT, FAR)):
            links.ip(netns, [f"link set {device} txqueuelen {DEVICE_PACKETS} mtu {PACKET_BYTES} up"])


def raise_testbed(
    condition: Condition, origins: Sequence[str], *, seed: int = 0, player: Path | None = None
) -> Testbed:
    """Namespaces, links, addresses, routes, and `condition` in force. Once a boot.

    player   `player.program()`, built on the host: needed where a condition is played (`Condition.is_played`)
    Errors: `Missing` without root or kernel features, `Mismatch` where something does not read back.
    """
    if not 0 < len(set(origins)) <= MOST_ORIGINS:
        raise BadInput(f"a testbed has 1 to {MOST_ORIGINS} origins, not {len(set(origins))}")
    addresses = {name: f"{ORIGINS_NET}.{number}" for number, name in enumerate(dict.fromkeys(origins), 1)}
    raise_wires(list(addresses.values()))
    testbed = Testbed(addresses, player)
    testbed.change(condition, seed=seed)
    return testbed


def limit_window(window_bytes: int) -> None:
    """The client advertises at most so much, read back of its kernel. Errors: `Missing`.

    Linux offers half of a buffer at first, then what full packets are of the memory they take (tcp_scaling_ratio).
    """
    most = round(BUFFER_OF_WINDOW * window_bytes)
    links.sysctl(CLIENT, [("net/ipv4/tcp_rmem", f"4096 {min(131_072, most)} {most}")])


def qdisc_text(qdiscs: Iterable[Qdisc]) -> str:
    """Queueing disciplines in words, from the root to the leaf."""
    numbered = [qdisc for qdisc in qdiscs if qdisc.handle]
    ordered = sorted(numbered, key=lambda qdisc: (qdisc.parent != ROOT, qdisc.handle))
    settings = [" ".join(f"{k} {v}" for k, v in sorted(qdisc.knobs.items()) if k != "seed") for qdisc in ordered]
    return ", ".join(f"{qdisc.kind} {words}".strip() for qdisc, words in zip(ordered, settings, strict=True))


def queues(way: LinkDirection, seed: int) -> tuple[Qdisc, ...]:
    """Return an even way as queueing disciplines, from the root to the leaf."""
    delay = netem(delay_ms=way.delay_ms, seed=seed, more=_losses(way))
    if not way.rate_kbit:
        return (delay,)
    room = way.queue_bytes or ENDLESS_BYTES
    kind, limit = ("pfifo", way.queue_packets) if way.queue_packets else ("bfifo", room)
    rate = round(way.rate_kbit * 1e3 / 8 * FRAME_BYTES / PACKET_BYTES)
    tbf = Qdisc(0x100000, 0x10001, "tbf", {"rate": rate, "burst": BURST_BYTES, "limit": limit})
    if way.aqm:
        return (delay, tbf, Qdisc(LEAVES[way.aqm], 0x100001, way.aqm, _managed(way.aqm, room)))
    return (delay, tbf, Qdisc(LEAVES[kind], 0x100001, kind, {"limit": limit}))


def _losses(way: LinkDirection) -> dict[str, int]:
    """Netem's losses and slots: each loss by itself, or Gilbert's and Elliott's chain with a run's mean length."""
    found = {"loss": round(way.loss * 0xFFFFFFFF)}
    if way.loss_run:
        back = 1 / way.loss_run
        there = back * way.loss / (1 - way.loss)
        found = {"loss": 0, "ge_p": round(there * 0xFFFFFFFF), "ge_r": round(back * 0xFFFFFFFF)}
    if way.slot_ms:
        found["slot_ns"] = round(way.slot_ms * 1e6)
    return found


def _managed(kind: str, room: int) -> dict[str, int]:
    """Return the settings that sch_fq_codel.c, sch_pie.c and sch_cake.c begin with, but for the room."""
    packets = max(2, room // PACKET_BYTES)
    return {
        "fq_codel": {"target_us": 5_000, "interval_us": 100_000, "limit": packets},
        "pie": {"target_us": 15_000, "limit": packets},
        "cake": {"rtt_us": 100_000, "target_us": 5_000, "memory": room},
    }[kind]
