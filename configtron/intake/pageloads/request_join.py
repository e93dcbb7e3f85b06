# SPDX-License-Identifier: MIT
"""Join log lines to connection records; the result has no addresses, so that it may leave the root reader.

Question   Which connection carried the page with this token, and which arm did its client have?
Method     Within a network namespace a 4-tuple is one connection at a time, so its start and end decide. Records have
           the client's prefix in place of its address: two clients of a prefix may have the same port, and are then
           refused. Packed records are unpacked for the lines that ask for them. Lines wait until the records are
           complete up to their arrival: else a connection that the reader has not heard of yet would be taken for its
           predecessor. Lines are dated by the wall clock and records by CLOCK_BOOTTIME: a line's age at its arrival
           moves it from one to the other, so that steps of the wall clock between lines do no harm.
Stop when  a line waited `WAIT_NS`, or `MOST_WAITING` lines wait: counted; an ended connection is forgotten after
           `KEPT_ENDED_NS`, any after `MOST` newer ones.
Reads as   `JoinedRequest`, and `EndedConnection` of connections that carried one; no address, no port.
Fails as   each line by its reason (`reasons.LINES`), in `counts`: "no-record"; "ambiguous-record" where two are within
           `REUSE_NS` of the line; "records-lost" where the kernel lost records since the connection began, so that its
           end may be missing; "other-connection" where the server's own number of the connection, or the client, is not
           that of the record's earlier lines. A wrong join is possible only where a record was lost and another client
           of the prefix has the same ports meanwhile.
Differs    from a look-up by sock_diag at the line's arrival, which answers with the listener once the connection has
           gone (115 of 400 requests with `Connection: close`).
Source     RFC 9293 3.3.1 (a connection is its pair of sockets); inet_diag(7); clock_gettime(2)
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import NamedTuple, cast

from configtron.intake.pageloads.log_lines import BY_LINES, RequestLine, prefix_of_client, request_line
from configtron.intake.pageloads.plan_book import DrawnArm
from configtron.intake.pageloads.recent import RecentNames
from configtron.model.close_records import (
    ABORTED,
    RESET,
    TIMED_OUT,
    BadEndings,
    CloseRecord,
    OpenRecord,
    PackedRecords,
    Unpacker,
    ends_of,
)

# Largest difference between a line's own time and its arrival: it passes a local socket.
LATE_NS = 5_000_000_000
# Records that do not come within so long are lost; lines that may wait: a burst of that long.
WAIT_NS, MOST_WAITING = 2_000_000_000, 100_000
# Tokens that are remembered as seen.
MOST_SEEN = 50_000
# Endings of a load that did not finish; so many wait to be taken.
BAD, MOST_BAD = frozenset((RESET, ABORTED, TIMED_OUT)), 20_000
# Web servers write their times in ms, some from a clock that they read once per turn of their loop.
SLACK_NS = 50_000_000
# A clock may be wrong by more than the slack, not by so much: two connections within it are ambiguous.
REUSE_NS = 1_000_000_000
# A log line follows its request within 5 s, and waits 2 s for its record.
KEPT_ENDED_NS = 10_000_000_000
# Connections that are remembered, 620 bytes each: 62 MB; five thousand a second for 20 s.
MOST = 100_000
# Sets of profiles' names under which packed connections began: maps of some hours.
MOST_UNPACKERS = 8


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

    moved    its profile was set anew while it was open
    """

    connection: int
    min_rtt_us: int = 0
    bandwidth_kbps: float | None = None
    loss: float | None = None
    moved: bool = False


