# SPDX-License-Identifier: MIT
"""Target sessions and the loop that drives them, over a worker that answers by table in virtual time."""

from __future__ import annotations

from configtron.model.nouns import Observation, Target
from configtron.probe.pacing import Finished, run
from configtron.probe.profiles import CLEAR, PROFILES, SECURE, TESTS
from configtron.probe.target_session import Answer, Call, target_session

ALL = frozenset(TESTS)


def clear(status: int = 200, location: str = "", reason: str = "") -> tuple[Observation, ...]:
    if reason:
        return (Observation("http_clear", None, reason),)
    details = (("location", location), ("status", status))
    return (Observation("http_clear", "http/1.1", None, "", "", "C", details=details),)


# A page, and a window that is shown in clear: nothing more has to be asked.
OPEN = {"http_version.1": clear(), "icw.1": (Observation("icw", 10, None, "segments", "", "C"),)}
SHUT_TOO = (Observation("http_version", None, "refused"),)


class Table:
    """A worker and a spacer: answers what the table says, one second per call; admits one start per 0.1 s."""

    def __init__(self, answers: dict[str, tuple[Observation, ...]]) -> None:
        self.answers, self.clock, self.next_start = answers, 0.0, 0.0
        self.forbidden: set[str] = set()
        self.begun: list[tuple[float, str]] = []
        self.most = 0
        self.flying: list[tuple[float, str, str]] = []

    def admit(self, address: str, now: float) -> float:
        if now < self.next_start:
            return self.next_start
        self.next_start = now + 0.1
        return 0.0

    def open_at(self) -> float:
        return self.next_start

    def settled(self, at: float | None) -> None:
        return

    def begin(self, trace_id: str, vantage: str, call: Call, origin: Target) -> bool:
        if call.target.host in self.forbidden:
            return False
        self.begun.append((self.clock, trace_id))
        self.flying.append((self.clock + 1.0, trace_id, call.target.host))
        self.most = max(self.most, len(self.flying))
        return True

    def finished(self, timeout_s: float) -> list[Finished]:
        until = self.clock + timeout_s
        if self.flying and min(self.flying)[0] <= until:
            self.clock = max(self.clock, min(self.flying)[0])
        else:
            self.clock = until
        back = sorted(f for f in self.flying if f[0] <= self.clock)
        self.flying = [f for f in self.flying if f[0] > self.clock]
        return [Finished(trace_id, self.answers.get(trace_id.split("/")[-1], ())) for _, trace_id, _ in back]

    def now(self) -> float:
        return self.clock


def drive(
    table: Table, hosts: list[str], done: dict[str, tuple[Observation, ...]] | None = None, concurrency: int = 10
) -> list[str]:
    ended: list[str] = []
    targets = [Target(host, f"192.0.2.{i}") for i, host in enumerate(hosts)]
    sessions = [("na", t, target_session(t, ALL, "standard")) for t in targets]
    run(
        sessions,
        table,
        table,
        done or {},
        lambda vantage, host: Answer(("192.0.2.99",)),
        concurrency=concurrency,
        on_end=lambda vantage, target: ended.append(target.host),
    )
    return ended


def test_every_profile_has_both_halves_and_every_test_a_probe() -> None:
    assert set(CLEAR) == set(SECURE) == set(PROFILES)
    probes = {probe for rows in (*CLEAR.values(), *SECURE.values()) for probe, _ in rows}
    assert {probe for names in TESTS.values() for probe in names} <= probes | {"http_version"}


def test_a_target_session_asks_everything_once_and_two_at_a_time() -> None:
    table = Table(OPEN)
    assert drive(table, ["a.example"]) == ["a.example"]
    names = [trace_id for _, trace_id in table.begun]
    assert names[0] == "na/a.example/http_version.1"
    assert len(set(names)) == len(names) == 1 + len(CLEAR["standard"]) + len(SECURE["standard"])
    assert table.most == 2, "a held handshake, and one other connection"


def test_a_shut_port_is_asked_once() -> None:
    table = Table({"http_version.1": clear(reason="refused"), "h2_settings.1": SHUT_TOO})
    drive(table, ["a.example"])
    assert [t.split("/")[-1] for _, t in table.begun] == ["http_version.1", "h2_settings.1"]


def test_names_are_asked_for_beside_the_calls() -> None:
    """A name server that takes its time holds up its own session only."""
    table = Table({"http_version.1": clear(301, "http://b.example/")})
    pending = iter([None] * 200)
    ended: list[str] = []
    run(
        [
            ("na", t, target_session(t, ALL, "quick"))
            for t in (Target("a.example", "192.0.2.1"), Target("c.example", "192.0.2.3"))
        ],
        table,
        table,
        {"na/c.example/http_version.1": clear()},
        lambda vantage, host: next(pending, Answer(("192.0.2.2",))),
        concurrency=10,
        on_end=lambda vantage, target: ended.append(target.host),
    )
    assert ended == ["c.example", "a.example"]
    assert table.begun[-1][0] < 60


def test_starts_are_spaced_and_concurrency_holds() -> None:
    table = Table(OPEN)
    drive(table, [f"{n}.example" for n in range(20)], concurrency=3)
    starts = [at for at, _ in table.begun]
    assert all(b - a >= 0.1 - 1e-9 for a, b in zip(starts, starts[1:], strict=False))
    assert table.most <= 3 * 2


def test_an_address_has_one_held_handshake_and_one_other_connection() -> None:
    """Many names that lead to one address wait for each other."""
    table = Table(OPEN)
    targets = [Target(f"{n}.example", "192.0.2.1") for n in range(5)]
    sessions = [("na", t, target_session(t, ALL, "standard")) for t in targets]
    run(sessions, table, table, {}, lambda vantage, host: Answer(()), concurrency=10)
    assert table.most == 2
    assert len(table.begun) == 5 * (1 + len(CLEAR["standard"]) + len(SECURE["standard"]))


def test_held_handshakes_start_first() -> None:
    """They last longest."""
    table = Table(OPEN)
    drive(table, [f"{n}.example" for n in range(10)])
    names = [trace_id.rpartition("/")[2] for _, trace_id in table.begun]
    assert (
        max(n for n, name in enumerate(names) if name == "rto.1")
        < min(n for n, name in enumerate(names) if name == "icw.1") + 10
    )


def test_who_asks_not_to_be_asked_any_more_is_not() -> None:
    table = Table(OPEN)
    table.forbidden = {"a.example"}
    assert drive(table, ["a.example", "b.example"]) == ["a.example", "b.example"]
    assert not any("a.example" in trace_id for _, trace_id in table.begun)


def test_target_sessions_that_are_not_ready_hold_no_one_up() -> None:
    table = Table(OPEN)
    target = Target("a.example", "192.0.2.1")
    sessions = [("na", target, target_session(target, ALL, "quick")), None, None]
    run(sessions, table, table, {}, lambda vantage, host: Answer(()), concurrency=10)
    assert table.begun


def test_resuming_asks_only_what_is_missing_and_names_it_alike() -> None:
    whole = Table(OPEN)
    drive(whole, ["a.example", "b.example"])
    names = {trace_id for _, trace_id in whole.begun}
    done = {name: OPEN.get(name.rpartition("/")[2], ()) for name in sorted(names)[::2]}
    rest = Table(OPEN)
    drive(rest, ["a.example", "b.example"], done)
    assert {trace_id for _, trace_id in rest.begun} == names - set(done)
