# SPDX-License-Identifier: MIT
"""Join log lines to connection records; the result has no addresses, so that it may leave the root reader.

Question   Which connection carried the page with this token, and which arm did its client have?
Method     Lines wait until the records are complete up to their arrival, then `Lifetimes.find` decides. Lines are dated
           by the wall clock and records by CLOCK_BOOTTIME: a line's age at its arrival moves it from one to the other,
           so that steps of the wall clock between lines do no harm.
Stop when  a line waited `WAIT_NS`, or `MOST_WAITING` lines wait: counted.
Reads as   `JoinedRequest`, and `EndedConnection` of connections that carried one; no address, no port.
Fails as   each line by its reason (`reasons.LINES`), in `counts`.
Source     `lifetimes.py`; clock_gettime(2)
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import IPv6Address
from typing import NamedTuple

from configtron.intake.pageloads.lifetimes import Lifetime, Lifetimes
from configtron.intake.pageloads.log_lines import BY_LINES, RequestLine, request_line
from configtron.intake.pageloads.recent import RecentNames
from configtron.model.close_records import (
    ABORTED,
    RESET,
    TIMED_OUT,
    BadEndings,
    CloseRecord,
    OpenRecord,
    PackedRecords,
    ends_of,
)

# Largest difference between a line's own time and its arrival: it passes a local socket.
LATE_NS = 5_000_000_000
# Records that do not come within so long are lost; lines that may wait: a burst of that long.
WAIT_NS, MOST_WAITING = 2_000_000_000, 100_000
# Tokens that are remembered as seen; prefixes of addresses.
MOST_SEEN, REMEMBERED = 50_000, 20_000
# Endings of a load that did not finish; so many wait to be taken.
BAD, MOST_BAD = frozenset((RESET, ABORTED, TIMED_OUT)), 20_000


class DrawnArm(NamedTuple):
    """Class, arm and propensity of a client, without its address, as `model.fleet.OutcomeRow` has them.

    doubt   why its page loads are not learned from, a key of `reasons.UNTAUGHT`; "": they are
    """

    prefix: str
    unit: str
    term: int = 0
    map_version: int = 0
    epoch: int = 0
    class_name: str = ""
    arm: int | None = None
    profile: str = ""
    propensity: float | None = None
    held: bool = False
    doubt: str = ""


class JoinedRequest(NamedTuple):
    """A request whose connection is known; times in ns of CLOCK_BOOTTIME.

    connection  number of its `Lifetime`
    first       it was the connection's first request; None: unknown
    idle_ns     from the connection's start to the request: a preconnected socket waited longer than its handshake
    rtt_us      least round trip that was measured by then; 0: none
    """

    token: str
    connection: int
    begin_ns: int
    end_ns: int
    first: bool | None
    idle_ns: int
    rtt_us: int
    host: str
    drawn: DrawnArm


class EndedConnection(NamedTuple):
    """A connection that ended, of those that carried a joined request; None, or 0 us: unknown.

    ending   as `close_records.ENDINGS`
    moved    its profile was set anew while it was open
    """

    connection: int
    min_rtt_us: int = 0
    bandwidth_kbps: float | None = None
    loss: float | None = None
    ending: str = ""
    moved: bool = False


class RequestJoin:
    """Takes records and lines in any order, hands out requests whose connection is certain.

    describe     what a connection's client was given, from its record and its address
    counts       lines by reason; "joined" those that passed on
    """

    def __init__(
        self,
        describe: Callable[[OpenRecord, bytes], DrawnArm],
        lifetimes: Lifetimes | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.lifetimes = lifetimes if lifetimes is not None else Lifetimes()
        self._describe = describe
        self._waiting: deque[tuple[int, int, RequestLine]] = deque()
        self._seen = RecentNames(MOST_SEEN)
        self._ended: list[EndedConnection] = []
        self._bad = BadEndings()

    def record(self, record: OpenRecord | CloseRecord) -> None:
        """Take a connection's record."""
        if isinstance(record, OpenRecord):
            self.lifetimes.opened(record)
            return
        lifetime = self.lifetimes.closed(record)
        if record.ending in BAD:
            self._end_badly(BadEndings.of((record.opened.prefix, record.end_ns)))
        if lifetime.requests:
            self._ended.append(_ended(lifetime.number, record))

    def packed(self, packed: PackedRecords) -> None:
        """Take records that are unpacked when a line needs them."""
        for lifetime in self.lifetimes.take(packed):
            if closed := lifetime.closed:
                self._ended.append(_ended(lifetime.number, closed))
        self._end_badly(packed.bad)

    def _end_badly(self, bad: BadEndings) -> None:
        found = self._bad.and_then(bad)
        self._bad = found.since(max(0, found.number - MOST_BAD))

    def datagram(self, data: bytes, arrival_ns: int, wall_ns: int) -> None:
        """Take a log line as it came, at that time of CLOCK_BOOTTIME and of the wall clock."""
        line = request_line(data)
        if isinstance(line, str):
            self.counts[line] += 1
        elif abs(wall_ns - line.end_ns) > LATE_NS:
            self.counts["line-clock"] += 1
        elif len(self._waiting) >= MOST_WAITING:
            self.counts["lines-overflow"] += 1
        else:
            self._waiting.append((arrival_ns, arrival_ns - wall_ns, line))

    def advance(self, complete_ns: int, now_ns: int) -> list[JoinedRequest]:
        """Return the requests whose connection is now certain.

        complete_ns   the reader has taken every record up to this time
        """
        joined: list[JoinedRequest] = []
        waiting = self._waiting
        while waiting:
            arrival_ns, back_ns, line = waiting[0]
            if arrival_ns > complete_ns and now_ns - arrival_ns < WAIT_NS:
                break
            waiting.popleft()
            # its record did not come in time
            found = "records-lost" if arrival_ns > complete_ns else self._join(line, arrival_ns, back_ns)
            if isinstance(found, str):
                self.counts[found] += 1
            else:
                joined.append(found)
        self.counts["joined"] += len(joined)
        self.lifetimes.expire(now_ns)
        return joined

    def ended(self) -> Sequence[EndedConnection]:
        """Return the connections that ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def ended_badly(self) -> BadEndings:
        """Return the connections that ended badly since the last call."""
        bad, self._bad = self._bad, BadEndings()
        return bad

    def _join(self, line: RequestLine, arrival_ns: int, back_ns: int) -> JoinedRequest | str:
        if self._seen.get(line.token):
            return "repeated-line"
        ends = ends_of(prefix_of_client(line.client), line.local_port, line.remote_port)
        begin_ns, end_ns = line.begin_ns + back_ns, line.end_ns + back_ns
        lifetime = self.lifetimes.find(ends, line.client, begin_ns, end_ns, arrival_ns, line.connection)
        if isinstance(lifetime, str):
            return lifetime
        self._seen.put(line.token, "joined")
        return self._request(line, lifetime, begin_ns, end_ns)

    def _request(self, line: RequestLine, lifetime: Lifetime, begin_ns: int, end_ns: int) -> JoinedRequest:
        number = lifetime.requests if line.number == BY_LINES else line.number
        closed, rtt_us = lifetime.closed, lifetime.record.rtt_us or 0
        if closed:
            least_us = closed.min_rtt_us or rtt_us
            rtt_us = min(rtt_us, least_us) if rtt_us else least_us
            if lifetime.requests == 1:
                self._ended.append(_ended(lifetime.number, closed))
        return JoinedRequest(
            line.token, lifetime.number, begin_ns, end_ns, None if not number else number == 1,
            max(0, begin_ns - lifetime.start_ns), rtt_us or line.rtt_us, line.host,
            self._describe(lifetime.record, line.client),
        )  # fmt: skip


def _ended(number: int, record: CloseRecord) -> EndedConnection:
    """Return what a page load's row has of its connection's end."""
    loss = record.retransmits / record.segments if record.segments else None
    return EndedConnection(
        number, record.min_rtt_us or 0, record.delivery_kbps, loss, record.ending or "", bool(record.moved)
    )


@lru_cache(REMEMBERED)
def prefix_of_client(client: bytes) -> str:
    """Return the prefix of a packed address as records have it: /24, of IPv6 /48."""
    if len(client) == 4:
        return f"{client[0]}.{client[1]}.{client[2]}.0/24"
    return f"{IPv6Address(client[:6] + bytes(10))}/48"
