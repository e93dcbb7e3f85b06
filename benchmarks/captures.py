# SPDX-License-Identifier: MIT
"""Claim: no initial window that `fingerprint pcap` reads from captures of others is false, at A, B, C or L.

    python -m benchmarks.captures [--captures 500] [--seed N] [--shown]     a seed is drawn and printed

Each capture shows one server, whose window is known, and a few of its clients. A small TCP sender of this file, which
shares no code with the readers, plays them: over jitter, loss and doubled packets; slow handshakes (ARP, a cold NAT, a
proxy that connects first, SYN cookies, a full accept queue); programs that write in pieces, in TLS records, by turns or
as fast as an upstream server feeds them; paced senders; delayed and gathered ACKs; small receive windows; captures at
either end or between, with frames that offloading merged. An exact value (A, B, C) is false if it is not the window, a
bound (L) if it is more. For comparison it prints what silence and constants get. Exit code 1: something is false.
"""

from __future__ import annotations

import random
import struct
import sys
import tempfile
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

from configtron.report.connections import Servers
from configtron.service.capture.reading import CaptureReading
from tests.support import capture_bytes as write

FIN, SYN, PSH, ACK = 1, 2, 8, 16
WINDOWS = (1, 2, 2, 3, 4, 4, 5, 7, 8, 10, 10, 10, 10, 13, 16, 20, 30, 32, 48)
CONSTANTS = (1, 2, 4, 10)
HEAD = b"HTTP/1.1 200 OK\r\nServer: made\r\n\r\n"
# A connection is played for so many seconds.
LONG_S = 30.0
Steps = list[tuple[str, Any]]


def records(kind: int, *sizes: int) -> bytes:
    """Return TLS records of these payload sizes (bytes)."""
    return b"".join(struct.pack(">BHH", kind, 0x303, size) + bytes(size) for size in sizes)


def cut(data: bytes, size: int) -> Steps:
    """Return writes of at most `size` bytes without a pause between them."""
    return [("write", data[at : at + size]) for at in range(0, len(data), size)]


