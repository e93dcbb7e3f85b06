# SPDX-License-Identifier: MIT
"""Play a script on a wire and return the conversation. Pure: the wire brings time, sockets and luck."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from configtron.model.errors import Diverged
from configtron.model.nouns import (
    ACK,
    CWR,
    ECE,
    FIN,
    PSH,
    RST,
    SYN,
    URG,
    Packet,
    Segment,
)
from configtron.model.protocols import Wire
from configtron.probe.script import Script, Send

Transmit = Callable[[Segment, int], Packet]
FLAGS = {SYN: "SYN", FIN: "FIN", RST: "RST", PSH: "PSH", ACK: "ACK", URG: "URG", ECE: "ECE", CWR: "CWR"}
# Of a payload, a line shows this much.
SHOWN_BYTES = 48
# Deadlines that lapse one after the other without a packet: no script has a tenth of them, so it has lost its way.
SILENT_MOST = 10_000


@dataclass(slots=True)
class Player:
    """One script, stepped by the owner of the clock.

    `start` once, then `hear` for every packet and `lapse` when `deadline` has passed; finished when `ending` is set.
    Many players share one thread (`probe/wire/pump.py`); `play` drives a single one over a blocking `Wire`.
    """

    script: Script
    transmit: Transmit
    packets: list[Packet] = field(default_factory=list)
    deadline: float = 0.0
    ending: str | None = None

    def start(self) -> None:
        """Run to the first Wait."""
        self._resume(None)

    def hear(self, packet: Packet) -> None:
        """A packet came. Deadlines that passed before it lapse first, as they do in a replay."""
        while self.ending is None and packet.at > self.deadline:
            self._resume(None)
        if self.ending is None:
            self.packets.append(packet)
            self._resume(packet)

    def lapse(self) -> None:
        """Resume the script after a deadline that passed in silence."""
        if self.ending is None:
            self._resume(None)

    def _resume(self, event: Packet | None) -> None:
        try:
            command = self.script.send(event)
            while isinstance(command, Send):
                sent = self.transmit(command.segment, command.tos)
                self.packets.append(sent)
                command = self.script.send(sent)
            self.deadline = command.until
        except StopIteration as stop:
            self.ending = stop.value


def play(script: Script, wire: Wire) -> tuple[tuple[Packet, ...], str]:
    """Run a script to its end over a blocking wire. Returns its packets and how it ended."""
    player = Player(script, wire.send)
    player.start()
    while player.ending is None:
        heard = wire.receive(player.deadline)
        if heard is None:
            player.lapse()
        else:
            player.hear(heard)
    return tuple(player.packets), player.ending


class Unsendable(Exception):
    """A packet that could not be sent when it was recorded either."""


class Recorded:
    """A wire that plays a recording back. Raise `Diverged` where the script sends other packets than the recording has.

    Compared: flags, relative numbers, window, options, type of service, and the payload byte for byte; times are the
    recording's. `now` is the last moment that the script knows of, in seconds since the trace began.

    unsendable   the recording ended since a packet could not be sent: where it ends, so does the replay
    """

    def __init__(self, packets: Iterable[Packet], *, unsendable: bool = False) -> None:
        self._packets = list(packets)
        self._unsendable = unsendable
        self._next = 0
        self._silent = 0
        self.now = 0.0

    @property
    def following(self) -> Packet | None:
        """Return the next packet of the recording."""
        return self._packets[self._next] if self._next < len(self._packets) else None

    @property
    def coming(self) -> tuple[Packet, ...]:
        """Return the packets that were sent next, one behind the other."""
        end = self._next
        while end < len(self._packets) and self._packets[end].way == "out":
            end += 1
        return tuple(self._packets[self._next : end])

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        """Return the recorded packet, if it says the same."""
        recorded = self.following
        if recorded is None and self._unsendable:
            raise Unsendable
        if recorded is None or (recorded.way, recorded.tos, recorded.segment) != ("out", tos, segment):
            raise Diverged(divergence(self._next, recorded, f"sends {described(segment, tos)}"))
        self._next += 1
        self.now = max(self.now, recorded.at)
        return recorded

    def receive(self, until: float) -> Packet | None:
        """Return the next recorded packet, unless the script would have stopped waiting, or spoken, before it."""
        recorded = self.following
        if recorded is None or recorded.way == "out" or recorded.at > until:
            self._silent += 1
            if self._silent > SILENT_MOST:
                raise Diverged(divergence(self._next, recorded, f"waits again and again, until {until:.6f}"))
            self.now = max(self.now, until)
            return None
        self._next += 1
        self._silent = 0
        self.now = max(self.now, recorded.at)
        return recorded

    def finish(self) -> None:
        """Check that the recording ends with the script."""
        if self.following is not None:
            raise Diverged(divergence(self._next, self.following, "is over"))


def divergence(number: int, recorded: Packet | None, script: str) -> str:
    """Return the place where two conversations diverge: the recorded packet and the script's, a line each."""
    there = "is over"
    if recorded is not None:
        there = f"{recorded.way} at {recorded.at:.6f} s: {described(recorded.segment, recorded.tos)}"
    return f"at packet {number}\n  the recording: {there}\n  the script:    {script}"


def described(segment: Segment, tos: int = 0) -> str:
    """Return a segment in one line."""
    flags = "|".join(name for bit, name in FLAGS.items() if segment.flags & bit) or "no flags"
    options = " ".join(f"{kind}:{body.hex()}" if body else str(kind) for kind, body in segment.options)
    more = "..." if len(segment.payload) > SHOWN_BYTES else ""
    words = f" {segment.payload[:SHOWN_BYTES]!r}{more}" if segment.payload else ""
    return (
        f"{flags} seq {segment.seq} ack {segment.ack} window {segment.window} tos {tos} options <{options}>"
        f" length {segment.length}{words}"
    )
