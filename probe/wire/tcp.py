# SPDX-License-Identifier: MIT
"""A small TCP for the stream probes: enough of RFC 9293 to carry a request and its answer, in a generator.

Does      handshake, ACK of every data segment, reassembly in order, duplicate ACKs on holes, retransmission of our own
          data with back-off, timestamps where a script offers them, FIN and RST.
Does not  congestion control (we send a few hundred bytes), SACK blocks, respect for the peer's window (none
          offers less than a ClientHello), a FIN of our own: the wire's farewell is a RST.

Pure: `now` comes from the packets and from the deadlines that passed.
"""

from __future__ import annotations

from collections.abc import Generator

from configtron.model.nouns import ACK, FIN, PSH, RST, SYN, Packet, Segment
from configtron.probe.script import SYN_PATIENCE_S, SYN_TRIES_AT_S, Offer, Opening, Send, Wait, echo, syn_options
from configtron.probe.withhold import MSS_UNSAID, SEGMENT_MOST, SETTLE_S, STAMP_BYTES, WINDOW, Asking, settle

Steps = Generator[Send | Wait, Packet | None, None]

# RFC 6298 2.4 asks for 1 s; a hundred milliseconds of slack over three round trips is enough for a few segments.
RETRANSMIT_MIN_S = 0.5
RETRANSMIT_TRIES = 5
# A stream is quiet after a pause of this many round trips, at least so long; without a round trip, so long.
QUIET_RTTS, QUIET_MIN_S, QUIET_UNKNOWN_S = 1.25, 0.05, 0.6
NEVER = float("inf")


class Connection:
    """Our end of one connection. `take` returns the bytes received in order; `ended` by FIN, `failed` by a named
    reason.

    offer   options of the SYN
    late    on a path shorter than `SETTLE_S` acknowledge as late as if it were so long (see there)
    """

    def __init__(self, offer: Offer = Offer(), late: bool = False) -> None:  # noqa: B008 - immutable
        self.now = 0.0
        self.ended = False
        self.failed = ""
        self.next_ours = 0
        self.rtt_s: float | None = None
        self._offer = offer
        self._options: tuple[tuple[int, bytes], ...] = ()
        self._heard = 0
        self._late = late
        self._late_s = 0.0
        self._ack_at = NEVER
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
        """Return whether nothing more will come."""
        return self.ended or bool(self.failed)

    def connect(self, until: float) -> Steps:
        """SYN, repeated while unanswered; then the final ACK."""
        last = SYN_TRIES_AT_S[-1]
        for at, following in zip(SYN_TRIES_AT_S, (*SYN_TRIES_AT_S[1:], last + SYN_PATIENCE_S), strict=True):
            if at and self.now >= until:
                break
            sent = yield from self._put(Segment(SYN, window=WINDOW, options=syn_options(**self._offer._asdict())))
            while (packet := (yield Wait(min(following, until)))) is not None:
                self.now = max(self.now, packet.at)
                if packet.segment.flags & RST:
                    self.failed = "refused"
                    return
                if packet.segment.flags & (SYN | ACK) == SYN | ACK:
                    self.rtt_s = packet.at - sent.at if not at else None
                    if self._late:
                        yield from settle(Opening(packet, self.rtt_s))
                        self._late_s = max(SETTLE_S - (self.rtt_s or SETTLE_S), 0.0)
                    yield from self._established(packet, sent)
                    return
            self.now = max(self.now, min(following, until))
        self.failed = "no-synack"

    def _established(self, synack: Packet, syn: Packet) -> Steps:
        self.next_ours, self._next_theirs = 1, 1
        self._options = echo(synack.segment) if self._offer.timestamps else ()
        stamps = STAMP_BYTES if self._options else 0
        self._mss = max(min(synack.segment.mss or MSS_UNSAID, SEGMENT_MOST) - stamps, 1)
        self._wait_s = max(RETRANSMIT_MIN_S, 3 * (synack.at - syn.at))
        yield from self._acknowledge()

    def send(self, data: bytes) -> Steps:
        """Put bytes on the wire, and keep them until they are acknowledged."""
        for start in range(0, len(data), self._mss):
            part = data[start : start + self._mss]
            segment = Segment(ACK | PSH, self.next_ours, self._next_theirs, WINDOW, self._options, part, len(part))
            self.next_ours += len(part)
            self._unacked.append(segment)
            self._ack_at = NEVER
            yield from self._put(segment)
        if self._unacked and self._retransmit_at == NEVER:
            self._rearm()

    def step(self, until: float) -> Steps:
        """Hear one packet, or let one deadline pass."""
        deadline = min(until, self._retransmit_at, self._ack_at)
        packet = yield Wait(deadline)
        if packet is not None:
            self.now = max(self.now, packet.at)
            self._heard += 1
            yield from self._hear(packet.segment)
            return
        self.now = max(self.now, deadline)
        if self.now >= self._ack_at:
            yield from self._acknowledge()
        if self.now >= self._retransmit_at:
            yield from self._retransmit()

    def quiet(self, until: float) -> Steps:
        """Go on until all that we sent is acknowledged and the peer has paused."""
        pause_s = QUIET_UNKNOWN_S if self.rtt_s is None else max(QUIET_RTTS * self.rtt_s, QUIET_MIN_S)
        while not self.over and self.now < until:
            before = self._heard
            yield from self.step(min(self.now + pause_s, until))
            if self._heard == before and not self._unacked and self._ack_at == NEVER:
                return

    def hand_over(self, data: bytes) -> Asking:
        """Hand over the bytes to send from here on to another sender, which also closes."""
        asking = Asking(data, self.next_ours, self._next_theirs, self._mss, max(len(data), 1), 0, self._options)
        self.next_ours = 0
        return asking

    def take(self) -> bytes:
        """Return the bytes that have come in order since the last call."""
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
            if self._options and segment.seq <= self._next_theirs:
                self._options = echo(segment) or self._options
            if segment.length:
                self._keep(segment)
            if segment.length or segment.flags & FIN:
                self._assemble()
                if not self._late_s:
                    yield from self._acknowledge()
                elif self._ack_at == NEVER:
                    self._ack_at = self.now + self._late_s

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
        self._ack_at = NEVER
        yield from self._put(Segment(ACK, self.next_ours, self._next_theirs, WINDOW, self._options))

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
