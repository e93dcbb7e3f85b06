# SPDX-License-Identifier: MIT
"""Heads of answers, whole and cut off anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.fingerprint.head import FIELD_LIMIT, head_fields, head_status, header_details, status_version
from configtron.model.nouns import Message, Session, Target
from configtron.probe.http_version import http_version
from configtron.probe.script import Open, Read, Write

HEAD = (
    b"HTTP/1.1 302 Found\r\nServer: edge/2\r\nVia: 1.1 cache\r\nLocation: https://a.example/?q\r\n"
    b"Set-Cookie: seen=1; Path=/; Secure\r\nset-cookie: id=a=b\r\nSet-Cookie: seen=2; Max-Age=60\r\n"
    b'Alt-Svc: h3=":443"; ma=86400\r\nX-Served-By: cache-fra-eddf8230047-FRA\r\nServer: second\r\n\r\nServer: body'
)


EARLY = b"HTTP/1.1 103 Early Hints\r\nServer: hint\r\nLink: </a.css>; rel=preload\r\n\r\n"


def details_of(head: bytes) -> dict[str, object]:
    return dict(header_details(head_status(head), head_fields(head)))


def test_what_a_head_shows() -> None:
    assert details_of(HEAD) == {
        "status": 302, "server": "edge/2", "via": "1.1 cache", "location": "https://a.example/?q",
        "alt-svc": 'h3=":443"; ma=86400', "place": "fra", "cookies": "id=a=b; seen=2",
    }  # fmt: skip


@pytest.mark.parametrize(("fields", "name", "value"), [
    # places are read without the request's number
    ("CF-RAY: 8f0c1a2b3c4d5e6f-AMS", "place", "ams"),
    ("X-Amz-Cf-Pop: FRA56-P4", "place", "fra"),
    ("X-Vercel-Id: iad1::sfo1::abc", "place", "iad1"),
    ("CF-RAY: none", "place", None),
    # a deleted cookie is not given back; a cookie cannot bring a line of its own
    ("Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nSet-Cookie: a=x; Max-Age=0", "cookies", "b=2"),
    ("Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nSet-Cookie: a=x; path=/; max-age=-1 ; secure", "cookies", "b=2"),
    ("Set-Cookie: a=1\nX: y", "cookies", None),
    ("Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nSet-Cookie: a=x; Expires=Thu, 01-Jan-1970 00:00:01 GMT", "cookies", "b=2"),
    ("Set-Cookie: a=1; Expires=Thu, 19 Jan 2070 00:00:01 GMT", "cookies", "a=1"),
    # a folded line belongs to the field above it
    ("Via: 1.1 a,\r\n\t1.1 b\r\nX: y\r\n Server: no", "via", "1.1 a, 1.1 b"),
    ("Via: 1.1 a\r\nX: y\r\n Server: no", "server", None),
    # endless fields are cut
    ("Server: " + "x" * 9000, "server", "x" * FIELD_LIMIT),
])  # fmt: skip
def test_single_fields(fields: str, name: str, value: str | None) -> None:
    assert details_of(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode()).get(name) == value


@pytest.mark.parametrize("before", [EARLY, EARLY * 2, b"HTTP/1.1 100 Continue\r\n\r\n" + EARLY])
def test_interim_answers_are_passed_over(before: bytes) -> None:
    assert details_of(before + HEAD) == details_of(HEAD) and details_of(before) == {"status": 0}
    assert head_status(b"HTTP/1.1 101 Switching Protocols\r\n\r\n") == 101
    script = http_version(Target("a.example"), "", way="clear")
    assert isinstance(next(script), Open) and isinstance(script.send(Session()), Write)
    assert [type(script.send(one)) for one in (Message(0.0, "out", b""), Message(0.1, "in", before))] == [Read, Read], (
        "still waits"
    )


def test_a_head_cut_off_shows_only_what_is_whole() -> None:
    whole = details_of(HEAD)
    for cut in range(len(HEAD)):
        part = details_of(HEAD[:cut])
        assert all(whole[name] == value for name, value in part.items() if name not in ("cookies", "status")), cut
        assert cut < 9 or status_version(HEAD[:cut]) == "http/1.1"


@given(st.binary(max_size=200))
def test_any_bytes_are_read(data: bytes) -> None:
    details_of(data)
    details_of(b"HTTP/1.1 " + data)
    status_version(data)
