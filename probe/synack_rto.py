# SPDX-License-Identifier: MIT
"""Provoke SYN-ACK retransmissions: ask for a connection, never complete it. The reading is in
`fingerprint/synack_rto.py` and `fingerprint/syn_cookies.py`.

The same conversation shows the announced window and the SYN-ACK's signature. At its end two things are asked that
silence does not show: whether the server still remembers us (its last copy may have been lost), and, of one that never
repeated itself, whether it ever did.
"""

from __future__ import annotations

from collections.abc import Generator

from configtron.fingerprint.schedule import CONSTANT
from configtron.fingerprint.stream import DUPLICATE_GAP_S
from configtron.model.nouns import ACK, RST, SYN, Packet, Segment, Target
from configtron.probe.script import SYN_PATIENCE_S, Script, Send, Wait, reset, syn_options

# Two copies of the largest class (3 s) fit: at 3 and at 9 s, an eighth late (timer wheel). One may be lost.
FIRST_REPEAT_S = 10.5
# Timers double. After a gap g the next copy comes within 2 g, an eighth late at most; a server that sent its last one
# forgets us then, one whose next copy was lost 4 g later. So our SYN asks between the two.
SILENCE_FACTOR = 3.0
# The same for a timer that stays as it is: between g, an eighth late, and 2 g. Two gaps with no more than this ratio
# between them are no doubling.
CONSTANT_SILENCE_FACTOR, CONSTANT_RATIO = 1.5, CONSTANT[1]
# Linux's five repeats from 1 s are over after 31 s, from 3 s (the largest class) after 93 s, and three times the last
# gap is 144 s. Listening costs the server nothing: its own timers keep the half-open connection.
PATIENCE_S = 250.0
# A first SYN or its answer may be lost. The server's own copy of the answer, of the largest class a second's path away,
# comes before we ask again: so a first answer never belongs to two SYNs.
TRIES_AT_S = (0.0, 4.5, 9.0)
# Our SYN at the end is repeated once: after so many times the first answer's delay, at least a share of the last gap
# (the server may forget us meanwhile), at most so long unless the path is longer.
ECHO_FACTOR, ECHO_SHARE, ECHO_S, ECHO_TRIES = 1.5, 0.3, 1.0, 2
# A copy lost before each of so many echoes is reported.
ECHOES = 3
# Cookies are computed anew each minute (net/ipv4/syncookies.c, tcp_cookie_time): of two farewells, one lies within it.
# Each is sent thrice, because after a lost one a server without cookies would still remember the connection, and look
# like one with cookies.
FAREWELLS, SENT = 2, 3

Steps = Generator[Send | Wait, Packet | None, str]


def synack_rto(
    target: Target,
    agent: str,
    *,
    full: bool = False,
    repeats: int = 0,
    patience_s: float = PATIENCE_S,
) -> Script:
    """Hold the final ACK and log every SYN-ACK.

    full        offer SACK, timestamps and window scaling; else MSS 1460 alone
    repeats     stop after so many retransmissions (0: listen until the server gives up or `patience_s` passes)
    """
    syn = Segment(SYN, options=syn_options(1460, sack=full, timestamps=full, wscale=7 if full else None))
    log = SynAckLog(repeats, patience_s)
    why = ""
    for until in (*TRIES_AT_S[1:], TRIES_AT_S[-1] + SYN_PATIENCE_S):
        sent = yield Send(syn)
        assert sent is not None
        why = yield from log.listen(until)
        if log.count:
            log.arrival_s = log.began - sent.at
            break
        if why == "reset":
            return "refused"
    if not log.count:
        return "no-synack"
    if log.count == 1 and why == "reset":
        return "done"
    if log.count == 1:
        yield from _farewells(syn, log)
    else:
        for _ in range(ECHOES):
            answer, at = yield from _echo(syn, log)
            if answer != "alive" or why != "silence" or at > log.began + patience_s:
                break
            log.remembered(at)
            why = yield from log.listen(at + log.silence_s)
    yield Send(reset(1))
    return "done"


class SynAckLog:
    """The SYN-ACKs that show the server's timer: how many answers, the last one and the gap before it."""

    def __init__(self, repeats: int, patience_s: float) -> None:
        self.repeats, self.patience_s = repeats, patience_s
        self.count = 0
        self.began = self.last = self.gap_s = self.arrival_s = 0.0
        self.constant = False

    def listen(self, until: float) -> Steps:
        """Note SYN-ACKs until silence, a RST, or enough; says which of the three."""
        while (packet := (yield Wait(until))) is not None:
            if packet.segment.flags & RST:
                return "reset"
            if packet.segment.flags & (SYN | ACK) != SYN | ACK:
                continue
            if self.count and packet.at - self.last < DUPLICATE_GAP_S:
                continue
            self._note(packet.at)
            if self.repeats and self.count > self.repeats:
                return "enough"
            until = min(self.last + self.silence_s, self.began + self.patience_s)
        return "silence"

    def remembered(self, at: float) -> None:
        """The echo found the connection alive: a copy was lost, and the server's timer begins anew."""
        self.last = at
        self.gap_s *= 1 if self.constant else 2

    @property
    def silence_s(self) -> float:
        """Return how long after the last answer the next copy would surely have come, in s."""
        if not self.gap_s:
            return FIRST_REPEAT_S
        return self.gap_s * (CONSTANT_SILENCE_FACTOR if self.constant else SILENCE_FACTOR)

    def _note(self, at: float) -> None:
        if self.count:
            gap_s = at - self.last
            self.constant = gap_s < self.gap_s * CONSTANT_RATIO
            self.gap_s = gap_s
        else:
            self.began = at
        self.last = at
        self.count += 1


def _farewells(syn: Segment, log: SynAckLog) -> Generator[Send | Wait, Packet | None, None]:
    """Nothing was repeated: be forgotten, ask again, and see whether the answer has a new number."""
    for _ in range(FAREWELLS):
        for _ in range(SENT):
            yield Send(reset(1))
        answer, at = yield from _echo(syn, log)
        if answer != "new":
            return
        # A duplicate of this answer must not be taken for the next one.
        while (yield Wait(at + DUPLICATE_GAP_S)) is not None:
            pass


def _echo(syn: Segment, log: SynAckLog) -> Generator[Send | Wait, Packet | None, tuple[str, float]]:
    """Our SYN again: "alive" if the old answer comes, "new" if another, "reset", or "" for silence; and when."""
    for _ in range(ECHO_TRIES):
        sent = yield Send(syn)
        assert sent is not None
        least = min(ECHO_S, ECHO_SHARE * log.gap_s) if log.gap_s else ECHO_S
        until = sent.at + max(ECHO_FACTOR * log.arrival_s, least)
        while (packet := (yield Wait(until))) is not None:
            if packet.segment.flags & RST:
                return "reset", packet.at
            if packet.segment.flags & (SYN | ACK) == SYN | ACK:
                return "new" if packet.segment.seq else "alive", packet.at
    return "", 0.0
