# SPDX-License-Identifier: MIT
"""Log lines joined with records of connections: never to the wrong one, and every refusal by name."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.intake.pageloads import reasons, request_join
from configtron.intake.pageloads.log_lines import TEST_LINE
from configtron.intake.pageloads.request_join import EndedConnection, Lifetimes, RequestJoin
from configtron.model.close_records import CloseRecord, OpenRecord
from tests.support.pageloads import MS, T0, S, closed, line, opened, requests, token


def found(lines: RequestJoin, data: bytes, at_ns: int) -> tuple[int, Counter[str]]:
    lines.datagram(data, at_ns, at_ns)
    return len(lines.advance(at_ns, at_ns)), lines.counts


def test_a_line_joins_the_connection_that_was_open_then() -> None:
    lines, first = requests(), opened()
    lines.record(first)
    lines.record(closed(first, T0 + 5 * S, 29_000, 800.0, 1))
    lines.record(opened(T0 + 9 * S, arm=2))
    for number, at_ns in ((1, T0 + S), (2, T0 + 10 * S)):
        lines.datagram(line(token(number), at_ns), at_ns, at_ns)
    one, two = lines.advance(T0 + 10 * S, T0 + 10 * S)
    assert (one.drawn.arm, one.rtt_us, one.idle_ns, one.first) == (1, 29_000, S - 10 * MS, True)
    assert two.drawn.arm == 2 and two.connection != one.connection
    assert lines.ended() == [EndedConnection(one.connection, 29_000, 800.0, 0.01)]


def test_a_line_waits_until_the_records_are_complete() -> None:
    """Without waiting it would join the predecessor, whose end the reader has not read yet."""
    lines, first = requests(), opened()
    lines.record(first)
    at_ns = T0 + 20 * S
    lines.datagram(line(token(1), at_ns), at_ns, at_ns)
    assert lines.advance(at_ns - 1, at_ns) == []
    lines.record(closed(first, T0 + 2 * S))
    lines.record(opened(T0 + 19 * S, arm=2))
    (request,) = lines.advance(at_ns, at_ns)
    assert request.drawn.arm == 2


def test_a_wall_clock_that_was_stepped_joins_as_before() -> None:
    lines = requests()
    lines.record(opened())
    for number, step_ns in enumerate((0, 3_600 * S, -7_200 * S)):
        at_ns = T0 + S + number * S
        lines.datagram(line(token(number), at_ns + step_ns), at_ns, at_ns + step_ns)
        (request,) = lines.advance(at_ns, at_ns)
        assert request.end_ns == at_ns


@pytest.mark.parametrize("reason", sorted(reasons.LINES))
def test_each_line_that_joins_none_is_named(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, at_ns, first = requests(), T0 + 2 * S, opened()
    lines.record(first)
    data = line(token(1), at_ns, connection="7")
    match reason:
        case "line-test":
            data = TEST_LINE
        case "line-unreadable":
            data = b"GET /"
        case "line-without-token":
            data = line("-", at_ns)
        case "line-clock":
            data = line(token(1), at_ns - 6 * S)
        case "line-proxied":
            data = line(token(1), at_ns, port=0)
        case "no-record":
            data = line(token(1), at_ns, port=50_001)
        case "ambiguous-record":
            lines.record(closed(first, at_ns - S // 2))
            lines.record(opened(at_ns - S // 3))
        case "records-lost":
            lines.lifetimes.lost(T0 + S)
        case "other-connection":
            assert found(lines, line(token(2), at_ns, connection="6"), at_ns)[0] == 1
        case "lines-overflow":
            monkeypatch.setattr(request_join, "MOST_WAITING", 0)
        case "repeated-line":
            assert found(lines, data, at_ns)[0] == 1
    before, counts = Counter(lines.counts), found(lines, data, at_ns)[1]
    assert counts - before == Counter([reason])


def test_two_clients_of_a_prefix_with_one_port_are_ambiguous_and_a_client_is_remembered() -> None:
    lines = requests()
    lines.record(opened())
    assert found(lines, line(token(1), T0 + S, client=9), T0 + S)[0] == 1
    assert found(lines, line(token(2), T0 + 2 * S, client=10), T0 + 2 * S)[0] == 0
    lines.record(opened(T0 + 2 * S))
    assert found(lines, line(token(3), T0 + 4 * S, client=10), T0 + 4 * S)[0] == 0
    assert lines.counts == Counter({"joined": 1, "other-connection": 1, "ambiguous-record": 1})


class Connection(NamedTuple):
    """One of the simulated kernel: its number is its arm, so that a wrong join shows."""

    number: int
    client: int
    port: int
    start_ns: int
    end_ns: int

    @property
    def record(self) -> OpenRecord:
        return opened(self.start_ns, self.port, 1, self.number)


class Arrival(NamedTuple):
    """A line as it reaches the reader, and the number of the connection that it is of."""

    at_ns: int
    data: bytes
    number: int


# What a server's clock is wrong by: stale, stepped within a second; how much later than the truth a line arrives.
WRONG_NS = (0, 0, -MS, -40 * MS, -300 * MS, 40 * MS, 900 * MS)
LATE_NS = (0, MS, 200 * MS, 3 * S)


@st.composite
def traffic(draw: st.DrawFn, clients: int) -> tuple[list[Connection], list[Arrival]]:
    """Return connections of clients of one prefix that reuse two ports, and their lines."""
    connections: list[Connection] = []
    lines: list[Arrival] = []
    for client, port in ((client, port) for client in range(clients) for port in (50_000, 50_001)):
        at_ns = T0 + draw(st.integers(0, 3 * S))
        for _ in range(draw(st.integers(1, 5))):
            end_ns = at_ns + draw(st.sampled_from([1, MS, 30 * MS, S, 20 * S]))
            one = Connection(len(connections), client, port, at_ns, end_ns)
            connections.append(one)
            for _ in range(draw(st.integers(0, 3))):
                true_ns = draw(st.integers(at_ns, end_ns))
                took_ms = draw(st.integers(0, (true_ns - at_ns) // MS))
                written_ns = true_ns + draw(st.sampled_from(WRONG_NS))
                data = line(token(len(lines)), written_ns, port, took_ms, client=client)
                lines.append(Arrival(true_ns + draw(st.sampled_from(LATE_NS)), data, one.number))
            at_ns = end_ns + draw(st.sampled_from([1, MS, 100 * MS, 2 * S, 90 * S]))
    return connections, sorted(lines)


def played(connections: list[Connection], lines: list[Arrival], data: st.DataObject, losses: bool) -> int:
    """Hand everything to a join at random moments, records in any order and some lost; return how many joined.

    Every joined line is checked against its connection.
    """
    records: list[tuple[int, OpenRecord | CloseRecord]] = []
    lost: list[int] = []
    for one in connections:
        for at_ns, record in ((one.start_ns, one.record), (one.end_ns, closed(one.record, one.end_ns))):
            if losses and data.draw(st.integers(0, 9)) == 0:
                lost.append(at_ns)
            else:
                records.append((at_ns, record))
    by_token = {arrival.data.split()[1].decode(): arrival.number for arrival in lines}
    turns = sorted({T0 + data.draw(st.integers(0, 60 * S)) for _ in range(12)} | {T0 + 900 * S})
    join, done_ns, count = requests(), T0 - 1, 0
    for now_ns in turns:
        # the reader learns of losses as it drains
        if any(done_ns < at_ns <= now_ns for at_ns in lost):
            join.lifetimes.lost(now_ns)
        batch = [record for at_ns, record in records if done_ns < at_ns <= now_ns]
        for record in data.draw(st.permutations(batch)):
            join.record(record)
        for arrival in lines:
            if done_ns < arrival.at_ns <= now_ns:
                join.datagram(arrival.data, arrival.at_ns, arrival.at_ns)
        for request in join.advance(now_ns, now_ns):
            assert request.drawn.arm == by_token[request.token]
            count += 1
        done_ns = now_ns
    return count


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(traffic(clients=3), st.data())
def test_no_interleaving_joins_a_line_to_another_connection(
    drawn: tuple[list[Connection], list[Arrival]], data: st.DataObject
) -> None:
    """Three clients of one prefix share two ports; the join sees the prefix alone."""
    played(*drawn, data, losses=False)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(traffic(clients=1), st.data())
def test_lost_records_join_no_line_to_another_connection(
    drawn: tuple[list[Connection], list[Arrival]], data: st.DataObject
) -> None:
    played(*drawn, data, losses=True)


def test_memory_of_connections_is_bounded() -> None:
    table = Lifetimes(most=100)
    records = [opened(T0 + number, number + 1) for number in range(1_000)]
    for record in records:
        table.opened(record)
    assert len(table) == 100 and table.counts["connections forgotten"] == 900
    for record in records[900:]:
        table.closed(closed(record, record.start_ns + 1))
    table.expire(T0 + 2 * request_join.KEPT_ENDED_NS)
    assert len(table) == 0


def test_a_connection_without_its_open_record_is_known_from_its_close() -> None:
    lines = requests()
    lines.record(closed(opened(), T0 + S, 20_000))
    assert found(lines, line(token(1), T0 + S), T0 + S)[0] == 1
    assert lines.lifetimes.counts["closes without an open"] == 1
