# SPDX-License-Identifier: MIT
"""A capture of many page loads, or of long transfers, made in a second: for what reads captures at speed.

Web-like: connections of 30 to 60 segments that overlap in time, a fifth of them over IPv6, two segments in three full,
one data segment in a hundred sent again. Short ones are half as long, long ones some 30 000 segments. The same seed
gives the same bytes.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from configtron.model.nouns import ACK, FIN, PSH, RST, SYN
from configtron.probe.wire.frames import write_options

PACKETS, SNAP = 200_000, 128


class Shape(NamedTuple):
    """Connections of one kind: data segments of each (least, most), and how many are open at a time."""

    segments: tuple[int, int]
    open: int


# 45, 23 and 30 000 packets a connection.
PAGES, SHORT, LONG = Shape((18, 36), 200), Shape((6, 13), 200), Shape((18_000, 22_000), 20)
REPEATED = 0.01
MSS = 1460
PACE_US = 40
MACS = bytes(range(12))
IPV6_SHARE = 0.2
# Of connections that no server takes, this share is refused; the others meet silence.
ANSWERED = 0.75


class Talk:
    """One connection, segment by segment."""

    def __init__(self, number: int, chance: random.Random, shape: Shape = PAGES) -> None:
        self.version = 6 if chance.random() < IPV6_SHARE else 4
        self.ports = (1024 + number % 60000, 443)
        client, server = 0x0A000000 + number // 7, 0xC6120000 + number % 997
        head, width = (b"", 4) if self.version == 4 else (b"\xfd", 15)
        self.addresses = (head + client.to_bytes(width, "big"), head + server.to_bytes(width, "big"))
        self.base = (chance.getrandbits(32), chance.getrandbits(32))
        self.clock = chance.getrandbits(30)
        self.steps = self._steps(chance, shape)

    def _steps(self, chance: random.Random, shape: Shape) -> Iterator[bytes]:
        """Handshake, request, flights of ten that are acknowledged two by two, the end."""
        opening = ((2, MSS.to_bytes(2, "big")), (4, b""), (8, bytes(8)), (1, b""), (3, b"\x07"))
        yield self._segment(0, SYN, 0, 0, 0, opening)
        yield self._segment(1, SYN | ACK, 0, 1, 0, opening)
        yield self._segment(0, ACK, 1, 1, 0)
        yield self._segment(0, ACK | PSH, 1, 1, 400)
        at = 1
        for _ in range(chance.randint(*shape.segments)):
            size = MSS - 12 if chance.random() < 0.85 else chance.randint(1, MSS - 12)
            yield self._segment(1, ACK, at, 401, size)
            if chance.random() < REPEATED:
                yield self._segment(1, ACK, at, 401, size)
            at += size
            if chance.random() < 0.5:
                yield self._segment(0, ACK, 401, at, 0)
        yield self._segment(1, ACK | FIN, at, 401, 0)
        yield self._segment(0, ACK | FIN, 401, at + 1, 0)
        yield self._segment(1, ACK, at + 1, 402, 0)

    def refused(self, chance: random.Random) -> list[bytes]:
        """Return a SYN, and three times in four the reset that answers it."""
        opening = ((2, MSS.to_bytes(2, "big")), (4, b""), (8, bytes(8)), (1, b""), (3, b"\x07"))
        answer = [self._segment(1, RST | ACK, 0, 1, 0, ((1, b""), (1, b"")))] if chance.random() < ANSWERED else []
        return [self._segment(0, SYN, 0, 0, 0, opening), *answer]

    def _segment(self, way: int, flags: int, seq: int, ack: int, size: int, options: tuple[tuple[int, bytes], ...] = ()
                 ) -> bytes:  # fmt: skip
        self.clock += 1
        stamps = write_options(options) if options else struct.pack("!IIIxxxx", 0x0101080A, self.clock, 0)[:12]
        numbers = ((seq + self.base[way]) & 0xFFFFFFFF, (ack + self.base[1 - way]) & 0xFFFFFFFF if flags & ACK else 0)
        offset = (20 + len(stamps)) << 2
        tcp = struct.pack("!HHIIBBHHH", self.ports[way], self.ports[1 - way], *numbers, offset, flags, 502, 0, 0)
        source, destination = self.addresses[way], self.addresses[1 - way]
        length = len(tcp) + len(stamps) + size
        if self.version == 4:
            ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + length, 1, 0x4000, 64, 6, 0, source, destination)
        else:
            ip = struct.pack("!IHBB16s16s", 6 << 28, length, 6, 64, source, destination)
        kind = b"\x08\x00" if self.version == 4 else b"\x86\xdd"
        return MACS + kind + ip + tcp + stamps + bytes(size)


def write(
    path: Path, packets: int = PACKETS, *, snap: int = 0, seed: int = 1, pace_us: int = PACE_US, shape: Shape = PAGES
) -> None:
    """Write a pcap of so many packets, snapped to `snap` bytes if that is not 0; `pace_us`: the longest pause."""
    chance = random.Random(seed)
    talks: list[Talk] = []
    begun = 0
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap or 262144, 1))
        written, at = 0, 1_700_000_000_000_000
        while written < packets:
            while len(talks) < shape.open:
                talks.append(Talk(begun, chance, shape))
                begun += 1
            place = chance.randrange(len(talks))
            segment = next(talks[place].steps, None)
            if segment is None:
                talks[place] = talks[-1]
                talks.pop()
                continue
            at += chance.randrange(pace_us)
            kept = segment[:snap] if snap else segment
            file.write(struct.pack("<IIII", at // 1_000_000, at % 1_000_000, len(kept), len(segment)))
            file.write(kept)
            written += 1


def write_refused(path: Path, connections: int, *, seed: int = 1, pace_us: int = PACE_US) -> None:
    """Write a pcap of connections that were refused or met silence, as a scan leaves them."""
    chance, at = random.Random(seed), 1_700_000_000_000_000
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        for number in range(connections):
            for segment in Talk(number, chance).refused(chance):
                at += chance.randrange(pace_us)
                file.write(struct.pack("<IIII", at // 1_000_000, at % 1_000_000, len(segment), len(segment)) + segment)
