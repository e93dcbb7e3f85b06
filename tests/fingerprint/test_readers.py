# SPDX-License-Identifier: MIT
"""Single readers on traces made by hand: each value class, each named reason."""

from __future__ import annotations

import pytest
from hpack import Encoder

from configtron.fingerprint import h2_settings, http_version, signature
from configtron.fingerprint.merge import merge_all
from configtron.model.nouns import ACK, SYN, Message, Observation, Packet, Segment, Session, Target, Trace

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


def seen(trace: Trace) -> dict[str, str]:
    return {o.knob: o.text for o in h2_settings.infer(trace)}


def test_settings_keep_wire_order_duplicates_and_unknown_identifiers() -> None:
    trace = tls(
        settings((3, 100), (0x0A0A, 7), (4, 65536), (3, 128))
        + b"\x00\x00\x04\x08\x00"
        + bytes(4)
        + (9).to_bytes(4, "big")
    )
    found = {o.knob: o for o in h2_settings.infer(trace)}
    assert found["h2_settings"].value == ((3, 100), (0x0A0A, 7), (4, 65536), (3, 128))
    assert found["h2_settings"].detail("duplicated") is True
    assert found["h2_settings"].detail("unknown") == (0x0A0A,)
    assert found["h2_max_concurrent_streams"].value == 128
    assert found["h2_window_update"].value == 9
    absent = found["h2_max_frame_size"]
    assert (absent.value, absent.detail("effective")) == ("absent", 16384)


def test_an_empty_settings_frame_announces_nothing() -> None:
    found = seen(tls(settings() + ACKNOWLEDGED + HEAD))
    assert found["h2_settings"] == "()"
    assert {found[knob] for knob in h2_settings.KNOBS if knob != "h2_settings"} == {"absent"}


@pytest.mark.parametrize(
    ("after", "silent"),
    [
        (b"", {"h2_window_update", "h2_later_settings", "h2_goaway"}),
        (settings(), {"h2_window_update", "h2_goaway"}),
        (frame(4, b"", flags=1), {"h2_later_settings", "h2_goaway"}),
        (frame(1, b"\x88", flags=4)[:-1], {"h2_window_update", "h2_later_settings", "h2_goaway"}),
        (frame(1, b"\x88", flags=4), set()),
    ],
)
def test_nothing_is_absent_that_might_still_come(after: bytes, silent: set[str]) -> None:
    """A lost segment hides what follows it: only a later frame shows that one was not sent."""
    found = seen(tls(settings((3, 100)) + after))
    assert {knob for knob, text in found.items() if text == "- (closed)"} == silent


def test_settings_may_come_again() -> None:
    found = {o.knob: o for o in h2_settings.infer(tls(settings((3, 1)) + settings((3, 128), (4, 70000)) + HEAD))}
    assert found["h2_later_settings"].value == (((3, 128), (4, 70000)),)
    assert found["h2_max_concurrent_streams"].value == 1


@pytest.mark.parametrize(
    ("before", "after", "when", "kept"),
    [(b"", b"", "first", False), (settings(), b"", "unanswered", True), (settings() + HEAD, b"", "answered", True)],
)
def test_leave_is_taken_with_a_code_and_words(before: bytes, after: bytes, when: str, kept: bool) -> None:
    goaway = frame(7, (3).to_bytes(4, "big") + (11).to_bytes(4, "big") + b"calm")
    found = {o.knob: o for o in h2_settings.infer(tls(before + goaway + after))}
    stated = found["h2_goaway"]
    assert (stated.value, stated.detail("code"), stated.detail("last_stream")) == ("enhance-your-calm", 11, 3)
    assert (stated.detail("debug"), stated.detail("when")) == ("calm", when)
    assert (found["h2_settings"].value == ()) is kept
    assert kept or found["h2_settings"].reason == "h2:goaway-11"


def test_unheard_of_identifiers_are_named_and_grease_is_one() -> None:
    found = {o.knob: o for o in h2_settings.infer(tls(settings((3, 1), (0x2A2A, 7), (8, 1), (0xF00D, 2), (0x4A4A, 0))))}
    assert found["h2_reserved"].value == ("grease", 0xF00D)
    assert found["h2_reserved"].detail("identifiers") == (0x2A2A, 0xF00D, 0x4A4A)
    assert found["h2_settings"].detail("effective") == ((3, 1), (8, 1), (0xF00D, 2))
    assert found["h2_settings"].detail("akamai") == "3:1;8:1;61453:2|00|0|"


