# SPDX-License-Identifier: MIT
"""Captures in every dialect that we read, written here so that the reader is not tested against itself."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from configtron.model.nouns import ACK, FIN, PSH, SYN, Segment
from configtron.probe.script import syn_options
from configtron.probe.wire.frames import Envelope, build, packed

# (nanoseconds since the epoch, frame)
Stamped = tuple[int, bytes]
START_NS = 1_700_000_000_123_456_000
CLIENT, SERVER = (0, 1)


def conversation(version: int = 4, *, port: int = 40000, start_ns: int = START_NS, rtt_ns: int = 40_000_000,
                 segments: int = 3, size: int = 1000) -> list[Stamped]:  # fmt: skip
    """A handshake, a request, a flight, its ACK, the end: IP packets."""
    there = {4: ("192.0.2.1", "198.51.100.2"), 6: ("2001:db8::1", "2001:db8::2")}[version]
    client, server = (packed(address) for address in there)
    forth, back = Envelope(client, server, port, 80, ident=5), Envelope(server, client, 80, port, ident=9)
    base = (4_294_967_000, 77)
    found: list[Stamped] = []

    def say(way: int, at_ns: int, segment: Segment) -> None:
        seq = (segment.seq + base[way]) & 0xFFFFFFFF
        ack = (segment.ack + base[1 - way]) & 0xFFFFFFFF if segment.flags & ACK else 0
        found.append((start_ns + at_ns, build(forth if way == CLIENT else back, segment, seq, ack)))

    options = syn_options(1460, timestamps=True, wscale=7)
    say(CLIENT, 0, Segment(SYN, 0, 0, 64240, options))
    say(SERVER, rtt_ns, Segment(SYN | ACK, 0, 1, 65160, options))
    say(CLIENT, rtt_ns + 1000, Segment(ACK, 1, 1, 502))
    ask = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    say(CLIENT, rtt_ns + 2000, Segment(ACK | PSH, 1, 1, 502, (), ask, len(ask)))
    answer = (b"HTTP/1.1 200 OK\r\n\r\n" + bytes(segments * size))[: segments * size]
    for number in range(segments):
        part = answer[number * size : (number + 1) * size]
        seq = 1 + number * size
        say(SERVER, 2 * rtt_ns + number * 1000, Segment(ACK, seq, 1 + len(ask), 510, (), part, len(part)))
    end = 1 + segments * size
    say(CLIENT, 2 * rtt_ns + 50_000, Segment(ACK | FIN, 1 + len(ask), end, 600))
    say(SERVER, 3 * rtt_ns, Segment(ACK | FIN, end, 2 + len(ask), 510))
    say(CLIENT, 3 * rtt_ns + 1000, Segment(ACK, 2 + len(ask), end + 1, 600))
    return found


def kind(packet: bytes) -> bytes:
    """The Ethernet type of an IP packet."""
    return b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd"


def ethernet(packet: bytes, *tags: int) -> bytes:
    """In Ethernet, with VLAN tags of these types."""
    return bytes(12) + b"".join(struct.pack(">HH", tag, 5) for tag in tags) + kind(packet) + packet


def pcap(frames: Sequence[Stamped], *, order: str = "<", nano: bool = False, link: int = 101, snap: int = 0) -> bytes:
    """A pcap file."""
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, snap or 262144, link)]
    for at, frame in frames:
        kept = frame[:snap] if snap else frame
        fraction = at % 1_000_000_000 // (1 if nano else 1000)
        parts.append(struct.pack(f"{order}IIII", at // 1_000_000_000, fraction, len(kept), len(frame)) + kept)
    return b"".join(parts)


def section(order: str = "<") -> bytes:
    """A pcapng section's header."""
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link: int = 101, *, order: str = "<", resolution: int | None = None, offset_s: int = 0, snap: int = 0
              ) -> bytes:  # fmt: skip
    """An interface block."""
    options = b""
    if resolution is not None:
        options += struct.pack(f"{order}HHB3x", 9, 1, resolution)
    if offset_s:
        options += struct.pack(f"{order}HHq", 14, 8, offset_s)
    return block(1, struct.pack(f"{order}HHI", link, 0, snap) + options + (bytes(4) if options else b""), order)


def packet(frame: bytes, stamp: int, *, order: str = "<", number: int = 0, kind: int = 6, snap: int = 0, drops: int = 0
           ) -> bytes:  # fmt: skip
    """A packet block: enhanced (6), obsolete (2) or simple (3). `stamp` in the interface's units; `drops` before it."""
    kept = frame[:snap] if snap else frame
    padded = kept + bytes(-len(kept) % 4)
    if kind == 3:
        return block(3, struct.pack(f"{order}I", len(frame)) + padded, order)
    first = struct.pack(f"{order}HH", number, drops) if kind == 2 else struct.pack(f"{order}I", number)
    head = first + struct.pack(f"{order}IIII", stamp >> 32, stamp & 0xFFFFFFFF, len(kept), len(frame))
    if kind == 6 and drops:  # behind a comment and before a hash
        padded += struct.pack(f"{order}HH4sHHQHH4s4x", 1, 2, b"no", 4, 8, drops, 3, 1, b"\2")
    return block(kind, head + padded, order)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """Any block."""
    size = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + size + body + size


def pcapng(frames: Sequence[Stamped], *, order: str = "<", link: int = 101) -> bytes:
    """A pcapng file with nanoseconds."""
    packets = [packet(frame, at, order=order) for at, frame in frames]
    return section(order) + interface(link, order=order, resolution=9) + b"".join(packets)
