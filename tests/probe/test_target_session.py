# SPDX-License-Identifier: MIT
"""Sessions of targets: the next probe, by the answers so far."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from configtron.model.nouns import Observation, Target
from configtron.probe.profiles import AGAIN_MOST, APART_MOST, HELD, MORE, TESTS, plan
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


def clear(status: int = 200, location: str = "", reason: str = "") -> tuple[Observation, ...]:
    if reason:
        return (Observation("http_clear", None, reason),)
    details = (("location", location), ("status", status))
    return (Observation("http_clear", "http/1.1", None, "", "", "C", details=details),)


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


def test_held_handshakes_are_a_connection_of_their_own() -> None:
    calls, (held,) = played(target_session(HOME, ALL, "standard"), known)
    assert not any(call.held for call in calls)
    inside, none = played(held, known)
    assert inside and all(call.held and call.probe in HELD for call in inside) and not none


def calls_of(answer: Callable[[Call, int], Readings]) -> list[Call]:
    return played(target_session(HOME, ALL, "standard"), answer)[0]


def test_a_cookie_that_the_page_demands_is_brought_along() -> None:
    def demanding(call: Call, n: int) -> Readings:
        params = dict(call.params)
        if call.probe == "http_version" and params.get("way") == "clear" and "cookie" not in params:
            details = (("cookies", "a=1; b=2"), ("location", "/"), ("status", 302))
            return (Observation("http_clear", "http/1.1", None, "", "", "C", details=details),)
        return known(call, n)

    calls = calls_of(demanding)
    assert [dict(call.params).get("cookie", "") for call in calls[:2]] == ["", "a=1; b=2"]
    asked = {call.probe: dict(call.params).get("cookie", "") for call in calls}
    assert asked["icw"] == asked["rwin"] == "a=1; b=2" and asked["signature"] == ""


def test_where_the_page_is_over_tls_its_window_is_asked_there() -> None:
    answers: dict[str, Readings] = {"http_version": clear(301, "https://a.example/home?x")}
    calls = calls_of(lambda call, n: answers.get(call.probe, ()) if n == 0 else ())
    (there, *_) = [call.target for call in calls if call.probe == "cwnd_at_request"]
    assert (there.host, there.port, there.path) == ("a.example", 443, "/home?x")


def lengthened(*played: tuple[str, int]) -> list[bool]:
    """Which of the runs asked for a longer path, if they found this (proof, bytes), the last for all that follow."""
    made: list[bool] = []

    def answer(call: Call, n: int) -> Readings:
        if call.probe != "icw":
            return known(call, n)
        proof, size = played[min(len(made), len(played) - 1)]
        made.append(bool(dict(call.params).get("longer", False)))
        details = (("bytes", size), ("proof", proof))
        return (Observation("icw", 3, None, "segments", "", "L", "v/a/icw.1", details=details),)

    calls_of(answer)
    return made[:4]


def test_a_short_page_is_made_longer() -> None:
    assert lengthened(("response-ended", 300), ("response-ended", 1400)) == [False, True, True, True]


def test_a_lost_packet_is_no_short_page() -> None:
    """Silence after our ACK counts once it was heard twice; a longer path that is answered shorter is left again."""
    assert lengthened(("unverified", 5360), ("after-timer", 5360)) == [False] * 4
    assert lengthened(("unverified", 300), ("unverified", 300), ("unverified", 1400)) == [False, False, True, True]
    assert lengthened(("response-ended", 2000), ("response-ended", 303)) == [False, True, False, False]


def test_without_a_port_in_clear_the_transport_is_asked_at_the_other() -> None:
    def secure_only(call: Call, n: int) -> Readings:
        return clear(reason="refused") if call.target.port == 80 else ()

    calls, (held,) = played(target_session(HOME, ALL, "standard"), secure_only)
    assert {call.target.port for call in calls[1:]} == {443}
    assert {"signature", "rwin", "icw_tls"} <= {call.probe for call in calls} and "icw" not in {c.probe for c in calls}
    assert {call.target.port for call in played(held, secure_only)[0]} == {443}


def test_a_host_that_answers_nowhere_is_left_alone() -> None:
    def shut(call: Call, n: int) -> Readings:
        knob = "http_clear" if call.target.port == 80 else "http_version"
        return (Observation(knob, None, "refused"),)

    calls, beside = played(target_session(HOME, ALL, "full"), shut)
    assert len(calls) == 2 and not beside


def test_a_lost_answer_is_asked_for_once_more() -> None:
    def lost(call: Call, n: int) -> Readings:
        return (Observation("signature", None, "no-synack"),) if call.probe == "signature" else known(call, n)

    calls, _ = played(target_session(HOME, ALL, "standard"), lost)
    rows = plan("standard", ALL).clear
    planned = sum(probe == "signature" for probe, _ in rows)
    assert sum(call.probe == "signature" for call in calls) == planned * (1 + AGAIN_MOST)


def test_further_trials_where_a_grade_needs_them_and_no_more() -> None:
    def differing(call: Call, n: int) -> Readings:
        if call.probe != "icw":
            return known(call, n)
        return (Observation("icw", 10 + n % 2, None, "segments", "", "C", f"v/a/icw.{n}"),)

    def agreeing(call: Call, n: int) -> Readings:
        if call.probe != "icw":
            return known(call, n)
        details = (("mss", 536 + n), ("proof", "edge"), ("sack", True))
        return (Observation("icw", 10, None, "segments", "", "C", f"v/a/icw.{n}", details=details),)

    for profile in ("quick", "standard", "full"):
        planned = sum(probe == "icw" for probe, _ in plan(profile, ALL).clear)
        calls, _ = played(target_session(HOME, ALL, profile), differing)
        assert planned <= sum(call.probe == "icw" for call in calls) <= planned + MORE[profile]
        calls, _ = played(target_session(HOME, ALL, profile), agreeing)
        assert sum(call.probe == "icw" for call in calls) == planned
    calls, _ = played(target_session(HOME, ALL, "standard"), differing)
    assert sum(call.probe == "icw" for call in calls) > sum(probe == "icw" for probe, _ in plan("standard", ALL).clear)


def settings(call: Call, n: int, unlike: int = -1) -> Readings:
    """A server whose window is in every run, and whose SETTINGS the `unlike`-th connection sees otherwise."""
    if call.probe == "icw":
        details = (("mss", 536 + n), ("proof", "edge"), ("sack", True))
        return (Observation("icw", 10, None, "segments", "", "C", f"v/a/icw.{n}", details=details),)
    if call.probe == "h2_settings":
        return (Observation("h2_settings", ((3, 100 + (n == unlike)),), None, "", "", "C", f"v/a/h2_settings.{n}"),)
    return known(call, n)


def asked(profile: str, probe: str, answer: Callable[[Call, int], Readings]) -> int:
    """How many more of a probe than planned."""
    calls, _ = played(target_session(HOME, ALL, profile), answer)
    rows = plan(profile, ALL)
    return sum(call.probe == probe for call in calls) - sum(row[0] == probe for row in (*rows.clear, *rows.secure))


def test_one_server_is_distinguished_from_two_by_enough_connections() -> None:
    def slow(call: Call, n: int) -> Readings:
        return () if call.probe == "h2_settings" and n < 3 else settings(call, n)

    assert asked("full", "h2_settings", settings) == 0
    assert asked("full", "h2_settings", slow) == 3, "three of them showed nothing"
    assert asked("standard", "h2_settings", settings) == 0, "this profile does not ask who answers"


def test_a_hint_at_two_servers_is_followed() -> None:
    def once(call: Call, n: int) -> Readings:
        return settings(call, n, unlike=1)

    def never(call: Call, n: int) -> Readings:
        return settings(call, n, unlike=-1 if n else 0)

    most = APART_MOST["standard"][1] + MORE["standard"]
    assert 0 < asked("standard", "h2_settings", once) <= most
    assert 0 < asked("standard", "h2_settings", never) <= most
    assert asked("quick", "h2_settings", once) == 0


def test_redirects_are_followed_twice_and_checked() -> None:
    session = target_session(Target("a.example", "192.0.2.1"), frozenset({"icw"}), "standard")
    first = next(session)
    assert isinstance(first, Call) and first.probe == "http_version"
    second = session.send(clear(301, "http://b.example/x?y=1"))
    assert second == NameLookup("b.example")
    third = session.send(Answer(("192.0.2.2",)))
    assert isinstance(third, Call) and (third.target.host, third.target.address, third.target.path) == (
        "b.example",
        "192.0.2.2",
        "/x?y=1",
    )
    fourth = session.send(clear(302, "/z"))
    assert isinstance(fourth, Call) and fourth.target.path == "/z"
    fifth = session.send(clear(302, "/again"))
    assert isinstance(fifth, Call) and fifth.probe == "icw"


def test_a_redirect_to_a_blocked_name_is_not_followed() -> None:
    session = target_session(Target("a.example", "192.0.2.1"), frozenset({"icw"}), "standard")
    next(session)
    session.send(clear(301, "http://blocked.example/"))
    call = session.send(Answer((), "blocked"))
    assert isinstance(call, Call) and call.target.host == "a.example" and call.probe == "icw"


@pytest.mark.parametrize(
    "location",
    [
        "http://2130706433/",
        "http://127.1/",
        "http://a..b/",
        "http://a.example/x y",
        "http://[::1/",
        "ftp://b.example/",
        "https://b.example:8443/",
    ],
)
def test_redirects_to_nonsense_are_not_followed(location: str) -> None:
    session = target_session(Target("a.example", "192.0.2.1"), frozenset({"icw"}), "standard")
    next(session)
    call = session.send(clear(301, location))
    assert isinstance(call, Call) and call.target == Target("a.example", "192.0.2.1") and call.probe == "icw"
