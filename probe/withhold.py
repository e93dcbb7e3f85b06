# SPDX-License-Identifier: MIT
"""Ask, acknowledge nothing, then open the gate once: the conversation behind every window that is read before an ACK.

It begins wherever a connection stands: after the handshake (`icw.py`, `icw_tls.py`) or inside TLS (`wire/stream.py`).
The readings are in `fingerprint/icw.py` and its neighbours.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from configtron.fingerprint.stream import Flight
from configtron.model.nouns import ACK, PSH, RST, Packet, Segment
from configtron.probe.script import Offer, Opening, Send, Wait, reset

Steps = Generator[Send | Wait, Packet | None, str]

# Longest silence before the first data byte and after the last: above 3 s, the largest RTO in the paper's Table 2,
# plus the timer wheel's eighth, plus two long round trips.
PATIENCE_S = 6.0
# Never hold a connection longer than this after its first data byte.
HOLD_LIMIT_S = 12.0
# After the gate is opened: three round trips, at least this long.
VERIFY_MIN_S = 1.0
# The window while holding. 65535 is all an unscaled window can say; with scale 7 it is 8 MB.
WINDOW = 65535
# Linux defers the tail of a window while it expects an ACK within min(1 ms, half a round trip)
# (net/ipv4/tcp_output.c, tcp_tso_should_defer): on a 0.1 ms path 10 shows as 9, 4 as 3. A server that was made to wait
# this long for our handshake's ACK expects the next one as late, and sends all it may.
SETTLE_S = 0.02
# So much longer the ACK is held for a second round trip: Linux's timer is as much longer, one that is the larger of a
# minimum and three round trips is not. On paths up to this length: a minimum of 0.2 s shows on no longer one, and no
# SYN-ACK timer fires meanwhile.
SLOWER_S, SLOWER_MOST_S = 0.05, 0.1
# An early ACK waits at least this long after the last segment: a server's scheduler may pause a burst for tens of ms.
EARLY_MIN_S = 0.08
# A tail loss probe comes after two round trips and two of the kernel's ticks (tcp_schedule_loss_probe), at most 20 ms
# at 100 Hz, plus a tick of the timer itself; after a lone segment, which the peer may acknowledge late, 0.2 s later. If
# it has not come half a round trip and as much slack after that, it was lost or never sent, and the ACK goes early.
PROBE_RTTS, PROBE_SLACK_S, PROBE_ALONE_S = 2.5, 0.06, 0.2
# After a lone segment the probe may come as late as the retransmission timer would: three round trips and an eighth.
PROBE_ALONE_RTTS = 3.5
# While nothing is heard our request is sent again: first so many round trips and seconds later, so that it comes before
# the server has been idle for a retransmission timeout and begins anew with another window (RFC 5681 4.1); at most this
# much later, since a round trip longer than 0.4 s is likelier to be a lost SYN-ACK; then as a TCP would.
ASK_AGAIN_RTTS, ASK_AGAIN_S, ASK_AGAIN_MOST_S = 1.25, 0.05, 0.55
ASK_AGAIN_LATER_S = (1.0, 2.0)
# A window update opens a closed window; without one, RFC 9293 3.8.6.1 probes it with a byte.
PROBE_BYTES = 1
# The timestamps option with its padding (RFC 7323 appendix A) takes this much of every segment.
STAMP_BYTES = 12
# The segment size of a peer without an MSS option (RFC 9293 3.7.1), and the most bytes that we put into one segment:
# Ethernet's 1500 less headers, less room for a tunnel on the way.
MSS_UNSAID, SEGMENT_MOST = 536, 1400


@dataclass(slots=True)
class Asking:
    """Our request, in as many segments as the server's window and segment size ask for.

    seq, ack   where both sides stand
    window     bytes that the server takes now; `shift` scales its later windows
    """

    data: bytes
    seq: int
    ack: int
    mss: int
    window: int
    shift: int = 0
    options: tuple[tuple[int, bytes], ...] = ()
    sent: int = 0
    acked: int = 0

    @property
    def end(self) -> int:
        """Return the sequence number after the request."""
        return self.seq + len(self.data)

    @property
    def pending(self) -> bool:
        """Return whether some of it is not acknowledged."""
        return self.acked < len(self.data)

    def due(self) -> list[Segment]:
        """Return the segments that may go now."""
        found = []
        limit = min(self.acked + self.window, len(self.data))
        while self.sent < limit:
            length = min(self.mss, limit - self.sent)
            found.append(self._segment(self.sent, length))
            self.sent += length
        return found

    def again(self) -> Segment:
        """Return the segment to repeat when nothing arrived: the first unacknowledged one; for a closed window, a
        byte."""
        length = min(self.mss, max(self.sent - self.acked, PROBE_BYTES), len(self.data) - self.acked)
        self.sent = max(self.sent, self.acked + length)
        return self._segment(self.acked, length)

    def hear(self, segment: Segment) -> None:
        """Take its acknowledgement and window."""
        if segment.flags & ACK and 0 <= segment.ack - self.seq <= len(self.data):
            self.acked = max(self.acked, segment.ack - self.seq)
            self.window = segment.window << self.shift

    def _segment(self, at: int, length: int) -> Segment:
        part = self.data[at : at + length]
        return Segment(ACK | PSH, self.seq + at, self.ack, WINDOW, self.options, part, length)


def asking(data: bytes, synack: Segment, options: tuple[tuple[int, bytes], ...], wscale: int | None) -> Asking:
    """Return a request right after a handshake; `wscale`: the shift that we offered."""
    stamps = STAMP_BYTES if options else 0
    mss = max(min(synack.mss or MSS_UNSAID, SEGMENT_MOST) - stamps, 1)
    shift = synack.wscale if wscale is not None and synack.wscale is not None else 0
    return Asking(data, 1, 1, mss, synack.window, min(shift, 14), options)


def settle(opening: Opening, *, slower: bool = False) -> Generator[Send | Wait, Packet | None, None]:
    """Hold the final ACK back on short paths, so that the server believes in a round trip of `SETTLE_S`.

    slower  of `SLOWER_S` more
    """
    if opening.synack is None or opening.rtt_s is None:
        return
    more_s = SLOWER_S if slower and opening.rtt_s <= SLOWER_MOST_S else 0.0
    until = opening.synack.at + max(SETTLE_S - opening.rtt_s, 0.0) + more_s
    while until > opening.synack.at and (yield Wait(until)) is not None:
        pass


def withhold(asking: Asking, rtt_s: float | None, offer: Offer, *, early: bool, repeats: int = 1) -> Steps:
    """Ask; hold every ACK until a timer, a tail loss probe or the end shows; ACK once. Returns the trace's ending.

    offer   of our SYN: with SACK a tail loss probe may come
    early   do not wait for any timer
    repeats so many times the first byte is to come again before the ACK: more than one show how the timer grows
    """
    flight = Flight(rtt_s, asking.ack)
    ending = yield from _hold(flight, asking, offer.sack, early, repeats)
    if ending in ("rto", "last", "quiet", "edge") and flight.fin_at_seq is None:
        room = 2 * max(offer.mss, *flight.sizes()) >> (offer.wscale or 0)
        ack = Segment(ACK, asking.end, flight.end, max(room, 1), asking.options)
        ending = yield from _verify(flight, ack, twice=ending == "edge")
    if ending != "rst":
        yield Send(reset(asking.seq + asking.sent))
    return "done" if flight.pieces else "reset" if ending == "rst" else ending


def _hold(flight: Flight, asking: Asking, sack: bool, early: bool, repeats: int) -> Steps:
    timed_out = 0
    asked_at = yield from _say(flight, asking.due() or [asking.again()])
    again = [asked_at + after_s for after_s in _ask_again(flight.rtt_s)]
    while True:
        until = _patience(flight, asked_at, again, sack, early)
        packet = yield Wait((flight.began_at or 0.0) + HOLD_LIMIT_S if timed_out else until)
        if packet is None:
            if flight.lone is not None:
                return "edge"
            if flight.began_at is None and again:
                again.pop(0)
                yield from _say(flight, [asking.again()])
                continue
            return "no-data" if flight.began_at is None else "rto" if timed_out else "quiet"
        kind = flight.hear(packet)
        asking.hear(packet.segment)
        if not asking.pending:
            again.clear()
        elif due := asking.due():
            yield from _say(flight, due)
        timed_out += kind == "rto"
        if kind in ("last", "rst") or kind == "rto" and timed_out >= repeats:
            return kind
        if kind == "late" and sack:
            flight.suspect(packet)
        elif kind == "late":
            flight.extend(packet)


def _ask_again(rtt_s: float | None) -> tuple[float, ...]:
    first = ASK_AGAIN_MOST_S if rtt_s is None else min(ASK_AGAIN_RTTS * rtt_s + ASK_AGAIN_S, ASK_AGAIN_MOST_S)
    return (first, *(first + later_s for later_s in ASK_AGAIN_LATER_S))


def _say(flight: Flight, segments: list[Segment]) -> Generator[Send | Wait, Packet | None, float]:
    at = 0.0
    for segment in segments:
        sent = yield Send(segment)
        assert sent is not None
        flight.ask(sent)
        at = sent.at
    return at


def _patience(flight: Flight, asked_at: float, again: list[float], sack: bool, early: bool) -> float:
    """Return how long to wait for the next packet."""
    first = flight.began_at
    if first is None:
        return again[0] if again else asked_at + PATIENCE_S
    quiet_s = PATIENCE_S
    if early:
        quiet_s = max(flight.burst_gap_s, EARLY_MIN_S)
    elif sack:
        alone = len(flight.pieces) == 1
        rtts, slack_s = (PROBE_ALONE_RTTS, PROBE_ALONE_S) if alone else (PROBE_RTTS, 0.0)
        quiet_s = max(flight.burst_gap_s, rtts * (flight.rtt_s or 0.0) + PROBE_SLACK_S + slack_s)
    return min(flight.last_at + quiet_s, first + HOLD_LIMIT_S, flight.probed_at)


def _verify(flight: Flight, ack: Segment, *, twice: bool) -> Steps:
    """ACK all that came, offering room for two segments: a window that was full now lets fresh data out.

    twice   if nothing comes, say it again once: the proof by a tail loss probe does not depend on its time
    """
    acked = yield Send(ack)
    assert acked is not None
    until = acked.at + max(3 * (flight.rtt_s or 0.0), VERIFY_MIN_S)
    again_at = acked.at + _ask_again(flight.rtt_s)[0] if twice else until
    while (packet := (yield Wait(min(again_at, until)))) is not None or again_at < until:
        if packet is None:
            again_at = until
            yield Send(ack)
            continue
        if packet.segment.flags & RST:
            return "rst"
        if packet.segment.end > ack.ack and packet.segment.seq >= ack.ack:
            return "verified"
    return "unverified"
