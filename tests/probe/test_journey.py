"""Stories of targets: what is asked next, given what was answered."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from configtron.nouns import Observation, Target
from configtron.probe.journey import Answer, Beside, Call, Journey, Lookup, Readings, journey
from configtron.probe.profiles import AGAIN_MOST, HELD, MORE, TESTS, plan

ALL = frozenset(TESTS)
HOME = Target("a.example", "192.0.2.1")


def clear(status: int = 200, location: str = "", reason: str = "") -> tuple[Observation, ...]:
    if reason:
        return (Observation("http_clear", None, reason),)
    details = (("location", location), ("status", status))
    return (Observation("http_clear", "http/1.1", None, "", "", "C", details=details),)


def told(story: Journey, answer: Callable[[Call, int], Readings]) -> tuple[list[Call], list[Journey]]:
    """All calls of a strand, answered by (call, how many of that probe before), and the strands begun beside it."""
    calls: list[Call] = []
    beside: list[Journey] = []
    event: Readings | None = None
    try:
        while True:
            wish = story.send(event)
            event = None
            if isinstance(wish, Beside):
                beside.append(wish.strand)
                continue
            assert isinstance(wish, Call)
            event = answer(wish, sum(call.probe == wish.probe for call in calls))
            calls.append(wish)
    except StopIteration:
        return calls, beside


def known(call: Call, n: int) -> Readings:
    """Everything is as it should be, so often that nothing more need be asked."""
    return clear() if call.params == (("way", "clear"),) else ()


def test_held_handshakes_are_a_strand_of_their_own() -> None:
    calls, (held,) = told(journey(HOME, ALL, "standard"), known)
    assert not any(call.held for call in calls)
    inside, none = told(held, known)
    assert inside and all(call.held and call.probe in HELD for call in inside) and not none


def test_a_lost_answer_is_asked_for_once_more() -> None:
    def lost(call: Call, n: int) -> Readings:
        return (Observation("signature", None, "no-synack"),) if call.probe == "signature" else known(call, n)

    calls, _ = told(journey(HOME, ALL, "standard"), lost)
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
        calls, _ = told(journey(HOME, ALL, profile), differing)
        assert planned <= sum(call.probe == "icw" for call in calls) <= planned + MORE[profile]
        calls, _ = told(journey(HOME, ALL, profile), agreeing)
        assert sum(call.probe == "icw" for call in calls) == planned
    calls, _ = told(journey(HOME, ALL, "standard"), differing)
    assert sum(call.probe == "icw" for call in calls) > sum(probe == "icw" for probe, _ in plan("standard", ALL).clear)


def test_redirects_are_followed_twice_and_checked() -> None:
    story = journey(Target("a.example", "192.0.2.1"), frozenset({"icw"}), "standard")
    first = next(story)
    assert isinstance(first, Call) and first.probe == "http_version"
    second = story.send(clear(301, "http://b.example/x?y=1"))
    assert second == Lookup("b.example")
    third = story.send(Answer(("192.0.2.2",)))
    assert isinstance(third, Call) and (third.target.host, third.target.address, third.target.path) == (
        "b.example",
        "192.0.2.2",
        "/x?y=1",
    )
    fourth = story.send(clear(302, "/z"))
    assert isinstance(fourth, Call) and fourth.target.path == "/z"
    fifth = story.send(clear(302, "/again"))
    assert isinstance(fifth, Call) and fifth.probe == "icw"


def test_a_redirect_to_a_blocked_name_is_not_followed() -> None:
    story = journey(Target("a.example", "192.0.2.1"), frozenset({"icw"}), "standard")
    next(story)
    story.send(clear(301, "http://blocked.example/"))
    call = story.send(Answer((), "blocked"))
    assert isinstance(call, Call) and call.target.host == "a.example" and call.probe == "icw"


@pytest.mark.parametrize(
    "location",
    [
        "http://2130706433/",
        "http://127.1/",
        "http://a..b/",
        "http://a.example/x y",
        "http://[::1/",
        "https://b.example/",
    ],
)
def test_redirects_to_nonsense_are_not_followed(location: str) -> None:
    story = journey(Target("a.example", "192.0.2.1"), frozenset({"icw"}), "standard")
    next(story)
    call = story.send(clear(301, location))
    assert isinstance(call, Call) and call.target == Target("a.example", "192.0.2.1") and call.probe == "icw"
