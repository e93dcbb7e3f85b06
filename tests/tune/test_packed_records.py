# SPDX-License-Identifier: MIT
"""Packed records of the eBPF programs: joined to lines as those that are unpacked one by one, and without addresses."""

from __future__ import annotations

from collections import defaultdict
from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.intake.end_reports import EndReports
from configtron.intake.pageloads.request_join import KEPT_ENDED_NS, MOST_UNPACKERS, Lifetimes, RequestJoin
from configtron.linux.ring_buffer import RecordRun
from configtron.model.close_records import BadEndings, CloseRecord, PackedRecords, ends_of, prefix_of_ends
from configtron.tune.drivers.bpf.connection_records import BEGINNING, ENDING, MOVED, RecordParser
from configtron.tune.drivers.bpf.layout import MAPPED
from configtron.tune.drivers.bpf.packed_records import packed
from tests.support.pageloads import MS, T0, S, describe, line, token

NAMES, HZ = {1: "slow", 2: "wide"}, 250
PARSER = RecordParser(NAMES, HZ)
ESTABLISHED, LAST_ACK = 1, 9
CLIENT = ip_address("198.51.100.9").packed


def begun(number: int, start_ns: int = T0, port: int = 50_000, client: bytes = CLIENT, flags: int = 1) -> bytes:
    remote = MAPPED + client if len(client) == 4 else client
    return BEGINNING.pack(5, start_ns, number, 1, 2, 1, 30_000, remote, 443, port, number % 8, 0, flags, 0)


def ended(opened: bytes, end_ns: int, state: int = LAST_ACK, known: int = 1, error: int = 0, moved: bool = False
          ) -> bytes:  # fmt: skip
    fields = list(BEGINNING.unpack(opened))
    fields[12] |= MOVED * moved
    return ENDING.pack(*fields, end_ns, 1000, 100, 0, 20_000, 44, 8 + fields[2] % 4, 2, state, known, error, 50, 25, 0)


def run_of(records: list[bytes]) -> RecordRun:
    """Return records as a ring has them: each behind a head of eight bytes."""
    data, places = b"", defaultdict[int, list[int]](list)
    for record in records:
        places[len(record)].append(len(data) + 8)
        data += bytes(8) + record
    return RecordRun(data, places)


def pack(*records: bytes, parser: RecordParser = PARSER) -> PackedRecords:
    return packed(run_of(list(records)), parser)


@st.composite
def traffic(draw: st.DrawFn) -> list[tuple[int, bytes]]:
    """Return (ns, record or line) of clients of two prefixes that reuse two ports; some records are lost."""
    found: list[tuple[int, bytes]] = []
    number = 0
    for client, port in ((client, port) for client in range(3) for port in (50_000, 50_001)):
        at_ns = T0 + draw(st.integers(0, 3 * S))
        for _ in range(draw(st.integers(1, 4))):
            number += 1
            end_ns = at_ns + draw(st.sampled_from([1, MS, 30 * MS, S, 20 * S]))
            opened = begun(number, at_ns, port, CLIENT[:3] + bytes([client]))
            error, state = draw(st.sampled_from([(0, LAST_ACK), (104, ESTABLISHED), (0, ESTABLISHED), (110, LAST_ACK)]))
            closed = ended(opened, end_ns, state, draw(st.integers(0, 1)), error, draw(st.booleans()))
            found += [(at, record) for at, record in ((at_ns, opened), (end_ns, closed)) if draw(st.integers(0, 9))]
            for _ in range(draw(st.integers(0, 2))):
                written_ns = draw(st.integers(at_ns, end_ns))
                found.append((written_ns, line(token(len(found)), written_ns, port, 0, client=client)))
            at_ns = end_ns + draw(st.sampled_from([1, MS, 100 * MS, 2 * S, 90 * S]))
    return sorted(found)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(traffic(), st.lists(st.integers(0, 200 * S), max_size=12), st.integers(1, 3))
