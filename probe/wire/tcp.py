"""A small TCP for the stream probes: enough of RFC 9293 to carry a request and its answer, in a generator.

Does      handshake, ACK of every data segment, reassembly in order, duplicate ACKs on holes, retransmission of our own
          data with back-off, FIN and RST.
Does not  congestion control (we send a few hundred bytes), SACK, timestamps, respect for the peer's window (nobody
          offers less than a ClientHello), a FIN of our own: the wire's farewell is a RST.

Pure: `now` comes from the packets and from the deadlines that passed.
"""

from __future__ import annotations

from collections.abc import Generator

from configtron.nouns import ACK, FIN, PSH, RST, SYN, Packet, Segment
from configtron.probe.script import SYN_PATIENCE_S, SYN_TRIES_AT_S, Send, Wait, syn_options

Steps = Generator[Send | Wait, Packet | None, None]

# Offered: 65535 << 7 is 8 MB, so that a page is never held back by our window.
WINDOW, WSCALE = 65535, 7
# What we put into one segment at most: Ethernet's 1500 less headers, less room for a tunnel on the way.
SEGMENT_MOST = 1400
# RFC 9293 3.7.1: who sends no MSS option can take this much.
MSS_UNSAID = 536
# RFC 6298 2.4 asks for 1 s; a hundred milliseconds of slack over three round trips is enough for a few segments.
RETRANSMIT_MIN_S = 0.5
RETRANSMIT_TRIES = 5
NEVER = float("inf")


class Connection:
    """Our end of one connection. `take` what came in order; `ended` by FIN, `failed` by a named reason."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ended = False
        self.failed = ""
        self.next_ours = 0
        self._next_theirs = 0
        self._inbox: list[bytes] = []
        self._ahead: dict[int, bytes] = {}
        self._fin_at: int | None = None
        self._unacked: list[Segment] = []
        self._mss = MSS_UNSAID
        self._wait_s = RETRANSMIT_MIN_S
        self._tries = 0
        self._retransmit_at = NEVER

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.ended or bool(self.failed)

    def connect(self, until: float) -> Steps:
        """SYN, repeated while unanswered; then the final ACK."""
        last = SYN_TRIES_AT_S[-1]
        for at, following in zip(SYN_TRIES_AT_S, (*SYN_TRIES_AT_S[1:], last + SYN_PATIENCE_S), strict=True):
            if at and self.now >= until:
                break
            sent = yield from self._put(Segment(SYN, window=WINDOW, options=syn_options(wscale=WSCALE)))
            while (packet := (yield Wait(min(following, until)))) is not None:
                self.now = max(self.now, packet.at)
                if packet.segment.flags & RST:
                    self.failed = "refused"
                    return
                if packet.segment.flags & (SYN | ACK) == SYN | ACK:
                    yield from self._established(packet, sent)
                    return
            self.now = max(self.now, min(following, until))
        self.failed = "no-synack"

    def _established(self, synack: Packet, syn: Packet) -> Steps:
        self.next_ours, self._next_theirs = 1, 1
        self._mss = min(synack.segment.mss or MSS_UNSAID, SEGMENT_MOST)
        self._wait_s = max(RETRANSMIT_MIN_S, 3 * (synack.at - syn.at))
        yield from self._acknowledge()

    def send(self, data: bytes) -> Steps:
        """Put bytes on the wire, and keep them until they are acknowledged."""
        for start in range(0, len(data), self._mss):
            part = data[start : start + self._mss]
            segment = Segment(ACK | PSH, self.next_ours, self._next_theirs, WINDOW, (), part, len(part))
            self.next_ours += len(part)
            self._unacked.append(segment)
            yield from self._put(segment)
        if self._unacked and self._retransmit_at == NEVER:
            self._rearm()

    def step(self, until: float) -> Steps:
        """Hear one packet, or let one deadline pass."""
        deadline = min(until, self._retransmit_at)
        packet = yield Wait(deadline)
        if packet is not None:
            self.now = max(self.now, packet.at)
            yield from self._hear(packet.segment)
            return
        self.now = max(self.now, deadline)
        if self.now >= self._retransmit_at:
            yield from self._retransmit()

    def take(self) -> bytes:
        """The bytes that have come in order since the last call."""
        data = b"".join(self._inbox)
        self._inbox.clear()
        return data

    def _hear(self, segment: Segment) -> Steps:
        if segment.flags & RST:
            self.failed = self.failed or "reset"
        elif segment.flags & SYN:
            yield from self._acknowledge()
        else:
            self._acknowledged(segment)
            if segment.flags & FIN:
                self._fin_at = segment.seq + segment.length
            if segment.length:
                self._keep(segment)
            if segment.length or segment.flags & FIN:
                self._assemble()
                yield from self._acknowledge()

    def _acknowledged(self, segment: Segment) -> None:
        if not segment.flags & ACK or segment.ack > self.next_ours:
            return
        left = [s for s in self._unacked if s.end > segment.ack]
        if len(left) < len(self._unacked):
            self._unacked, self._tries = left, 0
            self._rearm()

    def _keep(self, segment: Segment) -> None:
        known = self._ahead.get(segment.seq, b"")
        if len(segment.payload) > len(known):
            self._ahead[segment.seq] = segment.payload

    def _assemble(self) -> None:
        for seq in sorted(self._ahead):
            if seq > self._next_theirs:
                break
            fresh = self._ahead.pop(seq)[self._next_theirs - seq :]
            if fresh:
                self._inbox.append(fresh)
                self._next_theirs += len(fresh)
        if self._fin_at == self._next_theirs:
            self.ended = True
            self._next_theirs += 1

    def _acknowledge(self) -> Steps:
        yield from self._put(Segment(ACK, self.next_ours, self._next_theirs, WINDOW))

    def _rearm(self) -> None:
        self._retransmit_at = self.now + self._wait_s * 2**self._tries if self._unacked else NEVER

    def _retransmit(self) -> Steps:
        if self._tries == RETRANSMIT_TRIES:
            self.failed, self._retransmit_at = "no-data", NEVER
            return
        self._tries += 1
        self._rearm()
        yield from self._put(self._unacked[0]._replace(ack=self._next_theirs))

    def _put(self, segment: Segment) -> Generator[Send | Wait, Packet | None, Packet]:
        sent = yield Send(segment)
        assert sent is not None
        self.now = max(self.now, sent.at)
        return sent
