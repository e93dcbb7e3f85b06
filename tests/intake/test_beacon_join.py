# SPDX-License-Identifier: MIT
"""Beacons joined with requests: what becomes a row, what is refused by which name, what does not teach."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from configtron.intake.pageloads import beacon_join, reasons
from configtron.intake.pageloads.beacon_join import BeaconJoin
from configtron.intake.pageloads.request_join import EndedConnection
from configtron.model.fleet import OutcomeRow
from tests.support.pageloads import ARM, MS, T0, S, joined, line, load, opened, requests, rows_of, token

SOON = T0 + 500 * MS


def settled(agent: BeaconJoin, *ended: EndedConnection, **fields: Any) -> list[OutcomeRow]:
    """Return the rows of a load whose connection ended so."""
    agent.beacon(load(**fields), SOON)
    agent.ended(ended)
    return rows_of(agent)


def test_a_load_becomes_a_row() -> None:
    agent = joined(agent=BeaconJoin("web1", "b", site_of=str.upper))
    assert agent.beacon(load(protocol="h2"), SOON, "phone") == ""
    assert agent.advance(T0 + 2 * S, 0) == [], "the page's second beacon may come"
    (row,) = rows_of(agent)
    assert row == OutcomeRow(
        "web1", "b", 1, T0 + 414 * MS, "WWW.EXAMPLE.ORG", "198.51.100.0/24", "u1", 400.0, 3, 9, 5, "slow", 1, "wide",
        0.25, False, "", True, "", "phone", "h2", 30.0,
    )  # fmt: skip
    assert rows_of(agent) == [] and agent.counts == Counter(accepted=1)


def test_the_kernels_last_figures_are_in_the_row() -> None:
    (row,) = settled(joined(), EndedConnection(1, 28_000, 900.0, 0.02))
    assert (row.rtt_ms, row.bandwidth_kbps, row.loss) == (28.0, 900.0, 0.02)


# A connection that took longer than the page's time allows for.
LATE = {"connect_start_ms": 6_000.0, "connect_end_ms": 6_030.0, "request_ms": 6_031.0, "response_ms": 6_070.0,
        "value_ms": 6_400.0}  # fmt: skip
# A handshake of nine seconds, which the server saw, or not.
SLOW = LATE | {"connect_start_ms": 5.0, "connect_end_ms": 9_050.0, "request_ms": 9_055.0, "response_ms": 9_090.0,
               "value_ms": 9_400.0}  # fmt: skip


@pytest.mark.parametrize(
    ("agent", "ended", "fields", "why_not"),
    [
        ({}, [], {}, ""), ({}, [EndedConnection(1, moved=True)], {}, "moved"), ({}, [], LATE, "unverified-time"),
        ({"arm": ARM._replace(doubt="turn")}, [], {}, "turn"), ({"number": "-"}, [], {}, "unknown-reuse"),
        ({}, [], SLOW, "unverified-time"), ({"start_ns": T0 - 9 * S}, [], SLOW, ""),
    ],
)  # fmt: skip
def test_what_does_not_teach_is_named(
    agent: dict[str, Any], ended: list[EndedConnection], fields: dict[str, float], why_not: str
) -> None:
    rows = settled(joined(**agent), *ended, **fields)
    assert [(row.teaches, row.why_not) for row in rows] == [(not why_not, why_not)]


def test_the_second_beacon_of_a_load_changes_nothing() -> None:
    agent = joined()
    assert [agent.beacon(load(), T0 + at * 500 * MS) for at in (1, 2)] == ["", ""]
    assert len(rows_of(agent)) == 1 and agent.counts == Counter(accepted=1, again=1)


def test_a_visitor_who_leaves_counts_as_failure_and_one_who_comes_back_does_not() -> None:
    left = load(0, None, left=True, hidden_ms=200.0)
    agent = joined()
    agent.beacon(left, SOON)
    assert [(row.plt_ms, row.failure, row.teaches) for row in rows_of(agent)] == [(None, "abandoned", True)]
    agent = joined()
    agent.beacon(left, T0 + 300 * MS)
    assert agent.beacon(load(hidden_ms=200.0), SOON) == "hidden"
    assert rows_of(agent) == []


def test_only_the_first_page_of_a_connection_teaches() -> None:
    agent = joined(tokens=2)
    agent.beacon(load(), SOON)
    agent.beacon(load(1), T0 + 1500 * MS)
    assert [(row.teaches, row.why_not) for row in rows_of(agent)] == [(True, ""), (False, "reused-connection")]


@pytest.mark.parametrize("reason", sorted(set(reasons.JOINS) - {"expired-token"}))
def test_each_beacon_that_is_refused_is_named(reason: str) -> None:
    limits = {"too-often": {"apart_ns": 2 * S}, "overflow": {"most_early": 1}}
    agent = joined(agent=BeaconJoin("web1", "b", **limits.get(reason, {})), tokens=2)  # type: ignore[arg-type]
    at_ns, second = SOON, load()
    match reason:
        case "no-token":
            second = load()._replace(token="")
        case "forged-token":
            second = load()._replace(token="!")
        case "unknown-token":
            second = load(99)
        case "used-token":
            agent.beacon(load(), at_ns)
            second = load()._replace(identity="another")
        case "changed-body":
            agent.beacon(load(), at_ns)
            second = load(value_ms=390.0)
        case "impossible-fast":
            second = load(value_ms=59.0, connect_end_ms=6.0, request_ms=7.0, response_ms=50.0)
        case "impossible-slow":
            second = load(value_ms=90_000.0)
        case "too-often":
            agent.beacon(load(1), at_ns + S)
        case "overflow":
            agent.beacon(load(98), at_ns)
            second = load(99)
    accepted = len(agent._settling)
    found = agent.beacon(second, at_ns)
    assert found == ("" if reason in ("unknown-token", "overflow") else reason)
    assert len(rows_of(agent)) == accepted
    assert agent.counts[reason] == 1


def test_a_replay_is_refused_after_the_row_too() -> None:
    agent = joined()
    agent.beacon(load(), SOON)
    assert len(rows_of(agent)) == 1
    assert agent.beacon(load()._replace(identity="another"), T0 + 101 * S) == "used-token"


def test_each_beacon_that_was_let_in_has_a_result_or_waits() -> None:
    """Repeats of a load whose line had not come, or whose row had settled, were not counted, or as replays."""
    agent, lines = BeaconJoin("web1", "boot1"), requests()
    for _ in range(2):
        assert agent.beacon(load(), SOON) == ""
    assert (agent.counts, agent.waiting()) == ({"again": 1}, 1)
    lines.record(opened(T0, 1, 1))
    lines.datagram(line(token(0), T0, 1, 0), T0, T0)
    agent.requests(lines.advance(T0 + S, T0))
    assert len(rows_of(agent)) == 1 and agent.beacon(load(), T0 + 101 * S) == ""
    assert (agent.counts, agent.waiting()) == ({"again": 2, "accepted": 1}, 0)


def test_tokens_expire() -> None:
    agent = joined()
    late_ns = T0 + beacon_join.TOKEN_NS + S
    agent.advance(late_ns, late_ns)
    assert agent.beacon(load(), late_ns) == "expired-token" and len(agent._pages) == 0


@pytest.mark.parametrize(("start_ns", "number", "least_ms"), [(T0, "1", 60), (T0 - 9 * S, "1", 30), (T0, "2", 30)])
def test_the_fastest_load_that_can_be(start_ns: int, number: str, least_ms: int) -> None:
    """Two round trips of a fresh connection; one where the socket was opened ahead, or had another request before."""
    marks = {"connect_start_ms": None, "connect_end_ms": None, "request_ms": 1.0, "response_ms": 2.0}
    for value_ms, want in ((least_ms - 1.0, "impossible-fast"), (least_ms + 1.0, "")):
        agent = joined(start_ns=start_ns, number=number)
        assert agent.beacon(load(0, value_ms, **marks), SOON) == want


def test_a_faster_round_trip_at_the_end_allows_what_the_handshake_did_not_and_never_the_reverse() -> None:
    agent = joined(rtt_us=300_000)
    agent.ended([EndedConnection(1, 20_000)])
    assert agent.beacon(load(), SOON) == ""


def test_an_honest_beacon_keeps_its_place_among_forged_ones_until_its_line_comes() -> None:
    """Full of forged beacons, with room for those of 20 ms."""
    agent, lines = BeaconJoin("web1", "b", most_early=20), requests()
    for number in range(100):
        agent.beacon(load(1000 + number), T0 + 300 * MS + number * MS)
    assert agent.beacon(load(), T0 + 400 * MS) == ""
    for number in range(100, 119):
        agent.beacon(load(1000 + number), T0 + 300 * MS + number * MS)
    lines.record(opened(T0, 1, 1))
    lines.datagram(line(token(0), T0, 1, 0), T0, T0)
    agent.requests(lines.advance(T0 + 420 * MS, T0))
    assert len(rows_of(agent)) == 1 and agent.counts["overflow"] == 100


def test_tables_of_beacons_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOST_TOKENS", "MOST_GONE", "MOST_CONNECTIONS"):
        monkeypatch.setattr(beacon_join, name, 50)
    agent, lines = BeaconJoin("web1", "b", most_early=50), requests()
    for number in range(500):
        at_ns = T0 + number * MS
        lines.record(opened(at_ns, number + 1, 1))
        lines.datagram(line(token(number), at_ns, number + 1, 0), at_ns, at_ns)
        agent.requests(lines.advance(at_ns, at_ns))
        agent.beacon(load(number), at_ns + 400 * MS)
        agent.beacon(load(10_000 + number), at_ns)
    assert len(agent) <= 200 and agent.counts["overflow"] > 0
