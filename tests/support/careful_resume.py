# SPDX-License-Identifier: MIT
"""Careful Resume (RFC 9959): the phases in which a connection takes up a window that was learned before.

Question   Which window may a connection have that begins on a path of which an earlier window and round trip are saved?
Method     Reconnaissance: the initial window, until all of it is acknowledged without congestion. Unvalidated: half of
           the saved window, paced over a round trip, without growth; it ends once it is full, its first segment is
           acknowledged or a round trip has passed. Validating: growth as ever until the jump's last segment is
           acknowledged. Safe retreat, on congestion in the last two: half of the pipe's size, without growth until the
           jump's last segment is acknowledged; the slow-start threshold is then half of what the pipe's size is. A
           timeout ends the retreat.
           Pipe's size: what was in flight at the jump and what was delivered since.
Stop when  The phase is normal: the connection is as any other.
Reads as   `Resumption.acked` after each acknowledgement and `Resumption.congested` at congestion give what changes;
           `phase`, `jumped`, `validated`, `retreated`.
Fails as   Normal without a jump: congestion came first, slow start had ended, the window was there already, or the
           smallest round trip is at most half of the saved one or more than ten times it, so the path is another.
Differs    counts segments, as Linux does, not bytes. Another connection's claim to the window is its caller's affair.
           Growth and the way down to the threshold are the congestion control's and the kernel's.
Source     RFC 9959 sections 3 and 4; kmod/resume.c does the same in the kernel (tests/tune/test_kmod_resume.py)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

NORMAL, RECONNAISSANCE, UNVALIDATED, VALIDATING, RETREAT = (
    "normal", "reconnaissance", "unvalidated", "validating", "retreat",
)  # fmt: skip
# Share of the saved window that a jump may take, and of the pipe's size that congestion leaves (Beta).
HALF = 2
# The saved round trip lies within these multiples of today's: over half, at most ten.
MOST_RTTS = 10
INITIAL_WINDOW, LEAST_THRESHOLD = 10, 2


class SavedPath(NamedTuple):
    """What earlier connections came to: window in segments, smallest round trip in seconds."""

    window: int
    rtt_s: float


class Acknowledged(NamedTuple):
    """A connection after an acknowledgement, in segments and seconds.

    delivered   segments delivered so far, in any order
    una, nxt    first segment that is not acknowledged, first that was not sent
    highest     first segment behind all that are acknowledged, selectively too
    window      congestion window before this acknowledgement; clamp: the largest that it may be
    unsent      whether the application's data waits to be sent
    """

    now_s: float
    delivered: int
    una: int
    highest: int
    nxt: int
    in_flight: int
    window: int
    slow_start: bool
    unsent: bool
    min_rtt_s: float
    rtt_s: float
    clamp: int = 1 << 31


class ResumeChange(NamedTuple):
    """What a phase changes; None: stays. rate: segments/s to pace at, 0.0: as before the jump."""

    window: int | None = None
    threshold: int | None = None
    rate: float | None = None


NO_CHANGE = ResumeChange()


@dataclass(slots=True)
class Resumption:
    """The phases of one connection. initial: its initial window; delivered: what was delivered when it began."""

    saved: SavedPath
    initial: int = INITIAL_WINDOW
    delivered: int = 0
    phase: str = RECONNAISSANCE
    jumped: bool = False
    validated: bool = False
    retreated: bool = False
    _first: int = 0
    _last: int = 0
    _began_s: float = 0.0
    _pipe: int = 0

    @property
    def grows(self) -> bool:
        """Return whether the congestion control may raise the window."""
        return self.phase not in (UNVALIDATED, RETREAT)

    def pipe(self, delivered: int) -> int:
        """Return the pipe's size."""
        return self._pipe + delivered

    def acked(self, seen: Acknowledged) -> ResumeChange:
        """Return what an acknowledgement without new congestion changes."""
        if self.phase == RECONNAISSANCE:
            return self._reconnoitred(seen)
        if self.phase == UNVALIDATED:
            return self._unvalidated(seen)
        if self.phase == VALIDATING and seen.una >= self._last:
            self.phase, self.validated = NORMAL, True
        if self.phase == RETREAT and seen.highest >= self._last:
            self.phase = NORMAL
            return ResumeChange(threshold=max(self.pipe(seen.delivered) // HALF, LEAST_THRESHOLD))
        return NO_CHANGE

    def congested(self, seen: Acknowledged) -> ResumeChange:
        """Return what a loss or a mark of congestion changes; `NO_CHANGE`: the congestion control's own answer."""
        if self.phase not in (UNVALIDATED, VALIDATING):
            self.phase = NORMAL if self.phase == RECONNAISSANCE else self.phase
            return NO_CHANGE
        rate = 0.0 if self.phase == UNVALIDATED else None
        if self.phase == UNVALIDATED:
            self._last = seen.nxt
        self.phase, self.retreated = RETREAT, True
        half = max(self.pipe(seen.delivered) // HALF, LEAST_THRESHOLD)
        return ResumeChange(window=half, threshold=half, rate=rate)

    def timed_out(self) -> None:
        """Leave what is left of a retreat to the congestion control: after a timeout the window must grow from one
        segment on."""
        if self.phase == RETREAT:
            self.phase = NORMAL

    def _reconnoitred(self, seen: Acknowledged) -> ResumeChange:
        jump = min(self.saved.window // HALF, seen.clamp)
        if seen.delivered < self.delivered + self.initial:
            return NO_CHANGE
        same_path = self.saved.rtt_s / HALF < seen.min_rtt_s <= self.saved.rtt_s * MOST_RTTS
        if not seen.slow_start or jump <= seen.window or not same_path:
            self.phase = NORMAL
            return NO_CHANGE
        if not seen.unsent:
            return NO_CHANGE
        self.phase, self.jumped = UNVALIDATED, True
        self._first, self._began_s = seen.nxt, seen.now_s
        self._pipe = seen.in_flight - seen.delivered
        return ResumeChange(window=jump, rate=jump / seen.rtt_s)

    def _unvalidated(self, seen: Acknowledged) -> ResumeChange:
        if seen.in_flight < seen.window and seen.una <= self._first and seen.now_s - self._began_s <= seen.rtt_s:
            return NO_CHANGE
        self._last, pipe = seen.nxt, self.pipe(seen.delivered)
        filled = seen.in_flight > pipe and seen.in_flight >= INITIAL_WINDOW
        self.phase = VALIDATING if filled else NORMAL
        window = seen.in_flight if filled else max(pipe, INITIAL_WINDOW)
        return ResumeChange(window=min(window, seen.window), rate=0.0)
