# SPDX-License-Identifier: MIT
"""Sessions of targets: where redirects lead, the next probe by the answers so far; and the loop that drives them, over
a worker that answers by table in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest

from configtron.model.nouns import Observation, Target
from configtron.probe.pacing import Finished, run
from configtron.probe.page import PageStep, joined, redirected
from configtron.probe.profiles import AGAIN_MOST, APART_MOST, CLEAR, MORE, PROFILES, SECURE, TESTS, plan
from configtron.probe.spacing import Place
from configtron.probe.target_session import (
    Answer,
    Call,
    NameLookup,
    ParallelStep,
    Readings,
    TargetSession,
    target_session,
)

ALL = frozenset(TESTS)
HOME = Target("a.example", "192.0.2.1")


def clear(status: int = 200, location: str = "", cookies: str = "") -> Readings:
    details = (("cookies", cookies), ("location", location), ("status", status))
    return (Observation("http_clear", "http/1.1", None, "", "", "C", details=details),)


def refused(knob: str) -> Readings:
    return (Observation(knob, None, "refused"),)


@pytest.mark.parametrize(
    ("location", "step"),
    [
        ("/b", PageStep("a.example", "/b", "", False)),
        ("http://B.example/x?y", PageStep("b.example", "/x?y", "", False)),
        ("https://a.example/", PageStep("a.example", "/", "", True)),
        ("//b.example", PageStep("b.example", "/", "", False)), ("http://a.example/", None),
        ("http://a.example:81/", None), ("https://a.example:80/", None), ("http://127.1/", None), ("/ä", None),
        ("http://2130706433/", None), ("http://a..b/", None), ("http://a.example/x y", None), ("http://[::1/", None),
        ("ftp://b.example/", None), ("https://b.example:8443/", None),
    ],
)  # fmt: skip
def test_where_a_redirect_leads(location: str, step: PageStep | None) -> None:
    assert redirected(HOME, "", clear(302, location)) == redirected(HOME, "", clear(301, location)) == step
    assert redirected(HOME, "", clear(200, location)) is None


@pytest.mark.parametrize(
    ("before", "location", "cookies", "step"),
    [
        ("", "/", "k=1", PageStep("a.example", "/", "k=1", False)),
        ("k=1", "/", "k=1", None),
        ("k=1", "http://b.example/", "j=2", PageStep("b.example", "/", "", False)),
    ],
)
def test_a_new_cookie_makes_a_step_and_stays_with_its_host(
    before: str, location: str, cookies: str, step: PageStep | None
) -> None:
    assert redirected(HOME, before, clear(302, location, cookies)) == step


def test_the_newer_cookie_counts() -> None:
    assert joined("a=1; b=2", "a=3") == "a=3; b=2" and joined("", "") == ""


def played(session: TargetSession, answer: Callable[[Call, int], Readings]) -> tuple[list[Call], list[TargetSession]]:
    """All calls of a chain, answered by (call, how many of that probe before), and the chains begun beside it."""
    calls: list[Call] = []
    beside: list[TargetSession] = []
    event: Readings | None = None
    try:
        while True:
            wish = session.send(event)
            event = None
            if isinstance(wish, ParallelStep):
                beside.append(wish.chain)
                continue
            assert isinstance(wish, Call)
            event = answer(wish, sum(call.probe == wish.probe for call in calls))
            calls.append(wish)
    except StopIteration:
        return calls, beside


def known(call: Call, n: int) -> Readings:
    """Everything is as it should be, so often that nothing more need be asked."""
    return clear() if call.params == (("way", "clear"),) else ()


def calls_of(answer: Callable[[Call, int], Readings], profile: str = "standard") -> list[Call]:
    return played(target_session(HOME, ALL, profile), answer)[0]


def test_a_cookie_that_the_page_demands_is_brought_along() -> None:
    def demanding(call: Call, n: int) -> Readings:
        params = dict(call.params)
        if call.probe == "http_version" and params.get("way") == "clear" and "cookie" not in params:
            return clear(302, "/", "a=1; b=2")
        return known(call, n)

    calls = calls_of(demanding)
    assert [dict(call.params).get("cookie", "") for call in calls[:2]] == ["", "a=1; b=2"]
    asked = {call.probe: dict(call.params).get("cookie", "") for call in calls}
    assert asked["icw"] == asked["rwin"] == "a=1; b=2" and asked["signature"] == ""


def test_where_the_page_is_over_tls_its_window_is_asked_there() -> None:
    moved = clear(301, "https://a.example/home?x")
    calls = calls_of(lambda call, n: moved if call.probe == "http_version" and n == 0 else ())
    (there, *_) = [call.target for call in calls if call.probe == "cwnd_at_request"]
    assert (there.host, there.port, there.path) == ("a.example", 443, "/home?x")


@pytest.mark.parametrize(
    ("found", "longer"),
    [
        # a short page is made longer
        ((("response-ended", 300), ("response-ended", 1400)), [False, True, True, True]),
        # Silence after our ACK counts once it was heard twice; a longer path that is answered shorter is left again.
        ((("unverified", 5360), ("after-timer", 5360)), [False] * 4),
        ((("unverified", 300), ("unverified", 300), ("unverified", 1400)), [False, False, True, True]),
        ((("response-ended", 2000), ("response-ended", 303)), [False, True, False, False]),
    ],
)
def test_which_runs_ask_for_a_longer_path(found: tuple[tuple[str, int], ...], longer: list[bool]) -> None:
    """By what they found (proof, bytes), the last for all that follow."""
    made: list[bool] = []

    def answer(call: Call, n: int) -> Readings:
        if call.probe != "icw":
            return known(call, n)
        proof, size = found[min(len(made), len(found) - 1)]
        made.append(bool(dict(call.params).get("longer", False)))
        details = (("bytes", size), ("proof", proof))
        return (Observation("icw", 3, None, "segments", "", "L", "v/a/icw.1", details=details),)

    calls_of(answer)
    assert made[:4] == longer


def test_without_a_port_in_clear_the_transport_is_asked_at_the_other() -> None:
    def secure_only(call: Call, n: int) -> Readings:
        return refused("http_clear") if call.target.port == 80 else ()

    calls, (held,) = played(target_session(HOME, ALL, "standard"), secure_only)
    assert {call.target.port for call in calls[1:]} == {443}
    assert {"signature", "rwin", "icw_tls"} <= {call.probe for call in calls} and "icw" not in {c.probe for c in calls}
    assert {call.target.port for call in played(held, secure_only)[0]} == {443}


def test_a_host_that_answers_nowhere_is_left_alone() -> None:
    def shut(call: Call, n: int) -> Readings:
        return refused("http_clear" if call.target.port == 80 else "http_version")

    calls, beside = played(target_session(HOME, ALL, "full"), shut)
    assert len(calls) == 2 and not beside


def planned(profile: str, probe: str) -> int:
    rows = plan(profile, ALL)
    return sum(row[0] == probe for row in (*rows.clear, *rows.secure))


def further(profile: str, probe: str, answer: Callable[[Call, int], Readings]) -> int:
    """How many more of a probe than planned."""
    return sum(call.probe == probe for call in calls_of(answer, profile)) - planned(profile, probe)


def test_a_lost_answer_is_asked_for_once_more() -> None:
    def lost(call: Call, n: int) -> Readings:
        return (Observation("signature", None, "no-synack"),) if call.probe == "signature" else known(call, n)

    assert further("standard", "signature", lost) == planned("standard", "signature") * AGAIN_MOST > 0


def settings(call: Call, n: int, unlike: int = -1) -> Readings:
    """A server whose window is in every run, and whose SETTINGS the `unlike`-th connection sees otherwise."""
    if call.probe == "icw":
        details = (("mss", 536 + n), ("proof", "edge"), ("sack", True))
        return (Observation("icw", 10, None, "segments", "", "C", f"v/a/icw.{n}", details=details),)
    if call.probe == "h2_settings":
        return (Observation("h2_settings", ((3, 100 + (n == unlike)),), None, "", "", "C", f"v/a/h2_settings.{n}"),)
    return known(call, n)


def test_further_trials_where_a_grade_needs_them_and_no_more() -> None:
    def differing(call: Call, n: int) -> Readings:
        if call.probe != "icw":
            return known(call, n)
        return (Observation("icw", 10 + n % 2, None, "segments", "", "C", f"v/a/icw.{n}"),)

    more = {profile: further(profile, "icw", differing) for profile in ("quick", "standard", "full")}
    assert all(0 <= more[profile] <= MORE[profile] for profile in more) and more["standard"] > 0
    assert {further(profile, "icw", settings) for profile in more} == {0}


def test_one_server_is_distinguished_from_two_by_enough_connections() -> None:
    def slow(call: Call, n: int) -> Readings:
        return () if call.probe == "h2_settings" and n < 3 else settings(call, n)

    assert further("full", "h2_settings", settings) == 0
    assert further("full", "h2_settings", slow) == 3, "three of them showed nothing"
    assert further("standard", "h2_settings", settings) == 0, "this profile does not ask who answers"


def test_a_hint_at_two_servers_is_followed() -> None:
    def once(call: Call, n: int) -> Readings:
        return settings(call, n, unlike=1)

    def never(call: Call, n: int) -> Readings:
        return settings(call, n, unlike=-1 if n else 0)

    most = APART_MOST["standard"][1] + MORE["standard"]
    assert 0 < further("standard", "h2_settings", once) <= most
    assert 0 < further("standard", "h2_settings", never) <= most
    assert further("quick", "h2_settings", once) == 0


def test_redirects_are_followed_twice_and_checked() -> None:
    session = target_session(HOME, frozenset({"icw"}), "standard")
    first = next(session)
    assert isinstance(first, Call) and first.probe == "http_version"
    assert session.send(clear(301, "http://b.example/x?y=1")) == NameLookup("b.example")
    third = session.send(Answer(("192.0.2.2",)))
    assert isinstance(third, Call) and third.target == Target("b.example", "192.0.2.2", path="/x?y=1")
    fourth = session.send(clear(302, "/z"))
    assert isinstance(fourth, Call) and fourth.target.path == "/z"
    fifth = session.send(clear(302, "/again"))
    assert isinstance(fifth, Call) and fifth.probe == "icw"


def test_a_redirect_to_a_blocked_name_is_not_followed() -> None:
    session = target_session(HOME, frozenset({"icw"}), "standard")
    next(session)
    session.send(clear(301, "http://blocked.example/"))
    call = session.send(Answer((), "blocked"))
    assert isinstance(call, Call) and call.target == HOME and call.probe == "icw"


# A page, and a window that is shown in clear: nothing more has to be asked.
OPEN = {"http_version.1": clear(), "icw.1": (Observation("icw", 10, None, "segments", "", "C"),)}
WHOLE = 1 + len(CLEAR["standard"]) + len(SECURE["standard"])


class Table:
    """A worker and a spacer: answers what the table says, one second per call; admits one start per 0.1 s."""

    def __init__(self, answers: dict[str, Readings], forbidden: str = "") -> None:
        self.answers, self.forbidden, self.clock, self.next_start, self.most = answers, forbidden, 0.0, 0.0, 0
        self.begun: list[tuple[float, str]] = []
        self.flying: list[tuple[float, str]] = []

    def admit(self, address: str, now: float) -> float:
        if now < self.next_start:
            return self.next_start
        self.next_start = now + 0.1
        return 0.0

    def open_at(self) -> float:
        return self.next_start

    def settled(self, at: float | None) -> None:
        return

    def claim(self, place: Place) -> bool:
        return True

    def release(self, place: Place) -> None:
        return

    def begin(self, trace_id: str, vantage: str, call: Call, origin: Target) -> bool:
        if call.target.host == self.forbidden:
            return False
        self.begun.append((self.clock, trace_id))
        self.flying.append((self.clock + 1.0, trace_id))
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
        return [Finished(trace_id, self.answers.get(trace_id.split("/")[-1], ())) for _, trace_id in back]

    def now(self) -> float:
        return self.clock

    def names(self) -> list[str]:
        return [trace_id for _, trace_id in self.begun]


def hosts(count: int, address: str = "192.0.2.{}") -> list[Target]:
    return [Target(f"{chr(ord('a') + n)}.example", address.format(n)) for n in range(count)]


def drive(
    table: Table,
    targets: list[Target],
    done: dict[str, Readings] | None = None,
    concurrency: int = 10,
    profile: str = "standard",
    names: Iterable[Answer | None] = (),
) -> list[str]:
    """Return the hosts in the order in which their sessions ended."""
    ended: list[str] = []
    pending = iter(names)
    # None is a session that is not ready: it holds no one up.
    sessions = [*(("na", t, target_session(t, ALL, profile)) for t in targets), None, None]
    run(sessions, table, table, done or {}, lambda vantage, host: next(pending, Answer(("192.0.2.2",))),
        concurrency=concurrency, on_end=lambda vantage, target: ended.append(target.host))  # fmt: skip
    return ended


def test_every_profile_has_both_halves_and_every_test_a_probe() -> None:
    assert set(CLEAR) == set(SECURE) == set(PROFILES)
    probes = {probe for rows in (*CLEAR.values(), *SECURE.values()) for probe, _ in rows}
    assert {probe for names in TESTS.values() for probe in names} <= probes | {"http_version"}


@pytest.mark.parametrize("count", [1, 5])
def test_everything_is_asked_once_and_an_address_has_two_connections(count: int) -> None:
    """A held handshake, and one other connection: many names that lead to one address wait for each other."""
    table = Table(OPEN)
    targets = hosts(count, "192.0.2.1")
    assert sorted(drive(table, targets)) == [target.host for target in targets]
    assert table.names()[0] == "na/a.example/http_version.1"
    assert len(set(table.names())) == len(table.begun) == count * WHOLE and table.most == 2


def test_a_shut_port_is_asked_once() -> None:
    table = Table({"http_version.1": refused("http_clear"), "h2_settings.1": refused("http_version")})
    drive(table, hosts(1))
    assert [t.split("/")[-1] for t in table.names()] == ["http_version.1", "h2_settings.1"]


def test_names_are_asked_for_beside_the_calls() -> None:
    """A name server that takes its time holds up its own session only."""
    table = Table({"http_version.1": clear(301, "http://z.example/")})
    done = {"na/b.example/http_version.1": clear()}
    assert drive(table, hosts(2), done, profile="quick", names=[None] * 200) == ["b.example", "a.example"]
    assert table.begun[-1][0] < 60


def test_starts_are_spaced_and_concurrency_holds() -> None:
    table = Table(OPEN)
    drive(table, hosts(20), concurrency=3)
    assert all(b - a >= 0.1 - 1e-9 for (a, _), (b, _) in pairwise(table.begun)) and table.most <= 3 * 2


def test_held_handshakes_start_first() -> None:
    """They last longest."""
    table = Table(OPEN)
    drive(table, hosts(10))
    names = [trace_id.rpartition("/")[2] for trace_id in table.names()]
    rto = max(n for n, name in enumerate(names) if name == "rto.1")
    assert rto < min(n for n, name in enumerate(names) if name == "icw.1") + 10


def test_who_asks_not_to_be_asked_any_more_is_not() -> None:
    table = Table(OPEN, forbidden="a.example")
    assert drive(table, hosts(2)) == ["a.example", "b.example"]
    assert table.begun and not any("a.example" in trace_id for trace_id in table.names())


def test_resuming_asks_only_what_is_missing_and_names_it_alike() -> None:
    whole, rest = Table(OPEN), Table(OPEN)
    drive(whole, hosts(2))
    done = {name: OPEN.get(name.rpartition("/")[2], ()) for name in sorted(whole.names())[::2]}
    drive(rest, hosts(2), done)
    assert set(rest.names()) == set(whole.names()) - set(done)