class PackedConnections:
    """Connections that no log line asked for yet, as the kernel wrote their records, all of one unpacker.

    Of five thousand connections a second each is taken, found when a line asks for it, and forgotten in time, mostly
    without a step of the interpreter of its own. Only ends that one connection has are here: whatever is not that
    simple, `Lifetimes` unpacks.
    """

    def __init__(self, unpacker: Unpacker) -> None:
        self.unpacker = unpacker
        self._opened: dict[bytes, bytes] = {}
        self._closed: dict[bytes, bytes] = {}
        self._ended: deque[tuple[int, list[bytes], list[bytes]]] = deque()

    def __len__(self) -> int:
        return len(self._opened)

    def __iter__(self) -> Iterator[bytes]:
        return iter(tuple(self._opened))

    def among(self, ends: Iterable[bytes]) -> set[bytes]:
        """Return which of these ends are here."""
        return set() if self._opened.keys().isdisjoint(ends) else {one for one in ends if one in self._opened}

    def add(self, opened: dict[bytes, bytes]) -> None:
        """Take open records by their ends, none of which is here."""
        self._opened.update(opened)

    def close(self, packed: PackedRecords) -> list[int]:
        """Take the ends of connections that are here; return the places of all other close records."""
        ends = packed.closed_ends
        found, closed, odd = list(map(self._opened.get, ends)), packed.closed, list[int]()
        if found != packed.closed_begun or not self._closed.keys().isdisjoint(ends):
            odd = [at for at, one in enumerate(ends) if found[at] != packed.closed_begun[at] or one in self._closed]
            left = sorted(set(range(len(ends))).difference(odd))
            ends, closed = [ends[at] for at in left], [closed[at] for at in left]
        self._closed.update(zip(ends, closed, strict=True))
        self._ended.append((packed.until_ns, ends, closed))
        return odd

    def take(self, ends: bytes) -> tuple[bytes | None, bytes | None]:
        """Return the open and the close record of these ends, which are not here any more; None: there is none."""
        return self._opened.pop(ends, None), self._closed.pop(ends, None)

    def forget(self, number: int) -> None:
        """Forget so many of the oldest connections."""
        for ends in list(islice(self._opened, number)):
            self.take(ends)

    def expire(self, least_ns: int) -> None:
        """Forget connections that ended by then."""
        while self._ended and self._ended[0][0] <= least_ns:
            _, ends, closed = self._ended.popleft()
            if list(map(self._closed.get, ends)) != closed:
                # Another connection may have these ends by now.
                ends = [one for one, record in zip(ends, closed, strict=True) if self._closed.get(one) is record]
            for known in (self._closed, self._opened):
                deque(map(known.pop, ends, repeat(None)), maxlen=0)


class Lifetime:
    """One connection: when it was open (ns of CLOCK_BOOTTIME), and what its client was given.

    number     of this table: names the connection outside, where its ports do not go
    mark       which connection of its ends it is: its open record, as it came
    end_ns     0: open, as far as records show
    requests   lines that were joined to it
    """

    __slots__ = ("number", "mark", "record", "start_ns", "end_ns", "requests", "log_connection", "client", "closed")

    def __init__(self, number: int, mark: OpenRecord | bytes, record: OpenRecord) -> None:
        self.number, self.mark, self.record, self.start_ns = number, mark, record, record.start_ns
        self.end_ns, self.requests, self.log_connection, self.client = 0, 0, "", b""
        self.closed: CloseRecord | None = None

    def is_near(self, begin_ns: int, arrival_ns: int) -> bool:
        """Return whether it may be meant by a line, were the line's clock wrong by `REUSE_NS`."""
        return self.start_ns <= arrival_ns and (not self.end_ns or self.end_ns >= begin_ns - REUSE_NS)

    def spans(self, begin_ns: int, end_ns: int) -> bool:
        """Return whether it was open from begin to end."""
        return self.start_ns <= begin_ns + SLACK_NS and (not self.end_ns or self.end_ns >= end_ns - SLACK_NS)


