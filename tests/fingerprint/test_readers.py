"""Single readers on traces made by hand: each value class, each named reason."""

from __future__ import annotations

from configtron.fingerprint import h2_settings, http_version, signature
from configtron.nouns import ACK, SYN, Message, Packet, Segment, Session, Target, Trace

TARGET = Target("site.example", "192.0.2.1")


def tls(data: bytes, alpn: str = "h2", error: str = "") -> Trace:
    session = Session("TLSv1.3", alpn, error=error)
    return Trace("t", TARGET, "here", "h2_settings", messages=(Message(0.1, "in", data),), session=session)


def settings(*pairs: tuple[int, int]) -> bytes:
    body = b"".join(i.to_bytes(2, "big") + v.to_bytes(4, "big") for i, v in pairs)
    return len(body).to_bytes(3, "big") + b"\x04\x00" + bytes(4) + body


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
    found = seen(tls(settings()))
    assert found["h2_settings"] == "()"
    assert {found[knob] for knob in h2_settings.KNOBS if knob != "h2_settings"} == {"absent"}


def test_failures_are_named() -> None:
    assert seen(tls(b"", alpn="http/1.1"))["h2_settings"] == "- (not-h2)"
    assert seen(tls(b"HTTP/1.1 400"))["h2_settings"] == "- (h2:no-settings)"
    assert seen(tls(b"", error="tls:alert-handshake_failure"))["h2_settings"] == "- (tls:alert-handshake_failure)"
    goaway = b"\x00\x00\x08\x07\x00" + bytes(4) + bytes(4) + (11).to_bytes(4, "big")
    assert seen(tls(goaway))["h2_settings"] == "- (h2:goaway-11)"
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
