# SPDX-License-Identifier: MIT
"""Single readers on traces made by hand: each value class, each named reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hpack import Encoder

from configtron.fingerprint import h2_settings, http_version, rwin, signature
from configtron.fingerprint.merge import merge_all
from configtron.fingerprint.schedule import copies, schedule_of, spans, with_lost_first
from configtron.fingerprint.tls_versions import HelloAnswer, answer_of
from configtron.model.nouns import ACK, SYN, Message, Observation, Packet, Segment, Session, Target, Trace
from configtron.probe.h2_settings import h2_settings as ask_h2
from configtron.probe.http_version import http_version as ask_http
from configtron.probe.script import Read, StreamScript, Write

TARGET = Target("site.example", "192.0.2.1")


def tls(data: bytes, alpn: str = "h2", error: str = "") -> Trace:
    session = Session("TLSv1.3", alpn, error=error)
    return Trace("t", TARGET, "here", "h2_settings", messages=(Message(0.1, "in", data),), session=session)


def frame(kind: int, body: bytes, flags: int = 0, stream: int = 0) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(4, b"".join(i.to_bytes(2, "big") + v.to_bytes(4, "big") for i, v in pairs))


# What a server says once it has our SETTINGS, and the head of an answer: 200.
ACKNOWLEDGED, HEAD = frame(4, b"", flags=1), frame(1, b"\x88", flags=4, stream=1)


def seen(data: bytes, alpn: str = "h2", error: str = "") -> dict[str, Observation]:
    return {o.knob: o for o in h2_settings.infer(tls(data, alpn, error))}


def test_settings_keep_wire_order_duplicates_and_unknown_identifiers() -> None:
    found = seen(settings((3, 100), (0x0A0A, 7), (4, 65536), (3, 128)) + frame(8, (9).to_bytes(4, "big")))
    listed = found["h2_settings"]
    assert listed.value == ((3, 100), (0x0A0A, 7), (4, 65536), (3, 128))
    assert listed.detail("duplicated") is True and listed.detail("unknown") == (0x0A0A,)
    assert (found["h2_max_concurrent_streams"].value, found["h2_window_update"].value) == (128, 9)
    absent = found["h2_max_frame_size"]
    assert (absent.value, absent.detail("effective")) == ("absent", 16384)


def test_an_empty_settings_frame_announces_nothing() -> None:
    found = seen(settings() + ACKNOWLEDGED + HEAD)
    assert found["h2_settings"].value == ()
    assert {found[knob].value for knob in h2_settings.KNOBS if knob != "h2_settings"} == {"absent"}


@pytest.mark.parametrize(("after", "silent"), [
    (b"", {"h2_window_update", "h2_later_settings", "h2_goaway"}),
    (settings(), {"h2_window_update", "h2_goaway"}),
    (ACKNOWLEDGED, {"h2_later_settings", "h2_goaway"}),
    (frame(1, b"\x88", flags=4)[:-1], {"h2_window_update", "h2_later_settings", "h2_goaway"}),
    (frame(1, b"\x88", flags=4), set()),
])  # fmt: skip
def test_nothing_is_absent_that_might_still_come(after: bytes, silent: set[str]) -> None:
    """A lost segment hides what follows it: only a later frame shows that one was not sent."""
    assert {knob for knob, o in seen(settings((3, 100)) + after).items() if o.reason == "closed"} == silent


def test_settings_may_come_again() -> None:
    found = seen(settings((3, 1)) + settings((3, 128), (4, 70000)) + HEAD)
    assert found["h2_later_settings"].value == (((3, 128), (4, 70000)),)
    assert found["h2_max_concurrent_streams"].value == 1


@pytest.mark.parametrize(("script", "last_s"), [
    (ask_h2(TARGET, "agent"), 8.5), (ask_http(TARGET, "agent", way="h2c"), 16.0),
])  # fmt: skip
def test_settings_may_come_with_the_first_answer(script: StreamScript, last_s: float) -> None:
    """A client need not wait for them (RFC 9113 3.4); evidence says that the probe asked first."""
    said = list[Message]()
    next(script)
    for at_s, answer, until_s in ((0.5, Session("TLSv1.3", "h2"), 2.5), (2.5, None, last_s)):
        write = script.send(answer)
        assert isinstance(write, Write)
        said.append(Message(at_s, "out", write.data))
        assert script.send(said[-1]) == Read(until_s)
    came = Message(2.6, "in", settings((3, 100)) + HEAD)
    with pytest.raises(StopIteration, match="done"):
        script.send(came)
    for messages, late in (((*said, came), True), ((said[0], came, said[1]), None)):
        found = h2_settings.infer(replace(tls(b""), messages=messages))[0]
        assert (found.value, found.detail("after_request")) == (((3, 100),), late)
        assert http_version.infer(Trace("t", TARGET, "", "http_version", (("way", "h2c"),), messages=messages))[0].value


@pytest.mark.parametrize(("before", "when"), [
    (b"", "first"), (settings(), "unanswered"), (settings() + HEAD, "answered"),
])  # fmt: skip
def test_leave_is_taken_with_a_code_and_words(before: bytes, when: str) -> None:
    found = seen(before + frame(7, (3).to_bytes(4, "big") + (11).to_bytes(4, "big") + b"calm"))
    stated, listed = found["h2_goaway"], found["h2_settings"]
    assert (stated.value, stated.detail("code"), stated.detail("last_stream")) == ("enhance-your-calm", 11, 3)
    assert (stated.detail("debug"), stated.detail("when")) == ("calm", when)
    assert (listed.value, listed.reason) == (((), None) if before else (None, "h2:goaway-11"))


def test_unheard_of_identifiers_are_named_and_grease_is_one() -> None:
    found = seen(settings((3, 1), (0x2A2A, 7), (8, 1), (0xF00D, 2), (0x4A4A, 0)))
    assert found["h2_reserved"].value == ("grease", 0xF00D)
    assert found["h2_reserved"].detail("identifiers") == (0x2A2A, 0xF00D, 0x4A4A)
    assert found["h2_settings"].detail("effective") == ((3, 1), (8, 1), (0xF00D, 2))
    assert found["h2_settings"].detail("akamai") == "3:1;8:1;61453:2|00|0|"


@pytest.mark.parametrize(("streams", "grade"), [(1, "B"), (2, "C")])
def test_lists_that_differ_in_grease_only_agree(streams: int, grade: str) -> None:
    lists = ((3, 1), (0x2A2A, 7)), ((3, streams), (0x4A4A, 1))
    found = merge_all(seen(settings(*pairs) + HEAD)["h2_settings"] for pairs in lists)["h2_settings"]
    assert (found.value, found.grade) == (lists[0], grade)
    assert found.detail("grease_varies") if grade == "B" else found.detail("seen")


def test_what_the_rfc_forbids_is_reported_and_marked() -> None:
    found = seen(settings((2, 1), (4, 1 << 31), (5, 16383), (3, 0)))
    marked = {knob: o.detail("invalid") for knob, o in found.items() if o.detail("invalid")}
    each = dict.fromkeys(("h2_enable_push", "h2_initial_window_size", "h2_max_frame_size"), True)
    assert marked == {"h2_settings": (2, 4, 5), **each}
    odd = seen(frame(4, b"\x00\x03\x00\x00\x00\x07\x00", stream=1))
    assert odd["h2_settings"].detail("malformed") and odd["h2_max_concurrent_streams"].value == 7


BLOCK = Encoder().encode([(":status", "301"), ("server", "edge"), ("location", "/a"), ("cf-ray", "8a1-FRA")])
DETAILS = [301, "edge", "/a", "fra"]
# The final answer's block names fields by the table that the interim one's has filled.
TABLE = Encoder()
EARLY = frame(
    1, TABLE.encode([(":status", "103"), ("link", "</a.css>"), ("server", "edge"), ("location", "/a")]), flags=4
)
LATER = TABLE.encode([(":status", "301"), ("server", "edge"), ("location", "/a"), ("cf-ray", "8a1-FRA")])


@pytest.mark.parametrize(("head", "details"), [
    (frame(1, BLOCK, flags=4), DETAILS),
    (frame(1, b"\x02" + bytes(5) + BLOCK + bytes(2), flags=0x2C), DETAILS),
    (frame(1, BLOCK[:9]) + frame(9, BLOCK[9:], flags=4), DETAILS),
    (EARLY + frame(1, LATER, flags=4), DETAILS),
    (EARLY, [None] * 4),
    (frame(1, b"\xff\xff\xff\xff\xff\xff", flags=4), [None] * 4),
], ids=["plain", "padded", "split", "interim", "interim-alone", "broken"])  # fmt: skip
def test_an_answers_head_says_who_answered(head: bytes, details: list[object]) -> None:
    found = seen(settings() + head)["h2_settings"]
    assert [found.detail(name) for name in ("status", "server", "location", "place")] == details and found.value == ()


@pytest.mark.parametrize(("data", "alpn", "error", "reason"), [
    (b"", "http/1.1", "", "not-h2"),
    (b"HTTP/1.1 400", "h2", "", "h2:no-settings"),
    (b"", "h2", "tls:alert-handshake-failure", "tls:alert-handshake-failure"),
    (ACKNOWLEDGED, "h2", "", "h2:first-frame-not-settings"),
    (b"\x00\x00\x00\x01\x04\x00\x00\x00\x01", "h2", "", "h2:first-frame-not-settings"),
])  # fmt: skip
def test_failures_are_named(data: bytes, alpn: str, error: str, reason: str) -> None:
    assert seen(data, alpn, error)["h2_settings"].reason == reason


def test_http_version_by_alpn_and_in_clear() -> None:
    assert [http_version.infer(tls(b"", alpn))[0].text for alpn in ("http/1.1", "")] == ["http/1.1", "- (tls:no-alpn)"]
    head = b"HTTP/1.0 301 Moved\r\nServer: x\r\nLocation: http://other.example/a\r\n\r\n"
    clear = Trace("t", TARGET, "here", "http_version", (("way", "clear"),), messages=(Message(0.1, "in", head),))
    (found,) = http_version.infer(clear)
    details = found.detail("status"), found.detail("location")
    assert (found.value, *details) == ("http/1.0", 301, "http://other.example/a")


def test_signature_is_p0f_raw() -> None:
    stamps = (77).to_bytes(4, "big") + (1).to_bytes(4, "big")
    offer, reply = (((2, b"\x05\xb4"), (4, b""), (8, s), (1, b""), (3, b"\x07")) for s in (bytes(8), stamps))
    synack = Segment(SYN | ACK, ack=1, window=65160, options=reply)
    packets = (Packet(0, "out", Segment(SYN, options=offer)), Packet(0.1, "in", synack, 1, ttl=61))
    (found,) = signature.infer(Trace("t", TARGET, "here", "signature", packets=packets))
    assert found.value == "4:64:0:1460:65160,7:mss,sok,ts,nop,ws:df:0"


WINDOWS = ((2, b"\x05\xb4"),), ((2, b"\x05\xb4"), (3, b"\x05"))


@pytest.mark.parametrize(("ours", "theirs", "value"), [(1, 1, 502 << 5), (0, 1, 502), (1, 0, 502)])
def test_the_first_acks_window_is_scaled_where_both_offered_a_scale(ours: int, theirs: int, value: int) -> None:
    rows = [("out", Segment(SYN, options=WINDOWS[ours])), ("in", Segment(SYN | ACK, ack=1, options=WINDOWS[theirs])),
            ("out", Segment(ACK, 1, 1, length=80)), ("in", Segment(ACK, 1, 81, 502))]  # fmt: skip
    packets = tuple(Packet(n / 10, way, segment, n) for n, (way, segment) in enumerate(rows))
    found = {o.knob: o for o in rwin.infer(Trace("t", TARGET, "here", "rwin", packets=packets))}
    assert found["rwin_first_ack"].value == value


@pytest.mark.parametrize(("data", "alert", "final"), [
    (b"\x15\x03\x03\x00\x02\x02\x46", 70, True),
    # a warning may go before the hello; a part of a hello is no alert, nor is an alert of three bytes
    (b"\x15\x03\x03\x00\x02\x01\x70", 112, False),
    (b"\x16\x03\x03\x00\x02\x02\x00", -1, False),
    (b"\x15\x03\x03\x00\x03\x02\x46\x00", -1, False),
])  # fmt: skip
def test_alerts_before_a_hello(data: bytes, alert: int, final: bool) -> None:
    assert answer_of(data) == HelloAnswer(alert=alert, final=final)


@pytest.mark.parametrize(("gaps", "again", "first_s", "kind", "missed"), [
    ([1.02, 2.04, 4.2], [], 1.02, "exponential", 0),
    ([3.13, 4.08], [], 3.13 / 3, "exponential", 1),
    ([3.1, 4.1, 8.2], [], 3.1 / 3, "exponential", 1),
    ([1.0, 6.1, 8.2], [], 1.0, "exponential", 1),
    ([7.2, 8.2, 16.4], [], 7.2 / 7, "exponential", 2),
    ([3.0, 6.1, 12.2], [], 3.0, "exponential", 0),
    ([1.0, 1.0, 1.01], [], 1.0, "linear", 0),
    ([1.0, 1.0, 3.1, 9.0], [], 1.0, "irregular", 0),
    ([1.0], [], 1.0, "", 0),
    ([1.0, 2.05, 1.0], [], 1.0, "linear", 1),
    ([2.05, 1.0], [], 1.0, "linear", 1),
    ([1.0, 2.0, 2.05], [], 1.0, "linear", 2),
    # after one gap and a lost copy, a wait begun anew is four times the base; more copies in the gap make it less
    ([1.0], [4.1, 8.1], 1.0, "exponential", 0),
    ([3.1], [8.2], 3.1 / 3, "exponential", 1),
    ([1.0], [1.05], 1.0, "linear", 0),
    ([1.0], [1.7], 1.0, "", 0),
    # a clock was set back
    ([-0.1, 1.0], [], -0.1, "irregular", 0), ([0.0, 1.0], [], 0.0, "irregular", 0),
])  # fmt: skip
def test_lost_copies_show_in_the_doubling(
    gaps: list[float], again: list[float], first_s: float, kind: str, missed: int
) -> None:
    schedule = schedule_of(gaps, again)
    assert (schedule.first_s, schedule.kind, schedule.missed) == (pytest.approx(first_s), kind, missed)


DOUBLING = schedule_of([2.0, 4.0])


@pytest.mark.parametrize(("late_s", "found", "sure"), [
    (0.1, DOUBLING, True),
    (1.05, DOUBLING._replace(first_s=1.0, missed=1), True),
    (1.5, DOUBLING._replace(first_s=0.5, missed=2), True),
    (5.0, DOUBLING, False),
])  # fmt: skip
def test_what_came_a_timer_late_was_a_copy(late_s: float, found: object, sure: bool) -> None:
    assert with_lost_first(DOUBLING, late_s) == (found, sure)
    assert with_lost_first(schedule_of([1.0, 1.0]), 2.0)[0].missed == 2


def test_copies_are_counted_by_the_clock() -> None:
    assert [copies(1.0, "exponential", s) for s in (0.0, 1.05, 3.2, 7.3, 15.9, 33.0)] == [0, 1, 2, 3, 4, 5]
    assert copies(1.0, "linear", 4.2) == 4
    assert copies(1.0, "exponential", 1.0, (4.1, 8.4)) == 4
    # one more was lost within the last gap: 4 + 8 s
    assert copies(1.0, "exponential", 1.0, (12.5,)) == 4
    # the base fired late, the wait after the echo did not
    assert copies(1.0517, "exponential", 1.0517, (4.0237,)) == 3
    assert [gap for gap in (2.0, 3.1, 4.0, 6.3, 7.0, 8.5, 1.5, 5.2) if not spans(gap, 1.0)] == [1.5, 5.2]
