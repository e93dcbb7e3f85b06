# SPDX-License-Identifier: MIT
"""A TCP conversation from outside: handshakes, first flights, repeats, gaps.

Rules for this file: pure; total (any packet list is read, none raises); knows sequence numbers, not payloads. Scripts
use the same readers to decide when to stop as inferences use for their readings, so the two cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from configtron.model.nouns import ACK, FIN, RST, SYN, Packet

# Two SYN-ACKs closer than this are one answer sent twice (seen 10-72 ms apart on CDNs), not a retransmission: the
# smallest RTO class is 0.2 s, whose timer never fires before 0.175 s.
DUPLICATE_GAP_S = 0.1
# A burst ends with a pause longer than this even on a zero-delay path (below it: scheduling noise of busy servers) ...
BURST_GAP_MIN_S = 0.03
# ... or this many round trips: a server paced over its first round trip (BBR) has no longer pause inside.
BURST_GAP_RTTS = 1.5
# ... or this many times the largest pause already seen inside the burst.
BURST_GAP_FACTOR = 4.0
# A packet that the network delivers twice comes again this soon, or within this share of a round trip (a copy takes the
# same path, and may be overtaken): sooner than any server can know that something is missing.
DOUBLED_S, DOUBLED_RTTS = 0.005, 0.5
# Where a SYN is answered this soon, the capture stands at the server: nothing that it sent is missing.
NEAR_S = 0.002
# Two samples of a round trip within this share of each other are of the same path.
AGREE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Handshake:
    """The opening: indices into the packet list, the SYN-ACKs heard, the round trip if certain (Karn's rule)."""

    syns: tuple[int, ...] = ()
    synacks: tuple[int, ...] = ()
    rtt_s: float | None = None
    reset: bool = False

    def repeats(self, packets: Sequence[Packet]) -> list[tuple[int, float]]:
        """Return (index, gap in s) of every SYN-ACK that was a retransmission: duplicates within 0.1 s are merged."""
        found: list[tuple[int, float]] = []
        last = None
        for i in self.synacks:
            at = packets[i].at
            if last is not None and at - last < DUPLICATE_GAP_S:
                continue
            if last is not None:
                found.append((i, at - last))
            last = at
        return found

    def duplicates(self, packets: Sequence[Packet]) -> int:
        """Return how many SYN-ACKs came within 0.1 s of the one before."""
        times = [packets[i].at for i in self.synacks]
        return sum(1 for a, b in zip(times, times[1:], strict=False) if b - a < DUPLICATE_GAP_S)


def handshake_of(packets: Sequence[Packet]) -> Handshake:
    """Read the opening of a trace."""
    syns: list[int] = []
    synacks: list[int] = []
    reset = False
    # Few packets of a trace are of its opening: the others are passed over in one go.
    for i in [i for i, packet in enumerate(packets) if packet.segment.flags & (SYN | RST)]:
        way, flags = packets[i].way, packets[i].segment.flags
        if way == "out" and flags & SYN and not flags & ACK:
            syns.append(i)
        elif way == "in" and flags & (SYN | ACK) == SYN | ACK:
            synacks.append(i)
        elif way == "in" and flags & RST and not synacks:
            reset = True
    rtt = None
    if len(syns) == 1 and synacks:
        rtt = max(packets[synacks[0]].at - packets[syns[0]].at, 0.0)
    return Handshake(tuple(syns), tuple(synacks), rtt, reset)


@dataclass(slots=True)
class Flight:
    """The server's data while every ACK is withheld, one packet at a time.

    `hear` returns the kind of each packet:

    new     data at or beyond the edge, within the burst, or filling a hole in it
    late    data beyond the edge after the burst had ended: a tail loss probe if SACK was agreed, else the server's own
            pace
    rto     the first byte again (or, if it had been lost, for the first time) after the burst: the retransmission timer
    last    the last segment again: a tail loss probe of a response that is over
    again   other bytes again
    copy    the same bytes again, so soon that the network delivered them twice
    fin     the end of the response
    rst     the end of the connection
    ack     nothing but an acknowledgement

    tail_gap_s is the pause before the last piece.

    rtt_s may be None (unknown); the first acknowledgement of our request samples it again, and the shorter counts: a
    SYN-ACK that was lost once shows its timer, not the path. `burst_gap_s` is the pause that ends the burst, as known
    so far. Sequence numbers are relative: the first byte is `base`.
    """

    rtt_s: float | None
    base: int = 1
    pieces: dict[int, int] = field(default_factory=dict)
    frames: list[int] = field(default_factory=list)
    edge: int = 0
    began_at: float | None = None
    last_at: float = 0.0
    largest_gap_s: float = 0.0
    tail_gap_s: float = 0.0
    fin_at_seq: int | None = None
    lone: Packet | None = None
    burst_gap_s: float = BURST_GAP_MIN_S
    paused: bool = False
    sampled: bool = False
    _heard_at: dict[tuple[int, int], float] = field(default_factory=dict)
    _asked: Packet | None = None
    _asked_twice: bool = False
    _asked_last: float = 0.0

    def __post_init__(self) -> None:
        self.edge = max(self.edge, self.base)
        self._widen()

    def _widen(self) -> None:
        """The burst gap, now that a longer pause or another round trip is known."""
        self.burst_gap_s = max(
            BURST_GAP_RTTS * (self.rtt_s or 0.0), BURST_GAP_FACTOR * self.largest_gap_s, BURST_GAP_MIN_S
        )

    def ask(self, packet: Packet) -> None:
        """Our request went out. Sent twice, its answer shows no round trip (Karn's rule)."""
        if self._asked is None:
            self._asked = packet
        elif packet.segment.seq == self._asked.segment.seq:
            self._asked_twice = True
        self._asked_last = packet.at

    def _sample(self, packet: Packet, asked: Packet) -> None:
        if not packet.segment.flags & ACK or packet.segment.ack <= asked.segment.seq:
            return
        self._asked = None
        if not self._asked_twice:
            self.sampled = True
            self.rtt_s = min(packet.at - asked.at, math.inf if self.rtt_s is None else self.rtt_s)
            self._widen()
        elif self.rtt_s is not None:
            # Ambiguous by itself, but where the last copy was answered after the handshake's round trip, both agree.
            self.sampled = abs(packet.at - self._asked_last - self.rtt_s) <= AGREE_SHARE * self.rtt_s

    def hear(self, packet: Packet) -> str:
        """Take one packet in and return its kind (see above)."""
        if self._asked is not None and not self.sampled:
            self._sample(packet, self._asked)
        flags, start, _, _, _, _, length = packet.segment
        if flags & RST:
            return "rst"
        if length <= 0 or flags & SYN:
            if flags & FIN:
                self.fin_at_seq = start
                return "fin"
            return "ack"
        end = start + length
        if end <= self.base:
            return "again"
        heard_at = self._heard_at.get((start, end + 1 if flags & FIN else end))
        self._heard_at[start, end] = packet.at
        if heard_at is not None and is_doubled(packet.at - heard_at, self.rtt_s):
            return "copy"
        if self.lone is not None:
            self._in_company(packet, self.lone)
        late = self.burst_over(packet.at)
        if start < self.edge and (late or self._covered(start, end)):
            return self._again(start, end, packet)
        if late:
            return "late"
        self._take(start, end, packet)
        if flags & FIN:
            self.fin_at_seq = end
            return "fin"
        return "new"

    def burst_over(self, at: float) -> bool:
        """Return whether the pause before `at` is longer than any within the burst could be."""
        return self.began_at is not None and at - self.last_at > self.burst_gap_s

    def suspect(self, packet: Packet) -> None:
        """Late data may be a tail loss probe: it is one if it stays alone for another burst gap."""
        self.lone = packet

    @property
    def probed_at(self) -> float:
        """Return when a suspected probe will have been alone for long enough; infinity if there is none."""
        return math.inf if self.lone is None else self.lone.at + self.burst_gap_s

    @property
    def end(self) -> int:
        """Return where all data heard ends: the edge, or the end of a probe beyond it."""
        return max(self.edge, self.lone.segment.end if self.lone is not None else 0)

    def _in_company(self, packet: Packet, lone: Packet) -> None:
        """More fresh data soon after a suspected probe: it was none, the server had paused by itself."""
        if packet.at <= self.probed_at and packet.segment.seq >= lone.segment.end:
            self.lone = None
            self.extend(lone)

    def extend(self, packet: Packet) -> None:
        """Take late data into the flight: the server paused by itself, the window had room."""
        self.paused = True
        self._take(packet.segment.seq, packet.segment.seq + packet.segment.length, packet)

    @property
    def uneven(self) -> bool:
        """Return whether the server paused by itself: within the burst, so that the burst gap grew, or for longer."""
        return self.paused or self.largest_gap_s * BURST_GAP_FACTOR > BURST_GAP_MIN_S

    def holes(self) -> list[int]:
        """Return sizes in bytes of the gaps between the first byte and the edge: segments that were lost on the way."""
        found, reach = [], self.base
        for start in sorted(self.pieces):
            if start > reach:
                found.append(start - reach)
            reach = max(reach, self.pieces[start])
        return found

    def sizes(self) -> list[int]:
        """Return segment sizes in bytes, in order of sequence."""
        return [self.pieces[start] - start for start in sorted(self.pieces)]

    def _take(self, start: int, end: int, packet: Packet) -> None:
        at = packet.at
        if self.began_at is None:
            self.began_at = at
        else:
            self.tail_gap_s = at - self.last_at
            if self.largest_gap_s < self.tail_gap_s <= self.burst_gap_s:
                self.largest_gap_s = self.tail_gap_s
                self._widen()
        self.last_at = at
        self.pieces[start] = max(end, self.pieces.get(start, end))
        self.frames.append(packet.frame)
        if end > self.edge:
            self.edge = end

    def _again(self, start: int, end: int, packet: Packet) -> str:
        if start == self.base:
            return "rto"
        if end == self.edge:
            return "last"
        if not self._covered(start, end):
            self._take(start, end, packet)
        return "again"

    def _covered(self, start: int, end: int) -> bool:
        reach = start
        for piece in sorted(self.pieces):
            if piece <= reach < self.pieces[piece]:
                reach = self.pieces[piece]
        return reach >= end


def is_doubled(apart_s: float, rtt_s: float | None) -> bool:
    """Return whether the same packet came again so soon that the network, and not its sender, doubled it."""
    return apart_s <= max(DOUBLED_S, DOUBLED_RTTS * (rtt_s or 0.0))


def effective_mss(sizes: Iterable[int], offered: int, repeated: int | None = None) -> int:
    """Return bytes per full segment: the largest heard; if frames were merged by offloading, the first retransmission's
    size.

    sizes      data segment sizes in bytes
    offered    the MSS option we sent, bytes
    repeated   size of the first retransmission, which segmentation offload never merges: Linux retransmits one
               segment at a timeout (net/ipv4/tcp_timer.c, tcp_retransmit_timer)
    """
    largest = max(sizes, default=0)
    if largest > offered and repeated and 0 < repeated <= offered:
        return repeated
    return largest
