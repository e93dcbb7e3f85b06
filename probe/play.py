"""Script x wire -> what happened. Pure: the wire brings time, sockets and luck."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from configtron.errors import Diverged
from configtron.nouns import Message, Packet, Segment, Session, Trace
from configtron.ports import Wire
from configtron.probe.script import Hold, Open, Script, Send, StreamScript, Write

Transmit = Callable[[Segment, int], Packet]


@dataclass(slots=True)
class Player:
    """One script, stepped by whoever owns the clock.

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
        """The deadline passed in silence."""
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


class Recorded:
    """A wire that plays a recording back. What the script sends must be what was recorded, or it raises `Diverged`.

    Compared: flags, relative numbers, window, options, payload *length* (TLS bytes are fresh in each run).
    """

    def __init__(self, packets: Iterable[Packet]) -> None:
        self._packets = list(packets)
        self._next = 0

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        """The recorded packet, if it says the same."""
        recorded = self._packets[self._next] if self._next < len(self._packets) else None
        said = recorded is not None and (recorded.way, recorded.tos, *_said(recorded.segment))
        if recorded is None or said != ("out", tos, *_said(segment)):
            raise Diverged(f"packet {self._next}: the script sends {segment}; the recording has {recorded}")
        self._next += 1
        return recorded

    def receive(self, until: float) -> Packet | None:
        """The next recorded packet, unless the script would have stopped waiting, or spoken, before it."""
        recorded = self._packets[self._next] if self._next < len(self._packets) else None
        if recorded is None or recorded.way == "out" or recorded.at > until:
            return None
        self._next += 1
        return recorded


def play_messages(script: StreamScript, trace: Trace) -> str:
    """Run a stream script on its own trace's messages. Returns how it ended; raises `Diverged` if it says other words.

    The segments below cannot be compared: TLS is fresh in each run. The application's bytes can.
    """
    messages = list(trace.messages)
    answer: Session | Message | None = None
    while True:
        try:
            command = script.send(answer)
        except StopIteration as stop:
            return str(stop.value)
        answer = None
        following = messages[0] if messages else None
        if isinstance(command, Open):
            answer = trace.session
        elif isinstance(command, Write | Hold):
            if following is None or (following.way, following.data) != ("out", command.data):
                raise Diverged(f"{trace.id}: the script says {command.data!r}; the recording has {following}")
            messages.pop(0)
        elif following is not None and following.way == "in" and following.at <= command.until:
            answer = messages.pop(0)


def _said(segment: Segment) -> tuple[object, ...]:
    return segment.flags, segment.seq, segment.ack, segment.window, segment.options, segment.length