def test_packed_records_join_what_unpacked_ones_do(found: list[tuple[int, bytes]], pauses: list[int], parsers: int
                                                   ) -> None:  # fmt: skip
    """Whatever the turns cut apart, and though profiles change their names' parser between them."""
    one_by_one, at_once, done_ns = RequestJoin(describe), RequestJoin(describe), 0
    reported = EndReports(describe, True), EndReports(describe, True)
    several = [RecordParser(NAMES, HZ) for _ in range(parsers)]
    for turn, now_ns in enumerate(sorted({T0 + pause for pause in pauses} | {T0 + 900 * S})):
        news = [(at_ns, data) for at_ns, data in found if done_ns < at_ns <= now_ns]
        records = [data for _, data in news if not data.startswith(b"ctn")]
        for data in records:
            one_by_one.record(record := PARSER.unpack(data))
            if isinstance(record, CloseRecord):
                reported[0].take(record, S)
        at_once.packed(several_packed := pack(*records, parser=several[turn % parsers]))
        reported[1].take_packed(several_packed, S)
        assert reported[0].reports() == reported[1].reports() and reported[0].counts == reported[1].counts
        lines = [(at_ns, data) for at_ns, data in news if data.startswith(b"ctn")]
        joined = []
        for join in (one_by_one, at_once):
            for at_ns, data in lines:
                join.datagram(data, at_ns, at_ns)
            requests = [one._replace(connection=0) for one in join.advance(now_ns, now_ns)]
            endings = sorted(one._replace(connection=0) for one in join.ended())
            joined.append((requests, endings, sorted(join.ended_badly().each()), dict(join.counts)))
        assert joined[0] == joined[1]
        done_ns = now_ns


def test_no_address_is_kept() -> None:
    six = ip_address("2001:db8:1:2::5").packed
    both = [begun(1), begun(2, client=six)]
    found = pack(*both, *(ended(one, T0 + S) for one in both))
    prefixes = ["198.51.100.0/24", "2001:db8:1::/48"]
    assert found.opened_ends == found.closed_ends == [ends_of(prefix, 443, 50_000) for prefix in prefixes]
    assert [prefix_of_ends(ends) for ends in found.opened_ends] == prefixes
    for data in (*found.opened, *found.closed_begun, *found.closed):
        assert CLIENT not in data and six[6:] not in data
        assert data[:40] + data[56:] in {one[:40] + one[56:] for one in (*both, *(ended(one, T0 + S) for one in both))}
    assert found.opened == found.closed_begun and found.until_ns == T0 + S and found.number == 4


@pytest.mark.parametrize(
    ("state", "known", "error", "bad"),
    [(LAST_ACK, 1, 0, False), (LAST_ACK, 0, 0, False), (ESTABLISHED, 0, 0, False), (ESTABLISHED, 1, 0, True),
     (LAST_ACK, 1, 104, True), (200, 1, 0, True), (2, 1, 110, True)],
)  # fmt: skip
def test_endings_that_are_bad(state: int, known: int, error: int, bad: bool) -> None:
    opened = begun(1)
    found = pack(opened, ended(opened, T0 + S, state, known, error))
    only = BadEndings.of(("198.51.100.0/24", T0 + S)) if bad else BadEndings()
    assert found.bad == only
    join = RequestJoin(describe)
    join.packed(found)
    assert join.ended_badly() == only and join.ended_badly() == BadEndings()


def test_memory_of_packed_connections_and_of_their_names_is_bounded() -> None:
    table = Lifetimes(most=100)
    for number in range(50):
        few = [begun(20 * number + at, T0 + number, 1 + 20 * number + at) for at in range(20)]
        table.take(pack(*few))
    assert len(table) <= 100 and table.counts["connections forgotten"] == 1000 - len(table)
    table.take(pack(*(ended(one, T0 + S) for one in few)))
    assert not table.counts["closes without an open"]
    table.expire(T0 + S + KEPT_ENDED_NS)
    assert len(table) <= 80
    # names that change often
    table = Lifetimes()
    for number in range(3 * MOST_UNPACKERS):
        table.take(pack(begun(number, port=1000 + number), parser=RecordParser(NAMES, HZ)))
    assert len(table._packed) <= MOST_UNPACKERS + 1 and len(table) == 3 * MOST_UNPACKERS
    table.take(pack(*(ended(begun(number, port=1000 + number), T0 + S) for number in range(3 * MOST_UNPACKERS))))
    assert not table.counts["closes without an open"]


def test_a_packed_close_without_an_open_is_enough() -> None:
    table = Lifetimes()
    table.take(pack(ended(begun(1), T0 + S)))
    assert table.counts["closes without an open"] == 1
    found = table.find(ends_of("198.51.100.0/24", 443, 50_000), CLIENT, T0 + MS, T0 + MS, T0 + MS)
    assert not isinstance(found, str) and found.closed is not None and found.record.arm == 1
