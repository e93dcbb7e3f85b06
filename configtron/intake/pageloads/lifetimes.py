# SPDX-License-Identifier: MIT
"""Connections of the kernel's records, and which of them was open when a log line says so.

Question   Which connection is meant by a client's prefix, two ports and a time?
Method     Within a network namespace a 4-tuple is one connection at a time, so its start and end decide. Records have
           the client's prefix in place of its address: two clients of a prefix may have the same port, and are then
           refused. Packed records are unpacked for the lines that ask for them. A line is looked up only once the
           records are complete up to its arrival (`RequestJoin.advance`): else a connection that the reader has not
           heard of yet would be taken for its predecessor.
Stop when  an ended connection is forgotten after `KEPT_ENDED_NS`, any after `MOST` newer ones.
Reads as   the `Lifetime`.
Fails as   "no-record"; "ambiguous-record" where two are within `REUSE_NS` of the line; "records-lost" where the kernel
           lost records since the connection began, so that its end may be missing; "other-connection" where the
           server's own number of the connection, or the client, is not that of the record's earlier lines. A wrong join
           is possible only where a record was lost and another client of the prefix has the same ports meanwhile.
Differs    from a look-up by sock_diag at the line's arrival, which answers with the listener once the connection has
           gone (115 of 400 requests with `Connection: close`).
Source     RFC 9293 3.3.1 (a connection is its pair of sockets); inet_diag(7)
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Mapping

from configtron.intake.pageloads.packed_connections import PackedConnections
from configtron.model.close_records import CloseRecord, OpenRecord, PackedRecords, Unpacker, ends_of

# Web servers write their times in ms, some from a clock that they read once per turn of their loop.
SLACK_NS = 50_000_000
# A clock may be wrong by more than the slack, not by so much: two connections within it are ambiguous.
REUSE_NS = 1_000_000_000
# A log line follows its request within 5 s, and waits 2 s for its record (`request_join`).
KEPT_ENDED_NS = 10_000_000_000
# Connections that are remembered, 620 bytes each: 62 MB; five thousand a second for 20 s.
MOST = 100_000
# Sets of profiles' names under which packed connections began: maps of some hours.
MOST_UNPACKERS = 8


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
                    self._begin(ends, begun, _opened(begun, packed.unpacker))
            opened = {ends: begun for ends, begun in opened.items() if ends not in known}
        here.add(opened)
        self._forget_oldest()
        served = []
        for at in here.close(packed):
            ends = packed.closed_ends[at]
            self._unpack(ends)
            lifetime = self._end(ends, packed.closed_begun[at], _closed(packed.closed[at], packed.unpacker))
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
            if (found := packed.take(ends)) is not None:
                self._begin(ends, found.opened, _opened(found.opened, packed.unpacker))
                if found.closed is not None:
                    self._end(ends, found.opened, _closed(found.closed, packed.unpacker))

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


def _opened(data: bytes, unpacker: Unpacker) -> OpenRecord:
    record = unpacker.unpack(data)
    assert isinstance(record, OpenRecord)
    return record


def _closed(data: bytes, unpacker: Unpacker) -> CloseRecord:
    record = unpacker.unpack(data)
    assert isinstance(record, CloseRecord)
    return record
