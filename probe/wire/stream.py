# SPDX-License-Identifier: MIT
"""A stream script over a connection that we keep ourselves: `tcp.py` below, TLS by an engine that is handed in.

The result is an ordinary segment script, so one pump drives both kinds, and the capture shows the whole connection.
Time is the packets'; only the engine (`tls.py`) brings chance, so with a fake engine everything here repeats exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from configtron.model.nouns import Message, Packet, Session, Target
from configtron.probe.script import Hold, Offer, Open, Read, Script, Send, StreamScript, Wait, reset
from configtron.probe.wire.tcp import Connection, Steps
from configtron.probe.withhold import PATIENCE_S, withhold

# How the reason of a server's alert begins.
ALERTED = "tls:alert-"


class EngineFailed(Exception):
    """TLS gave up; the message is the named reason."""


class TlsEngine(Protocol):
    """TLS without a socket."""

    def shake(self) -> bool:
        """Go on with the handshake; True once it is done. Raises EngineFailed."""

    def feed(self, data: bytes) -> None:
        """Records from the wire."""

    def drain(self) -> bytes:
        """Return records for the wire."""

    def write(self, data: bytes) -> None:
        """Plaintext to send."""

    def read(self) -> tuple[bytes, bool]:
        """Return plaintext that came, and whether the stream has ended."""

    def session(self, error: str = "") -> Session:
        """Return the negotiated session."""


class Plain:
    """No TLS: bytes pass as they are."""

    def __init__(self) -> None:
        self._in: list[bytes] = []
        self._out: list[bytes] = []

    def shake(self) -> bool:
        return True

    def feed(self, data: bytes) -> None:
        self._in.append(data)

    def drain(self) -> bytes:
        out, self._out = b"".join(self._out), []
        return out

    def write(self, data: bytes) -> None:
        self._out.append(data)

    def read(self) -> tuple[bytes, bool]:
        came, self._in = b"".join(self._in), []
        return came, False

    def session(self, error: str = "") -> Session:
        return Session(error=error)


EngineFactory = Callable[[str, tuple[str, ...]], TlsEngine]  # host, ALPN names


@dataclass(slots=True)
class StreamLog:
    """The part of a trace that a carried stream adds."""

    messages: list[Message] = field(default_factory=list)
    session: Session | None = None


def carry(script: StreamScript, target: Target, trust: EngineFactory) -> tuple[Script, StreamLog]:
    """Return a stream script as a segment script, and the log that fills while it runs."""
    log = StreamLog()
    return _Carrier(target, trust, log).run(script), log


class _Carrier:
    def __init__(self, target: Target, trust: EngineFactory, log: StreamLog) -> None:
        self._target = target
        self._trust = trust
        self._log = log
        self._connection = Connection()
        self._offer = Offer()
        self._engine: TlsEngine = Plain()
        self._alert = ""

    def run(self, script: StreamScript) -> Script:
        answer: Session | Message | None = None
        try:
            while True:
                command = script.send(answer)
                if isinstance(command, Open):
                    answer = yield from self._open(command)
                elif isinstance(command, Read):
                    answer = yield from self._read(command.until)
                elif isinstance(command, Hold):
                    yield from self._hold(command)
                    answer = None
                else:
                    answer = self._note("out", command.data)
                    yield from self._write(command.data)
        except StopIteration as stop:
            ending: str = stop.value
        if self._connection.next_ours and self._connection.failed != "reset":
            yield Send(reset(self._connection.next_ours))
        # With TLS 1.3 a server may refuse us after the handshake: it sends an alert where the script heard nothing.
        return self._alert or ending if ending == "closed" else ending

    def _open(self, wish: Open) -> Generator[Send | Wait, Packet | None, Session]:
        if self._connection.next_ours or self._connection.over:
            raise ValueError("a stream script opens once")
        self._offer = wish.offer
        connection = self._connection = Connection(wish.offer, wish.late)
        yield from connection.connect(wish.until)
        error = connection.failed
        if not error and wish.tls:
            try:
                self._engine = self._trust(self._target.host, wish.alpn)
                error = yield from self._handshake(wish.until)
            except EngineFailed as failure:
                yield from self._flush()
                error = str(failure)
        self._log.session = self._engine.session(error)
        return self._log.session

    def _handshake(self, until: float) -> Generator[Send | Wait, Packet | None, str]:
        connection, engine = self._connection, self._engine
        while True:
            done = engine.shake()
            yield from self._flush()
            if done:
                return ""
            if connection.over:
                return connection.failed or "closed"
            if connection.now >= until:
                return "no-data"
            yield from connection.step(until)
            if came := connection.take():
                engine.feed(came)

    def _read(self, until: float) -> Generator[Send | Wait, Packet | None, Message | None]:
        connection, engine = self._connection, self._engine
        # Bytes that came in the meantime wait for the next Read: `until` has passed, as it will in a replay.
        while connection.now <= until:
            try:
                data, ended = engine.read()
            except EngineFailed as failure:
                data, ended = b"", True
                self._alert = str(failure) if str(failure).startswith(ALERTED) else ""
            if data:
                return self._note("in", data)
            if ended or connection.over:
                return self._note("in", b"")
            yield from self._flush()
            if connection.now >= until:
                return None
            yield from connection.step(until)
            if came := connection.take():
                engine.feed(came)
        return None

    def _write(self, data: bytes) -> Steps:
        with suppress(EngineFailed):  # the next Read shows that the stream is over
            self._engine.write(data)
        yield from self._flush()

    def _hold(self, wish: Hold) -> Steps:
        """Receive and acknowledge the server's messages right after a handshake (tickets), before we ask."""
        connection = self._connection
        yield from connection.quiet(connection.now + PATIENCE_S)
        if came := connection.take():
            self._engine.feed(came)
        self._note("out", wish.data)
        if connection.over:
            return
        with suppress(EngineFailed):
            self._engine.read()
            self._engine.write(wish.data)
        asking = connection.hand_over(self._engine.drain())
        yield from withhold(asking, connection.rtt_s, self._offer, early=wish.early)

    def _flush(self) -> Steps:
        if records := self._engine.drain():
            yield from self._connection.send(records)

    def _note(self, way: str, data: bytes) -> Message:
        # Whole nanoseconds, as the capture file keeps them, so that a re-read message is the same message.
        message = Message(round(self._connection.now * 1e9) / 1e9, way, data)
        self._log.messages.append(message)
        return message
