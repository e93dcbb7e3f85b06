# SPDX-License-Identifier: MIT
"""HTTP framing and the judgement of requests: what is let in, what is refused and by which name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.intake.pageloads import reasons
from configtron.intake.pageloads.http_framing import MOST_BODY, HttpReader, HttpRequest, RefusedRequest
from configtron.intake.pageloads.intake import BEACON_PATH, REPORT_PATH, Intake, IntakeOptions, sites_of
from configtron.model.errors import BadInput
from tests.support.pageloads import BOOMERANG, OURS, report

HEAD = {"user-agent": "Mozilla/5.0 (iPhone; Mobile)", "origin": "https://www.example.org"}
PEER = bytes([198, 51, 100, 9])


def raw(body: bytes = b"{}", more: str = "", method: str = "POST", path: str = BEACON_PATH) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode("latin-1") + body


def read(*data: bytes) -> list[HttpRequest | RefusedRequest]:
    reader = HttpReader()
    return [one for part in data for one in reader.feed(part)]


def test_requests_follow_one_another() -> None:
    first, second = read(raw(b"one") + raw(b"", "Connection: close\r\n", "GET", "/configtron/beacon.js?v=2"))
    assert isinstance(first, HttpRequest) and isinstance(second, HttpRequest)
    assert (first.method, first.path, first.body, first.lasting) == ("POST", BEACON_PATH, b"one", True)
    assert (second.path, second.query, second.lasting) == ("/configtron/beacon.js", "v=2", False)


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.data())
def test_any_cut_of_the_bytes_reads_the_same(bodies: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(raw(body) for body in bodies)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    parts = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert [one.body for one in read(*parts) if isinstance(one, HttpRequest)] == bodies


@pytest.mark.parametrize(
    ("data", "status", "reason"),
    [
        (b"HELLO\r\n\r\n", 400, "not-http"), (b"\x16\x03\x01\x02\r\n\r\n", 400, "not-http"),
        (b"DELETE / HTTP/1.1\r\n\r\n", 400, "not-http"), (raw(more="Content-Length: 3\r\n"), 400, "not-http"),
        (raw(more="Transfer-Encoding: chunked\r\n"), 411, "not-http"),
        (raw(more="X-Folded: a\r\n b\r\n"), 400, "not-http"), (raw(more="Space : a\r\n"), 400, "not-http"),
        (raw().replace(b"Length: 2", b"Length: -2"), 400, "not-http"),
        (raw().replace(b"Length: 2", b"Length: 2e1"), 400, "not-http"),
        (raw().replace(b"Length: 2", b"Length: %d" % (MOST_BODY + 1)), 413, "too-large"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 4_000, 431, "too-large"),
    ],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_is_refused(data: bytes, status: int, reason: str) -> None:
    assert read(data, raw()) == [RefusedRequest(status, reason)], "and nothing after it is read"


@given(st.lists(st.binary(max_size=80), max_size=5))
def test_any_bytes_are_read(parts: list[bytes]) -> None:
    reader = HttpReader()
    for part in parts:
        for one in reader.feed(part):
            assert isinstance(one, HttpRequest) or one.reason in reasons.FLOODS
    assert len(reader._held) <= 400


def request(body: bytes, path: str = BEACON_PATH, method: str = "POST", query: str = "", **more: str) -> HttpRequest:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return HttpRequest(method, path, query, HEAD | named, body, True)


BODY = json.dumps(OURS).encode()


def judged(given: HttpRequest, peer: bytes = PEER, options: IntakeOptions | None = None) -> tuple[int, str]:
    """Return the status, and the reason of a refusal."""
    intake = Intake(options)
    status, admitted = intake.request(given, peer, 0)
    return status, "" if admitted else next(iter(intake.counts), "")


def test_a_beacon_is_let_in_with_its_device_class() -> None:
    status, admitted = Intake().request(request(BODY), PEER, 0)
    assert status == 204 and admitted is not None and admitted.load is not None
    assert (admitted.client, admitted.device, admitted.site) == (PEER, "phone", "www.example.org")
    assert admitted.load.value_ms == 400.5


def test_only_named_hosts_are_sites() -> None:
    some = IntakeOptions(sites=sites_of("www.example.org, *.Example.net"))
    for host, site in (
        ("www.example.org", "www.example.org"), ("a.www.example.org", "other"), ("example.net", "other"), ("", "other"),
        ("www.example.org:8443", "www.example.org"), ("www.example.org.", "www.example.org"),
        ("a.example.net", "*.example.net"), ("b.a.example.net", "*.example.net"), ("badexample.net", "other"),
    ):  # fmt: skip
        assert (some.site_of(host), IntakeOptions().site_of(host)) == (site, host)
    for text in ("a b", "www.*.org", "a,,b"):
        with pytest.raises(BadInput, match="--sites"):
            sites_of(text)


@pytest.mark.parametrize(
    ("given", "options", "want"),
    [
        (request(BODY, origin="http://[bad"), None, (204, "")),
        (request(BODY, sec_gpc="1"), None, (204, "opted-out")), (request(BODY, dnt="1"), None, (204, "opted-out")),
        (request(BODY, dnt="1"), IntakeOptions(honour_opt_out=False), (204, "")),
        (request(BODY, user_agent="curl/8"), None, (204, "program")), (request(b"{"), None, (204, "unreadable")),
        (request(BODY + b" " * 20_000), None, (413, "too-large")), (request(BODY, path="/else"), None, (404, "")),
        (request(BODY, path=REPORT_PATH, method="GET"), None, (404, "")),
        (request(b"", method="OPTIONS"), None, (204, "")),
        # boomerang sends a query
        (request(b"", method="GET", query="&".join(map("=".join, BOOMERANG.items()))), None, (204, "")),
    ],
)  # fmt: skip
def test_each_head_that_is_refused_is_named(given: HttpRequest, options: IntakeOptions | None, want: object) -> None:
    assert judged(given, options=options) == want


def test_the_web_server_on_this_host_names_the_client_and_no_other_peer_does() -> None:
    forwarded = request(BODY, x_real_ip="203.0.113.5")
    for peer, client in (
        (bytes([127, 0, 0, 1]), bytes([203, 0, 113, 5])), (b"", bytes([203, 0, 113, 5])),
        (bytes(10) + b"\xff\xff" + PEER, PEER), (PEER, PEER),
    ):  # fmt: skip
        admitted = Intake().request(forwarded, peer, 0)[1]
        assert admitted is not None and admitted.client == client
    assert judged(request(BODY, x_real_ip="nonsense"), b"") == (204, "")


def test_reports_are_let_in_and_each_that_does_not_count_is_named() -> None:
    intake = Intake()
    body = json.dumps([report(), report(type="ok"), report(type="dns.failed")]).encode()
    status, admitted = intake.request(request(body, path=REPORT_PATH), PEER, 0)
    assert status == 204 and admitted is not None
    assert [one.failure for one in admitted.failed] == ["tcp", "dns"]
    assert intake.counts == {"report-success": 1, "reports": 2}


@pytest.mark.parametrize("origin", ["http://a\x1b[2Jb", "http://a\xe9b", "http://a\x00b/", "http://[", "null"])
def test_a_site_of_strange_characters_is_none(origin: str) -> None:
    request = read(raw(json.dumps(OURS).encode(), f"User-Agent: Mozilla/5.0\r\nOrigin: {origin}\r\n"))[0]
    assert isinstance(request, HttpRequest)
    _, admitted = Intake().request(request, PEER, 1)
    assert admitted is not None and admitted.site == ""