class Lifetimes:
    """The connections of one network namespace.

    counts   closes without an open, connections forgotten
    """

    def __init__(self, most: int = MOST) -> None:
        self.counts: Counter[str] = Counter()
        self._most, self._number, self._lost_until_ns = most, 0, -1
        self._by_ends: OrderedDict[bytes, list[Lifetime]] = OrderedDict()
        self._ended: deque[tuple[int, bytes]] = deque(maxlen=2 * most)
        self._packed: list[PackedConnections] = []

    def __len__(self) -> int:
        return len(self._by_ends) + sum(map(len, self._packed))

    def opened(self, record: OpenRecord) -> Lifetime:
        """Take the record of a connection that began."""
        return self._begin(ends_of(record.prefix, record.local_port, record.remote_port), record, record)

    def closed(self, record: CloseRecord) -> Lifetime:
        """Take the record of a connection that ended; it is enough where the open record was lost."""
        opened = record.opened
        return self._end(ends_of(opened.prefix, opened.local_port, opened.remote_port), opened, record)

    def take(self, packed: PackedRecords) -> list[Lifetime]:
        """Take packed records; return the connections that ended after they had carried a request."""
        here, opened = self._packed_by(packed.unpacker), dict(zip(packed.opened_ends, packed.opened, strict=True))
        known = self._known(opened) if len(opened) == len(packed.opened) else set(opened)
        if known:
            for ends, begun in zip(packed.opened_ends, packed.opened, strict=True):
                if ends in known:
                    self._unpack(ends)
                    self._begin(ends, begun, cast(OpenRecord, packed.unpacker.unpack(begun)))
            opened = {ends: begun for ends, begun in opened.items() if ends not in known}
        here.add(opened)
        self._forget_oldest()
        served = []
        for at in here.close(packed):
            ends = packed.closed_ends[at]
            self._unpack(ends)
            lifetime = self._end(
                ends, packed.closed_begun[at], cast(CloseRecord, packed.unpacker.unpack(packed.closed[at]))
            )
            if lifetime.requests:
                served.append(lifetime)
        return served

    def _packed_by(self, unpacker: Unpacker) -> PackedConnections:
        """Return the packed connections of an unpacker, which are the last ones."""
        if not self._packed or self._packed[-1].unpacker is not unpacker:
            self._packed = [one for one in self._packed if one] + [PackedConnections(unpacker)]
            for ends in self._packed[0] if len(self._packed) > MOST_UNPACKERS else ():
                self._unpack(ends)
        return self._packed[-1]

    def _known(self, opened: Mapping[bytes, bytes]) -> set[bytes]:
        """Return which of these ends another connection has, or had."""
        known = set() if self._by_ends.keys().isdisjoint(opened.keys()) else self._by_ends.keys() & opened.keys()
        return known.union(*(packed.among(opened.keys()) for packed in self._packed))

    def _unpack(self, ends: bytes) -> None:
        """Take a connection out of the packed ones, if it is among them."""
        for packed in self._packed:
            opened, closed = packed.take(ends)
            if opened is not None:
                self._begin(ends, opened, cast(OpenRecord, packed.unpacker.unpack(opened)))
                if closed is not None:
                    self._end(ends, opened, cast(CloseRecord, packed.unpacker.unpack(closed)))

    def _forget_oldest(self) -> None:
        """Forget connections beyond the most; of packed ones some more, so that it is not done for each."""
        for packed in self._packed:
            if (more := len(self) - self._most) > 0:
                number = min(len(packed), more + self._most // 20)
                packed.forget(number)
                self.counts["connections forgotten"] += number

    def _begin(self, ends: bytes, mark: OpenRecord | bytes, record: OpenRecord) -> Lifetime:
        self._number += 1
        lifetime = Lifetime(self._number, mark, record)
        there = self._by_ends.get(ends)
        if there is not None:
            there.append(lifetime)
            return lifetime
        if len(self) >= self._most and self._by_ends:
            self._by_ends.popitem(last=False)
            self.counts["connections forgotten"] += 1
        self._by_ends[ends] = [lifetime]
        return lifetime

    def _end(self, ends: bytes, mark: OpenRecord | bytes, record: CloseRecord) -> Lifetime:
        for lifetime in self._by_ends.get(ends, ()):
            if lifetime.mark == mark:
                break
        else:
            self.counts["closes without an open"] += 1
            lifetime = self._begin(ends, mark, record.opened)
        lifetime.end_ns, lifetime.closed = max(record.end_ns, 1), record
        self._ended.append((record.end_ns, ends))
        return lifetime

    def lost(self, until_ns: int) -> None:
        """Take note that records of times up to then were lost: what is open by then may have ended unseen."""
        self._lost_until_ns = max(self._lost_until_ns, until_ns)

    def find(self, ends: bytes, client: bytes, begin_ns: int, end_ns: int, arrival_ns: int, log_connection: str = ""
             ) -> Lifetime | str:  # fmt: skip
        """Return the connection that was open from begin to end, or a reason of `reasons.LINES`.

        client           its address, which the connection's earlier lines had too
        arrival_ns       of the line at our socket: no request of it is later
        log_connection   the server's own number of the connection, which confirms
        """
        self._unpack(ends)
        there = self._by_ends.get(ends)
        if there is None:
            return "no-record"
        if len(there) > 1:
            there = [one for one in there if one.is_near(begin_ns, arrival_ns)]
            if len(there) > 1:
                return "ambiguous-record"
        if not there or there[0].start_ns > arrival_ns or not there[0].spans(begin_ns, end_ns):
            return "no-record"
        lifetime = there[0]
        known = lifetime.log_connection
        if (known and log_connection and known != log_connection) or (lifetime.client and lifetime.client != client):
            return "other-connection"
        if lifetime.start_ns <= self._lost_until_ns and not (known and log_connection):
            return "records-lost"
        lifetime.requests += 1
        lifetime.client, lifetime.log_connection = client, known or log_connection
        return lifetime

    def expire(self, now_ns: int) -> None:
        """Forget connections that ended long ago."""
        least_ns = now_ns - KEPT_ENDED_NS
        for packed in self._packed:
            packed.expire(least_ns)
        while self._ended and self._ended[0][0] <= least_ns:
            _, ends = self._ended.popleft()
            left = [one for one in self._by_ends.get(ends, ()) if not one.end_ns or one.end_ns > least_ns]
            if left:
                self._by_ends[ends] = left
            else:
                self._by_ends.pop(ends, None)


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
    return EndedConnection(number, record.min_rtt_us or 0, record.delivery_kbps, loss, bool(record.moved))
