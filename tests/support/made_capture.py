# SPDX-License-Identifier: MIT
"""Conversations written segment by segment, as a capture holds them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from configtron.fingerprint.passive.gathering import Batch
from configtron.model.nouns import ACK, FIN, PSH, SYN, Segment
from configtron.probe.script import syn_options
from configtron.probe.wire.frames import Envelope, build, packed
from tests.support import capture_bytes as write
from tests.support.read_capture import whole

MSS = 1000
RTT_S = 0.1
# A segment of full size, with timestamps.
FULL = MSS - 12


class Conversation:
    """What a capture at the client shows. Times in s."""

    def __init__(
        self, *, stamps: bool = True, sack: bool = True, mss: int = MSS, window: int = 65535, port: int = 40000,
        start_s: float = 1000.0, opened: bool = True, asked: bool = True, base: tuple[int, int] = (5000, 4_294_967_000),
    ) -> None:  # fmt: skip
        self.frames: list[write.Stamped] = []
        self.stamps, self.start_s, self.window = stamps, start_s, window
        ends = packed("192.0.2.1"), packed("198.51.100.2")
        self.envelopes = (Envelope(*ends, port, 80), Envelope(*ends[::-1], 80, port))
        self.base = base
        options = syn_options(mss, timestamps=stamps, wscale=None, sack=sack)
        if opened:
            self.send(0, 0.0, SYN, 0, 0, options=options)
            self.send(1, RTT_S, SYN | ACK, 0, 1, options=options)
            self.send(0, RTT_S, ACK, 1, 1)
        if asked:
            self.send(0, RTT_S + 0.001, ACK | PSH, 1, 1, 100)

    def send(
        self, way: int, at_s: float, flags: int, seq: int, ack: int, length: int = 0, *, echo_s: float | None = None,
        options: tuple[tuple[int, bytes], ...] | None = None, sack: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        """One segment. Stamps are ms of its sender's clock; the echo is what the other sent a round trip before."""
        if options is None:
            options = ()
            if self.stamps:
                echo = at_s if echo_s is None else echo_s
                options = ((8, struct.pack(">II", round(at_s * 1000) + 7, round(echo * 1000) + 7)),)
        elif self.stamps:
            options = tuple(
                (k, struct.pack(">II", round(at_s * 1000) + 7, 0)) if k == 8 else (k, b) for k, b in options
            )
        if sack is not None:
            options = (*options, (5, struct.pack(">II", *((n + self.base[1 - way]) & 0xFFFFFFFF for n in sack))))
        segment = Segment(flags, seq, ack, self.window, options, bytes(length), length)
        numbers = (seq + self.base[way]) & 0xFFFFFFFF, (ack + self.base[1 - way]) & 0xFFFFFFFF if flags & ACK else 0
        self.frames.append((round((self.start_s + at_s) * 1e9), build(self.envelopes[way], segment, *numbers)))

    def flight(self, at_s: float, first: int, count: int, *, echo_s: float | None = None, size: int = FULL,
               skip: tuple[int, ...] = (), last: int = 0) -> float:  # fmt: skip
        """Full segments of the server, 0.1 ms apart; `last` is the size of the last one if it is no full one."""
        for n in range(count):
            if n not in skip:
                length = last if last and n == count - 1 else size
                at = at_s + n / 10_000
                self.send(1, at, ACK, 1 + (first + n) * size, 101, length, echo_s=at_s if echo_s is None else echo_s)
        return at_s + count / 10_000

    def ack(self, at_s: float, segments: int, *, size: int = FULL, sack: tuple[int, int] | None = None) -> None:
        """The client acknowledges so many full segments."""
        self.send(0, at_s, ACK, 101, 1 + segments * size, sack=sack)

    def delay(self, at_s: float) -> None:
        """The last segment, as it was stamped, arrives only then."""
        self.frames[-1] = (round((self.start_s + at_s) * 1e9), self.frames[-1][1])

    def end(self, at_s: float, segments: int, *, size: int = FULL) -> None:
        """Both sides close."""
        self.send(1, at_s, ACK | FIN, 1 + segments * size, 101)
        self.send(0, at_s, ACK | FIN, 101, 2 + segments * size)

    def batch(self, folder: Path) -> Batch:
        """Read from a file."""
        return whole(written(self.frames, folder))[0]


def written(frames: Iterable[write.Stamped], folder: Path, **how: Any) -> Path:
    """Return the file of a capture of these frames, in the order of their times."""
    path = folder / "conversation.pcap"
    path.write_bytes(write.pcap(sorted(frames, key=lambda frame: frame[0]), nano=True, **how))
    return path


Step = Callable[[Conversation], object]


def talk(*steps: Step, **how: Any) -> Conversation:
    """Return a conversation that is opened and goes on by these steps."""
    conversation = Conversation(**how)
    for step in steps:
        step(conversation)
    return conversation


def says(way: int, at_s: float, flags: int, seq: int, ack: int, length: int = 0, **how: Any) -> Step:
    """Return `Conversation.send` as a step."""
    return lambda c: c.send(way, at_s, flags, seq, ack, length, **how)


def flight(at_s: float, first: int, count: int, **how: Any) -> Step:
    """Return `Conversation.flight` as a step."""
    return lambda c: c.flight(at_s, first, count, **how)


def acked(segments: int, at_s: float, **how: Any) -> Step:
    """Return `Conversation.ack` as a step."""
    return lambda c: c.ack(at_s, segments, **how)


def seen(batch: Batch, side: str = "server") -> dict[str, int]:
    """The first connection's numbers of one side that are not 0."""
    columns = batch.summary.columns
    return {
        name.removeprefix(f"{side}_"): int(column[0])
        for name, column in columns.items()
        if name.startswith(side) and int(column[0])
    }