def test_lists_that_differ_in_grease_only_agree() -> None:
    def trials(*lists: tuple[tuple[int, int], ...]) -> list[Observation]:
        return [o for pairs in lists for o in h2_settings.infer(tls(settings(*pairs) + HEAD))]

    same = merge_all(trials(((3, 1), (0x2A2A, 7)), ((3, 1), (0x4A4A, 1))))["h2_settings"]
    assert (same.value, same.grade, same.detail("grease_varies")) == (((3, 1), (0x2A2A, 7)), "B", True)
    unlike = merge_all(trials(((3, 1), (0x2A2A, 7)), ((3, 2), (0x4A4A, 1))))["h2_settings"]
    assert unlike.grade == "C" and unlike.detail("seen")


def test_what_the_rfc_forbids_is_reported_and_marked() -> None:
    found = {o.knob: o for o in h2_settings.infer(tls(settings((2, 1), (4, 1 << 31), (5, 16383), (3, 0))))}
    marked = {knob for knob, o in found.items() if o.detail("invalid")}
    assert marked == {"h2_enable_push", "h2_initial_window_size", "h2_max_frame_size"}
    crooked = frame(4, b"\x00\x03\x00\x00\x00\x07\x00", stream=1)
    odd = {o.knob: o for o in h2_settings.infer(tls(crooked))}
    assert odd["h2_settings"].detail("malformed") and odd["h2_max_concurrent_streams"].value == 7


def test_an_answers_head_says_who_answered() -> None:
    block = Encoder().encode([(":status", "301"), ("server", "edge"), ("location", "/a"), ("cf-ray", "8a1-FRA")])
    plain, padded = frame(1, block, flags=4), frame(1, b"\x02" + bytes(5) + block + bytes(2), flags=0x2C)
    split = frame(1, block[:9]) + frame(9, block[9:], flags=4)
    for head in (plain, padded, split):
        found = h2_settings.infer(tls(settings() + head))[0]
        details = [found.detail(name) for name in ("status", "server", "location", "place")]
        assert details == [301, "edge", "/a", "fra"]
    broken = h2_settings.infer(tls(settings() + frame(1, b"\xff\xff\xff\xff\xff\xff", flags=4)))[0]
    assert broken.value == () and broken.detail("status") is None


def test_failures_are_named() -> None:
    assert seen(tls(b"", alpn="http/1.1"))["h2_settings"] == "- (not-h2)"
    assert seen(tls(b"HTTP/1.1 400"))["h2_settings"] == "- (h2:no-settings)"
    assert seen(tls(b"", error="tls:alert-handshake-failure"))["h2_settings"] == "- (tls:alert-handshake-failure)"
    assert seen(tls(frame(4, b"", flags=1)))["h2_settings"] == "- (h2:first-frame-not-settings)"
    assert seen(tls(b"\x00\x00\x00\x01\x04\x00\x00\x00\x01"))["h2_settings"] == "- (h2:first-frame-not-settings)"


def test_http_version_by_alpn_and_in_clear() -> None:
    assert http_version.infer(tls(b"", "http/1.1"))[0].text == "http/1.1"
    assert http_version.infer(tls(b"", ""))[0].text == "- (tls:no-alpn)"
    head = b"HTTP/1.0 301 Moved\r\nServer: x\r\nLocation: http://other.example/a\r\n\r\n"
    clear = Trace("t", TARGET, "here", "http_version", (("way", "clear"),), messages=(Message(0.1, "in", head),))
    (found,) = http_version.infer(clear)
    assert (found.value, found.detail("status"), found.detail("location")) == (
        "http/1.0",
        301,
        "http://other.example/a",
    )


def test_signature_is_p0f_raw() -> None:
    syn = Segment(SYN, options=((2, b"\x05\xb4"), (4, b""), (8, bytes(8)), (1, b""), (3, b"\x07")))
    body = (77).to_bytes(4, "big") + (1).to_bytes(4, "big")
    synack = Segment(
        SYN | ACK, ack=1, window=65160, options=((2, b"\x05\xb4"), (4, b""), (8, body), (1, b""), (3, b"\x07"))
    )
    trace = Trace(
        "t", TARGET, "here", "signature", packets=(Packet(0, "out", syn), Packet(0.1, "in", synack, 1, ttl=61))
    )
    (found,) = signature.infer(trace)
    assert found.value == "4:64:0:1460:65160,7:mss,sok,ts,nop,ws:df:0"
