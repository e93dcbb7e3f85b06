# SPDX-License-Identifier: MIT
"""One probe's connection: runs the script, and records the frames that are sent and received."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from configtron.model.nouns import Packet, Segment, Target, Trace, Value
from configtron.probe.play import Player
from configtron.probe.script import Script, reset
from configtron.probe.wire.frames import Dissected, Envelope, Numbers, build, heard, snapped
from configtron.probe.wire.stream import StreamLog

# Sends an IP packet to an address; returns the time just before it, in nanoseconds since the epoch.
SendPacket = Callable[[bytes, str], int]


class Frame(NamedTuple):
    """A captured frame: from the IP header on (LINKTYPE_RAW), snapped to `data`; `length` bytes on the wire.

    segments   how many an offload had merged into it
    """

    at_ns: int
    way: str
    data: bytes
    length: int
    gso_size: int = 0
    segments: int = 1


class Recording(NamedTuple):
    """A finished trace and the frames that it was read from; `Packet.frame` counts them."""

    trace: Trace
    frames: tuple[Frame, ...]


class Sender:
    """Sends the segments of a connection as frames, and records them.

    Apart from `ProbeFlow`: the player needs it, and a player that needed the flow would be a reference cycle.
    """

    def __init__(self, about: Trace, send_packet: SendPacket, envelope: Envelope, isn: int) -> None:
        self.numbers = Numbers(isn)
        self.frames: list[Frame] = []
        # Packets put on the wire.
        self.sent = 0
        self._began_ns, self._address = about.started_at, about.target.address
        self._envelope, self._send_packet = envelope, send_packet
        # For an ident of 0 the kernel would put in its own (raw(7)), and the record would differ from the packet sent.
        self._ident = isn & 0x3FFF

    def transmit(self, segment: Segment, tos: int = 0) -> Packet:
        """Send a segment and return it as it was sent. Errors: `OSError`."""
        seq, ack = self.numbers.absolute(segment)
        self._ident = self._ident + 1 & 0x7FFF or 1
        envelope = Envelope(*self._envelope[:5], tos, self._ident)
        data = build(envelope, segment, seq, ack)
        at_ns = self._send_packet(data, self._address)
        self.sent += 1
        self.frames.append(Frame(at_ns, "out", data, len(data)))
        at = (at_ns - self._began_ns) / 1e9
        is_ipv6 = len(envelope.source) == 16
        version, ident, df = (6, 0, False) if is_ipv6 else (4, self._ident, True)
        return Packet(at, "out", segment, len(self.frames) - 1, version, envelope.ttl, tos, ident, df)


class ProbeFlow:
    """A script's player with its frames. The owner of the sockets and the clock calls `start`, `arrive` and `lapse`."""

    def __init__(
        self,
        about: Trace,
        script: Script,
        send_packet: SendPacket,
        envelope: Envelope,
        isn: int,
        *,
        log: StreamLog | None = None,
    ) -> None:
        self.about = about
        self._sender = Sender(about, send_packet, envelope, isn)
        self.numbers = self._sender.numbers
        self.frames = self._sender.frames
        self.tainted: list[str] = []
        self.log = log
        self.player = Player(script, self._sender.transmit)
        self._lapsed_ns = 0
        # The time at which this flow stands in the pump's heap; None if it is not in the heap.
        self.queued_ns: int | None = None
        # When a repeated SYN may be sent, by the rate limits; 0 if none waits.
        self.turn_ns = 0

    @property
    def sent(self) -> int:
        """Return how many packets were put on the wire."""
        return self._sender.sent

    @property
    def due_ns(self) -> int:
        """Return when the player has to be resumed, ns: after its deadline, and not before its turn."""
        return max(self.about.started_at + int(self.player.deadline * 1e9), self.turn_ns)

    @property
    def unanswered(self) -> bool:
        """Return whether the other side has not sent anything yet."""
        return self.numbers.theirs is None

    def start(self) -> None:
        """Run the script to its first wait."""
        self._run_step(self.player.start)

    def lapse(self) -> None:
        """Resume the player after a deadline that passed in silence."""
        self._lapsed_ns = self.due_ns
        self._run_step(self.player.lapse)

    def arrive(self, at_ns: int, found: Dissected, data: bytes, gso_size: int) -> None:
        """Record a received frame, and give its packets to the player."""
        if at_ns <= self._lapsed_ns:
            # The script was resumed without a packet by then; a recording must do the same.
            at_ns = self._lapsed_ns + 1
            self.taint("late")
        if self.log is None:
            data = snapped(found, data, gso_size)
        length = found.payload_at + found.length
        at = (at_ns - self.about.started_at) / 1e9
        packets = heard(found, data, gso_size, self.numbers, at, len(self.frames))
        self.frames.append(Frame(at_ns, "in", data[: found.payload_end], length, gso_size, len(packets)))
        self._run_step(self._deliver, packets)

    def _deliver(self, packets: Iterable[Packet]) -> None:
        player = self.player
        for packet in packets:
            player.hear(packet)
            if player.ending is not None:
                return

    def taint(self, why: str) -> None:
        """Note the reason why no value of this trace is exact."""
        if why not in self.tainted:
            self.tainted.append(why)

    def abort(self, why: str) -> None:
        """End now, with a RST that the server accepts."""
        if self.player.ending is None:
            self.player.ending = why
            packets = [p for p in self.player.packets if p.way == "out"]
            try:
                self._sender.transmit(reset(max((p.segment.end for p in packets), default=0)))
            except OSError:
                return

    def recording(self) -> Recording:
        """Return the finished trace with its frames."""
        log = self.log
        a = self.about
        trace = Trace(
            a.id, a.target, a.vantage, a.probe, a.params, a.started_at, tuple(self.player.packets),
            tuple(log.messages) if log else (), log.session if log else None,
            self.player.ending or "unfinished", tuple(self.tainted), a.agent,
        )  # fmt: skip
        return Recording(trace, tuple(self.frames))

    def _run_step(self, step: Callable[..., None], *arguments: Iterable[Packet]) -> None:
        try:
            step(*arguments)
        except OSError as problem:
            # No route, host unreachable, forbidden: the network's answer, not our mistake.
            self.player.ending = f"send-failed:{problem.strerror or problem}"


def beginning(
    trace_id: str,
    target: Target,
    vantage: str,
    probe: str,
    params: tuple[tuple[str, Value], ...],
    now_ns: int,
    agent: str = "",
) -> Trace:
    """Return the part of a trace that is known when it begins."""
    return Trace(trace_id, target, vantage, probe, tuple(sorted(params)), now_ns, agent=agent)