def script(
    kind: str, chance: random.Random, full: int, asked: int, hold_s: float
) -> tuple[Steps, list[tuple[int, int]]]:
    """Return (steps, turns) of a connection.

    steps   what the server does: wait for bytes of the client ("need"), pause (s), write
    turns   further requests: (bytes that the client has got by then, bytes that it asks)
    """
    body = bytes(int(chance.choice((0.1, 0.5, 1, 1.3, 2, 4)) * full * chance.uniform(0.9, 1.1)))
    head, think = (
        HEAD + bytes(chance.choice((0, 80, 200, 400, 1100))),
        ("pause", hold_s or chance.choice((0, 0, 0.001, 0.03, 0.4))),
    )
    start: Steps = [("need", asked), think]
    if kind == "whole":
        return [*start, *cut(head + body, chance.choice((1 << 20, 65536, 8192, 4096)))], []
    if kind == "head":
        return [*start, ("write", head), ("pause", chance.choice((0, 0, 0.001, 0.05))), *cut(body, 1 << 16)], []
    if kind == "continue":
        first = b"HTTP/1.1 100 Continue\r\n\r\n"
        steps: Steps = [("need", asked), ("write", first), ("need", asked + 700), think, *cut(head + body, 1 << 16)]
        return steps, [(len(first), 700)]
    if kind == "hints":
        return [
            *start,
            ("write", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
            think,
            *cut(head + body, 1 << 16),
        ], []
    if kind in ("pieces", "fed"):
        size, gap_s = (
            chance.choice((500, 1448, 2896, 4096, 5000, 8192, 14600)),
            chance.choice((0.0005, 0.01, 0.04, 0.09)),
        )
        out, at = [*start, ("write", head)] if chance.random() < 0.5 else start, 0
        while at < len(body):
            out += [("write", body[at : at + size]), ("pause", gap_s * chance.uniform(0.8, 1.2))]
            at, size = at + size, size * 2 if kind == "fed" else size
        return out, []
    first = records(22, 90) + records(20, 1) + records(23, 32, chance.randrange(2000, 6000), 280, 53)
    again = records(23, *[chance.choice((1400, 4000, 8000, 16401))] * (1 + len(body) // 8000))
    half = chance.choice((len(first), 127, chance.randrange(130, len(first)), chance.randrange(1, 4) * 1448))
    tickets = records(23, 255, 255) if kind == "tls13" else records(22, 180) + records(20, 1) + records(22, 40)
    turn: Steps = [("need", asked + 80), ("write", tickets), ("need", asked + 80 + 300), think]
    return (
        [("need", asked), *cut(first, half), *turn, *cut(again, chance.choice((4096, 16406, 1 << 16)))],
        [(len(first), 80), (len(first) + (kind == "tls12") * len(tickets), 300)],
    )


class Talk:
    """One connection: a queue of events, a sender with its window, a receiver, and what the capture sees."""

    def __init__(self, chance: random.Random, server: dict[str, Any], port: int) -> None:
        pick = chance.choice
        self.chance, self.server, self.at, self.port = chance, server, 0.0, port
        self.events: list[tuple[float, int, Any, tuple[Any, ...]]] = []
        self.order, self.frames = count(), list[list[Any]]()
        rtt_s = pick((0.0004, 0.003, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3)) * chance.uniform(0.7, 1.3)
        # The share of the path between client and capture.
        self.near = pick((0.001, 0.001, 0.999, 0.999, chance.random()))
        self.rate, self.free = pick((1e12, 1e12, 2e8, 2e7, 5e6)), [0.0, 0.0]
        # A slow access link has a delay of its own.
        rtt_s += 2e4 / self.rate
        self.legs, self.jitter_s = (
            (rtt_s / 2 * self.near, rtt_s / 2 * (1 - self.near)),
            rtt_s * pick((0, 0.01, 0.05, 0.2)),
        )
        self.loss, self.double = pick((0, 0, 0, 0, 0.01, 0.05)), pick((0, 0, 0, 0, 0.02))
        self.cold_s, self.cold_leg = (
            pick((0, 0, 0.001, rtt_s * chance.uniform(0.3, 8), chance.uniform(0.02, 0.7))),
            pick((0, 1)),
        )
        self.stamps, self.sack, cookie = (
            server["stamps"] and chance.random() < 0.7,
            chance.random() < 0.8,
            server["cookie"],
        )
        self.ticks, self.mss = (pick((0.001, 0.001, 0.001, 0.004, 0.01)), server["tick_s"]), pick(server["offers"])
        top = min(self.mss, server["mss"])
        top = max(size for size in (536, 1300, 1440, 1460) if size <= top) if cookie else top
        self.size, self.rich = top - 12 * self.stamps, not cookie or self.stamps
        self.shift, self.room = pick((0, 7)) * self.rich, pick((65535, 65535, 29200, 14600, 8192, 5840))
        self.merges, self.gathers, self.delayed_s = (
            chance.random() < 0.4,
            pick((1, 2, 2, 2, 8, 64)),
            pick((0.04, 0.04, 0.2)),
        )
        self.idents, self.passed, self.recent = [chance.randrange(60000) for _ in (0, 1)], [0.0, 0.0], [0, 0]
        # The server's stream, where its writes end, what was sent and acknowledged; packets out; its window.
        self.stream, self.ends, self.sent, self.una, self.out = bytearray(), set[int](), 0, 0, list[int]()
        self.window, self.edge, self.timer, self.repeats, self.paced = server["window"], 0, 0, 0, False
        self.rtt_s: Any = None
        self.probed, self.expired = -1, 0
        # Client: bytes in order, segments not acknowledged, early segments, bytes asked. Server: bytes of these that
        # arrived. Both: the last ACK number.
        self.got, self.unacked, self.early, self.asked, self.heard, self.told = 0, 0, dict[int, int](), 0, 0, [0, 0]
        self.opened, self.first = [False, False], chance.choice((90, 300, 517, 1800))
        self.steps, self.turns = script(
            server["kind"], chance, server["window"] * self.size, self.first, server["hold_s"]
        )
        self.closes = chance.random() < 0.6

    def later(self, after_s: float, what: Any, *words: Any) -> None:
        """Queue an event."""
        heappush(self.events, (self.at + after_s, next(self.order), what, words))

    def play(self, start_s: float) -> Iterator[tuple[int, bytes]]:
        """Yield the frames of the capture."""
        self.syn()
        while self.events and self.events[0][0] < LONG_S:
            self.at, _, what, words = heappop(self.events)
            what(*words)
        for at, *packet in self.frames:
            yield round((start_s + at) * 1e9), self.frame(*packet)

    def frame(self, way: int, flags: int, seq: int, ack: int, size: int, stamp: tuple[int, int], ident: int) -> bytes:
        """Return an IPv4 packet."""
        base, shift = (7000, 4294960000), 0 if flags & SYN else self.shift
        options = b"\4\2\1\1" * (self.sack and self.rich) + b"\1\3\3\7" * (self.shift > 0)
        options = struct.pack(">BBH", 2, 4, (self.mss, self.server["mss"])[way]) + options if flags & SYN else b""
        options += struct.pack(">BBBBII", 1, 1, 8, 10, *stamp) * self.stamps
        data = (self.stream if way else b"GET / HTTP/1.1\r\n" + bytes(4000))[seq - 1 : seq - 1 + size] if size else b""
        ports, ends = (80, self.port)[:: 1 if way else -1], (b"\xc6\x33\x64\2", b"\xc0\0\2\1")[:: 1 if way else -1]
        numbers = (seq + base[way]) & 0xFFFFFFFF, (ack + base[1 - way]) & 0xFFFFFFFF if flags & ACK else 0
        room = 64000 if way else min(self.room >> shift, 65535)
        tcp = struct.pack(">HHIIBBHHH", *ports, *numbers, (20 + len(options)) << 2, flags, room, ident * 31 & 65535, 0)
        length = 20 + len(tcp) + len(options) + len(data)
        return (
            struct.pack(">BBHHHBBH", 69, 0, min(length, 65535), ident, 16384, 60, 6, 0)
            + b"".join(ends)
            + tcp
            + options
            + data
        )

    def emit(self, way: int, flags: int, seq: int, ack: int, size: int = 0) -> None:
        """Send a packet over the first leg, past the capture, and over the second leg."""
        self.idents[way] = self.idents[way] + 1 & 65535
        self.told[way] = ack
        packet = (
            way,
            flags,
            seq,
            ack,
            size,
            (int((self.at + 99) / self.ticks[way]), self.recent[way]),
            self.idents[way],
        )
        self.free[way] = max(self.free[way], self.at) + (size + 40) * 8 / self.rate * way
        legs, fate = self.legs[::-1] if way else self.legs, self.chance.random()
        slow = [self.cold_s * (flags == SYN and self.cold_leg == leg) for leg in (0, 1)]
        for _ in range(1 + (self.chance.random() < self.double)):
            at = self.free[way] + legs[0] + slow[0] + self.chance.expovariate(1) * self.jitter_s / 2
            at = self.passed[way] = max(at, self.passed[way] + 1e-7)
            if fate >= self.loss / 2:
                self.see(at, packet)
            if fate >= self.loss:
                self.later(
                    at - self.at + legs[1] + slow[1] + self.chance.expovariate(1) * self.jitter_s / 2,
                    self.take,
                    *packet,
                )

    def see(self, at: float, packet: tuple[Any, ...]) -> None:
        """Capture a packet; where offloading merges, append it to the frame before."""
        way, flags, seq, _, size, *_ = packet
        last = next((frame for frame in reversed(self.frames) if frame[1] == way), None)
        joins = self.merges and way and size and last and seq == last[3] + last[5] and last[5] and not (last[2] & PSH)
        joins = joins and last and last[6] == packet[5]
        if joins and last and at - last[0] < 0.0001 and last[5] + size < 64000 and not self.double:
            last[2], last[5] = last[2] | flags, last[5] + size
        else:
            self.frames.append([at, *packet])

    def syn(self, wait_s: float = 1.0) -> None:
        """Send the client's SYN; repeat it until the connection is open."""
        if not self.opened[0]:
            self.emit(0, SYN, 0, 0)
            self.later(wait_s, self.syn, wait_s * 2)

    def answer(self, wait_s: float = 1.0) -> None:
        """Send the SYN-ACK; repeat it until its ACK arrives, unless the server uses SYN cookies."""
        if not self.opened[1]:
            self.rtt_s = -self.at if self.rtt_s is None else 0.0
            self.emit(1, SYN | ACK, 0, 1)
            if not self.server["cookie"]:
                self.later(wait_s, self.answer, wait_s * 2)

    def ask(self, size: int, wait_s: float = 1.0) -> None:
        """Send a request; repeat it until it arrives."""
        end, self.asked = self.asked + size, self.asked + size
        for at in range(end - size, end, 1400):
            self.emit(0, ACK | PSH, 1 + at, 1 + self.got, min(1400, end - at))
        self.later(wait_s, self.insist, end - size, size, wait_s * 2)

    def insist(self, begin: int, size: int, wait_s: float) -> None:
        """Repeat a request that did not arrive."""
        if self.heard < begin + size:
            self.emit(0, ACK | PSH, 1 + begin, 1 + self.got, min(1400, size))
            if size > 1400:
                self.emit(0, ACK | PSH, 1 + begin + 1400, 1 + self.got, size - 1400)
            self.later(wait_s, self.insist, begin, size, wait_s * 2)

    def take(self, way: int, flags: int, seq: int, ack: int, size: int, stamp: tuple[int, int], _: int) -> None:
        """Receive a packet."""
        if seq <= self.told[1 - way]:
            self.recent[1 - way] = max(stamp[0], self.recent[1 - way])
        if way:
            return self.client(flags, seq, size)
        if flags == SYN:
            return self.later(self.server["hold_s"] * self.chance.uniform(0.8, 1.2), self.answer)
        if not self.opened[1]:
            self.opened[1] = True
            self.rtt_s = self.at + self.rtt_s if self.rtt_s < 0 else 1.0
        self.heard = max(self.heard, seq - 1 + size) if seq - 1 <= self.heard else self.heard
        if size:
            self.later(0.04, self.owe)
        self.edge = max(self.edge, ack - 1 + self.room)
        self.acked(ack - 1, bare=not size)
        self.run()
        return None

    def owe(self) -> None:
        """Send a delayed ACK of the server, unless data carried it."""
        if self.told[1] < 1 + self.heard:
            self.emit(1, ACK, 1 + self.sent, 1 + self.heard)

    def client(self, flags: int, seq: int, size: int) -> None:
        """Receive a packet at the client."""
        if flags & SYN:
            self.emit(0, ACK, 1 + self.asked, 1 + self.got)
            if not self.opened[0]:
                self.opened[0] = True
                self.ask(self.first)
        if not size:
            return
        begin, end, before = seq - 1, seq - 1 + size, self.got
        if begin <= self.got:
            self.got = max(self.got, end)
            while self.got in self.early:
                self.got = self.early.pop(self.got)
        else:
            self.early[begin] = end
        self.unacked += 1
        if begin != before or self.early or self.unacked >= self.gathers:
            self.tell()
        else:
            self.later(self.delayed_s if self.gathers <= 2 else 0.001, self.tell, self.unacked and self.got)
        while self.turns and self.got >= self.turns[0][0]:
            self.later(self.chance.choice((0.0001, 0.002)), self.ask, self.turns.pop(0)[1])

    def tell(self, got: int = -1) -> None:
        """Send an ACK of the client, unless one was sent meanwhile."""
        if got < 0 or self.told[0] < 1 + got:
            self.unacked = 0
            self.emit(0, ACK, 1 + self.asked, 1 + self.got)

    def run(self) -> None:
        """Run the server's program until it waits."""
        while self.steps:
            what, value = self.steps[0]
            if what == "need" and self.heard < value:
                break
            del self.steps[0]
            if what == "pause" and value:
                self.steps.insert(0, ("need", 1 << 30))
                return self.later(value, self.wake)
            if what == "write":
                self.stream += value
                self.ends.add(len(self.stream))
                self.push()
        return self.push()

    def wake(self) -> None:
        """End a pause of the program."""
        del self.steps[0]
        self.run()

    def push(self) -> None:
        """Send what the windows allow."""
        while self.sent < len(self.stream) and not self.paced:
            size = min(self.size, len(self.stream) - self.sent)
            flying = self.sent - self.una
            crowded = flying + size > self.window * self.size if self.server["bytes"] else len(self.out) >= self.window
            if crowded or self.sent + size > self.edge or (self.server["nagle"] and size < self.size and flying):
                return
            self.segment(self.sent, size)
            if self.server["paces"]:
                self.paced = True
                self.later(self.rtt_s / self.window / 2, self.unpace)

    def unpace(self) -> None:
        """Let the pacer release the next packet."""
        self.paced = False
        self.push()

    def segment(self, begin: int, size: int) -> None:
        """Send one segment, and start the timers."""
        end = begin + size
        flags = ACK | PSH * (end in self.ends) | FIN * (self.closes and not self.steps and end == len(self.stream))
        self.emit(1, flags, 1 + begin, 1 + self.heard, size)
        if end > self.sent:
            self.out.append(end)
            self.sent = end
        self.timer += 1
        wait_s = (self.rtt_s + max(0.2, 2 * self.rtt_s)) * 2**self.expired
        self.later(wait_s, self.expire, self.timer)
        if self.sack and self.rich:
            self.later(0.002 + 2 * self.rtt_s + 0.2 * (len(self.out) == 1), self.probe, self.timer)

    def probe(self, timer: int) -> None:
        """Send a tail loss probe: new data if there is any, else the last segment again."""
        if timer == self.timer and self.out and self.probed != self.una:
            self.probed, size = self.una, min(self.size, len(self.stream) - self.sent)
            fits = size and self.sent + size <= self.edge
            begin = self.sent if fits else (self.out[-2] if len(self.out) > 1 else self.una)
            self.segment(begin, size if fits else self.out[-1] - begin)

    def expire(self, timer: int) -> None:
        """Handle a retransmission timeout; the next one takes twice as long."""
        if timer == self.timer and self.out:
            self.window, self.sent, end = 1, self.una, self.out[0]
            self.out, self.expired = [], self.expired + 1
            self.segment(self.una, end - self.una)

    def acked(self, una: int, *, bare: bool) -> None:
        """Handle an ACK at the server; `bare`: it has no data."""
        if una > self.una:
            self.window += sum(end <= una for end in self.out)
            self.una, self.sent, self.repeats, self.expired = una, max(self.sent, una), 0, 0
            self.out = [end for end in self.out if end > una]
            self.timer += not self.out
        elif una == self.una and bare and self.out:
            self.repeats += 1
            if self.repeats == 3:
                self.window = max(len(self.out) // 2, 2)
                self.segment(self.una, self.out[0] - self.una)


def drawn(chance: random.Random) -> dict[str, Any]:
    """Return a random server."""
    pick, many = chance.choice, chance.random() < 0.4
    kinds = ("whole", "whole", "head", "continue", "hints", "pieces", "fed", "tls12", "tls13", "tls13")
    return {
        "window": pick(WINDOWS), "kind": pick(kinds), "tick_s": pick((0.001, 0.001, 0.001, 0.01)),
        "offers": (1460, 1400, 1360, 536) if many else (pick((1460, 1460, 1440, 1380)),),
        "mss": pick((1460, 1460, 1440, 1400)), "hold_s": pick((0, 0, 0, 0.005, 0.06, 0.3)) * chance.uniform(0.5, 2),
        "bytes": chance.random() < 0.2 and not many, "stamps": chance.random() < 0.7, "nagle": chance.random() < 0.3,
        "cookie": chance.random() < 0.1, "paces": chance.random() < 0.15,
    }  # fmt: skip


def word(grade: str, value: object, truth: int) -> str:
    """Return the class of a verdict in the tally."""
    if value is None:
        return "none"
    number = int(str(value))
    if grade == "L":
        return "false L" if number > truth else "bound 1" if number == 1 else "bound"
    return f"{'right' if number == truth else 'false'} {grade}"


def main(captures: int, seed: int, *, shown: bool) -> int:
    """Print the tally of connections and servers, and those of silence and constants. Return the exit code."""
    print(f"seed {seed}: {captures} captures", flush=True)
    tally = {name: Counter[str]() for name in ("connections", "servers", *map(str, CONSTANTS))}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(captures):
            chance = random.Random(f"{seed}/{number}")
            server, path = drawn(chance), Path(folder, "made.pcap")
            talks = [Talk(chance, server, 40000 + n) for n in range(chance.choice((1, 2, 3, 5, 8)))]
            frames = [frame for n, talk in enumerate(talks) for frame in talk.play(1000.0 + n * chance.choice((1, 40)))]
            path.write_bytes(write.pcap(sorted(frames, key=lambda frame: frame[0]), nano=True))
            servers, rows = Servers(), []
            for batch in CaptureReading([str(path)]).batches():
                servers.take(batch)
                rows += [("connections", one.observations) for one in batch]
            rows += [("servers", tuple(result.fingerprint.observations.values())) for result in servers.found()]
            for name, observations in rows:
                seen = [word(o.grade, o.value, server["window"]) for o in observations if o.knob == "icw"] or ["none"]
                tally[name][seen[0]] += 1
                if "false" in seen[0] and shown:
                    texts = [(o.text, o.grade, o.detail("proof")) for o in observations if o.knob == "icw"]
                    print(f"capture {number}, {name}: {seen[0]} {texts}, truth {server}", file=sys.stderr)
            for constant in CONSTANTS:
                tally[str(constant)]["right" if constant == server["window"] else "false"] += 1
    tally["silence"] = Counter(none=captures)
    for name, words in tally.items():
        print(
            f"{name:12}"
            + "".join(f"  {key} {value} ({100 * value / words.total():.1f} %)" for key, value in sorted(words.items()))
        )
    return int(any("false" in key for name in ("connections", "servers") for key in tally[name]))


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--captures", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--shown", action="store_true", help="print each false value")
    arguments = parser.parse_args()
    sys.exit(main(arguments.captures, arguments.seed, shown=arguments.shown))
