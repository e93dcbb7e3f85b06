# SPDX-License-Identifier: MIT
"""The other end of a carried stream, in virtual time: TCP segments in, an application's bytes out; and who asks it."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from configtron.lab.internet.certificates import issue
from configtron.model.nouns import ACK, FIN, OPT_MSS, PSH, RST, SYN, Message, Packet, Segment, Session
from configtron.probe.script import Open, Read, StreamScript, Write
from tests.support.timed_wire import TimedWire

# The server's timer, as RFC 6298 2.1 begins it.
RETRANSMIT_S = 1.0
# Bytes so far heard -> (bytes to answer with, whether to close): asked whenever more of the stream has come.
Application = Callable[[bytes], tuple[bytes, bool]]
ASK = b"GET / HTTP/1.1\r\n\r\n"
PAGE = bytes(i * 7 % 251 for i in range(9000))


class Peer(TimedWire):
    """A `Wire`. `lose` names segments by their running number (each way counted on its own), lost once sent."""

    def __init__(
        self,
        application: Application,
        *,
        rtt_s: float = 0.1,
        mss: int = 1000,
        lose_out: frozenset[int] = frozenset(),
        lose_in: frozenset[int] = frozenset(),
        swap_in: frozenset[int] = frozenset(),
        refuse: bool = False,
        reset_after: int | None = None,
    ) -> None:
        super().__init__()
        self.application = application
        self.rtt_s, self.mss = rtt_s, mss
        self.lose = {"out": lose_out, "in": lose_in}
        self.swap_in = swap_in
        self.refuse, self.reset_after = refuse, reset_after
        self.got = bytearray()
        self.said: list[Segment] = []
        self.acked = 1
        self.rst: Segment | None = None
        self._number = {"out": 0, "in": 0}
        self._pieces: dict[int, bytes] = {}

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        if not self._lost("out"):
            self._take(segment)
        return self.sent(segment)

    def receive(self, until: float) -> Packet | None:
        if not self.due:
            self._retransmit()
        return super().receive(until)

    def _lost(self, way: str) -> bool:
        number = self._number[way]
        self._number[way] += 1
        return number in self.lose[way]

    def _take(self, segment: Segment) -> None:
        if segment.flags & RST:
            self.rst = segment
        elif self.refuse:
            self._answer(Segment(RST | ACK, 0, 1))
        elif segment.flags & SYN:
            self._answer(Segment(SYN | ACK, 0, 1, 64240, ((OPT_MSS, self.mss.to_bytes(2, "big")),)))
        else:
            self.acked = max(self.acked, segment.ack)
            if segment.length:
                self._stream(segment)

    def _stream(self, segment: Segment) -> None:
        self._pieces[segment.seq] = segment.payload
        before = len(self.got)
        while (at := len(self.got) + 1) in self._pieces:
            self.got += self._pieces.pop(at)
        self._answer(Segment(ACK, self._next(), len(self.got) + 1))
        if len(self.got) > before:
            self._speak(*self.application(bytes(self.got)))

    def _speak(self, data: bytes, close: bool = False) -> None:
        ack = len(self.got) + 1
        for start in range(0, len(data), self.mss):
            part = data[start : start + self.mss]
            segment = Segment(ACK | PSH, self._next(), ack, 64240, (), part, len(part))
            self.said.append(segment)
            self._answer(segment)
        if close:
            self.said.append(Segment(ACK | FIN, self._next(), ack))
            self._answer(self.said[-1])
        if self.reset_after is not None and self._next() > self.reset_after:
            self._answer(Segment(RST, self._next()))

    def _next(self) -> int:
        return self.said[-1].end if self.said else 1

    def _retransmit(self) -> None:
        left = [s for s in self.said if s.end > self.acked]
        if left:
            self.say(self.now + RETRANSMIT_S, left[0])

    def _answer(self, segment: Segment) -> None:
        number = self._number["in"]
        if not self._lost("in"):
            late = self.rtt_s / 4 if number in self.swap_in else 0.0
            self.say(self.now + self.rtt_s + late, segment)


def texts(messages: list[Message], way: str) -> bytes:
    """All bytes that went one way."""
    return b"".join(m.data for m in messages if m.way == way)


def asks(ask: bytes = ASK, *, tls: bool = False, until: float = 60.0) -> StreamScript:
    """Ask once, and read until the stream ends."""
    session = yield Open(tls=tls, alpn=("h2",))
    assert isinstance(session, Session)
    if session.error:
        return session.error
    yield Write(ask)
    while (message := (yield Read(until))) is not None:
        assert isinstance(message, Message)
        if not message.data:
            return "ended"
    return "no-data"


def tls_context(folder: Path) -> ssl.SSLContext:
    """Return a server's side of TLS, with a certificate for site.test."""
    certificate = issue(1, "Example", ["site.test"])
    (folder / "chain").write_text(certificate.chain)
    (folder / "key").write_text(certificate.key)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(folder / "chain", folder / "key")
    return made


class TlsServer:
    """An application that speaks TLS and answers one request."""

    def __init__(self, context: ssl.SSLContext, ask: bytes = ASK, page: bytes = PAGE) -> None:
        self.ask, self.page = ask, page
        self.names: list[str | None] = []
        context.sni_callback = lambda tls, name, ctx: self.names.append(name)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._taken = 0
        self._shaken = False

    def __call__(self, heard: bytes) -> tuple[bytes, bool]:
        self._in.write(heard[self._taken :])
        self._taken = len(heard)
        close = False
        try:
            if not self._shaken:
                self._tls.do_handshake()
                self._shaken = True
            if self._tls.read(65536) == self.ask:
                self._tls.write(self.page)
                close = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            close = True
        return self._out.read(), close
