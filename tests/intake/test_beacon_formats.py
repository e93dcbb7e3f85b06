# SPDX-License-Identifier: MIT
"""Beacons, log lines and error reports: what each form reads as, and a case for every reason of a rejection."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.intake.pageloads import reasons
from configtron.intake.pageloads.beacon_formats import LCP, PLT, PageLoad, load_fault, page_load
from configtron.intake.pageloads.error_reports import FailedLoad, failed_loads
from configtron.intake.pageloads.log_lines import RequestLine, request_line
from tests.support.pageloads import BOOMERANG, OURS, TOKEN, report

TTFB = {
    "name": "TTFB", "value": 90.0, "id": "v5-1", "navigationType": "navigate",
    "entries": [{"connectStart": 5, "connectEnd": 45.5, "requestStart": 46, "responseStart": 90, "loadEventEnd": 400.5,
                 "activationStart": 0, "nextHopProtocol": "h2",
                 "serverTiming": [{"name": "db", "description": ""}, {"name": "ct", "description": TOKEN}]}],
}  # fmt: skip


def read(given: dict[str, Any], metric: str = PLT) -> PageLoad | str:
    return page_load(json.dumps(given).encode(), metric=metric)


def fault(given: dict[str, Any], metric: str = PLT) -> str:
    found = read(given, metric)
    return found if isinstance(found, str) else load_fault(found)


def test_our_beacon() -> None:
    assert read(OURS) == PageLoad("a1", TOKEN, 400.5, 5.0, 45.5, 46.0, 90.0, None, 0.0, "navigate", protocol="h2")
    assert fault(OURS) == ""
    assert page_load(json.dumps(OURS).encode(), metric=LCP)[2] == 300.0


def test_boomerang_as_a_form_a_query_and_json() -> None:
    want = PageLoad("x7", TOKEN, 400.0, 5.0, 45.0, 46.0, 90.0, None, 0.0, "navigate", protocol="h2")
    assert page_load(urlencode(BOOMERANG).encode()) == want
    assert page_load(b"", urlencode(BOOMERANG)) == want
    assert read(BOOMERANG) == want and load_fault(want) == ""


def test_web_vitals() -> None:
    assert read(TTFB) == PageLoad("v5-1", TOKEN, 400.5, 5.0, 45.5, 46.0, 90.0, None, 0.0, "navigate", protocol="h2")
    lcp = {"name": "LCP", "value": 310.0, "id": "v5-2", "navigationType": "reload", "ct": TOKEN, "entries": []}
    assert read(lcp, LCP) == PageLoad("v5-2", TOKEN, 310.0, navigation="reload")


def changed(**fields: Any) -> dict[str, Any]:
    return OURS | fields


FAULTS: dict[str, list[dict[str, Any]]] = {
    "unreadable": [changed(t=7), changed(le=True), changed(nt="x" * 99), {"anything": 1},
                   BOOMERANG | {"http.initiator": "xhr"}],
    "other-metric": [TTFB | {"name": "CLS"}],
    "prerender": [changed(nt="prerender"), changed(**{"as": 120.0}), BOOMERANG | {"nt_act_st": "1700000000100"}],
    "hidden": [changed(hh=0), changed(hh=399), changed(hh=0, le=0, w="hide"), BOOMERANG | {"vis.st": "hidden"}],
    "discarded": [changed(dw=1), TTFB | {"navigationType": "restore"}],
    "bfcache": [changed(pc=1), changed(nt="back_forward"), TTFB | {"navigationType": "back-forward-cache"}],
    "clock": [changed(qs=-1), changed(ps=3), changed(le=1e400), changed(le=float("nan")), changed(hh=-5),
              BOOMERANG | {"nt_req_st": "1699999999000"}],
    "too-long": [changed(le=9999999999999)],
    "no-load-end": [changed(le=0), changed(le=None)],
}  # fmt: skip


def test_each_fault_is_named() -> None:
    for reason, beacons in FAULTS.items():
        assert [fault(one) for one in beacons] == [reason] * len(beacons)
    # of the request's head, not of its body: tests/service/outcomes
    assert FAULTS.keys() == set(reasons.BEACONS) - {"opted-out", "program", "test-beacon"}


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_body_is_a_load_or_a_reason(body: bytes) -> None:
    found = page_load(body)
    assert isinstance(found, PageLoad) or found in reasons.BEACONS


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([OURS, BOOMERANG, TTFB]), st.data())
def test_any_field_may_be_anything(beacon: dict[str, Any], data: st.DataObject) -> None:
    spoilt = dict(beacon)
    for name in data.draw(st.lists(st.sampled_from(sorted(beacon)), max_size=4)):
        spoilt[name] = data.draw(JSON)
    assert fault(spoilt) in {"", *reasons.BEACONS}


@given(st.data())
def test_any_part_of_a_navigation_s_entry_may_be_anything(data: st.DataObject) -> None:
    """A text in the place of a server timing raised AttributeError, which ended the connection with a traceback."""
    entry = dict(TTFB["entries"][0])  # type: ignore[index]
    entry[data.draw(st.sampled_from(sorted(entry)))] = data.draw(JSON)
    timings = data.draw(st.just(entry["serverTiming"]) | st.lists(JSON, max_size=2) | JSON)
    assert fault(TTFB | {"entries": [entry | {"serverTiming": timings}]}) in {"", *reasons.BEACONS}


@pytest.mark.parametrize("timings", [["x"], {"ct": "x"}, "ct", 7, [["ct"]], [None]])
def test_server_timings_of_another_kind_bring_no_token(timings: Any) -> None:
    found = read(TTFB | {"entries": [{"loadEventEnd": 400.5, "serverTiming": timings}]})
    assert isinstance(found, PageLoad) and found.token == ""


ODD: list[Any] = [
    0, 1, 2, -0.0, -1, 400, 400.5, 1e308, 10**400, float("nan"), float("inf"), True, None, "1", "", "load", "hide",
    "x" * 40, "x" * 41, "x" * 65, "\x07", "\x7f", "\xe9", "\ud800", [], {},
]  # fmt: skip


@pytest.mark.parametrize("metric", [PLT, LCP])
@pytest.mark.parametrize("name", sorted(OURS))
def test_a_script_s_body_reads_the_same_at_once_and_field_by_field(name: str, metric: str) -> None:
    for value in ODD:
        spoilt = OURS | {name: value}
        # the script writes no other field: such a body is read field by field
        one, other = (repr(read(body, metric)).replace(".0", "") for body in (spoilt, spoilt | {"other": 0}))
        assert one == other
    # what is not read must be readable, too
    assert page_load(json.dumps(OURS).encode()[:-1] + b', "other": "\xff"}') == "unreadable"
    bare = {other: OURS[other] for other in OURS if other != name}
    assert read(bare | {"other": 0}, metric) == read(bare, metric)


NGINX = f"ctn {TOKEN} 192.0.2.1 443 198.51.100.9 50123 1700000000.250 0.050 1 77 31250 www.example.org"


def test_lines_of_the_three_servers() -> None:
    client = bytes([198, 51, 100, 9])
    times = 1700000000200000000, 1700000000250000000
    want = RequestLine(TOKEN, 443, client, 50123, *times, 1, "77", 31250, "www.example.org")
    for line in (
        f"<190>Nov 20 10:00:00 nginx: {NGINX}",
        f"cta {TOKEN} 192.0.2.1 443 198.51.100.9 50123 1700000000250000 50000 0 77 31250 WWW.example.org",
        f"<134>Nov 20 10:00:00 haproxy[7]: cth {TOKEN} 192.0.2.1 443 ::ffff:198.51.100.9 50123 1700000000250000 50 1 77"
        " 31250 www.example.org\n",
    ):
        assert request_line(line.encode()) == want
    six = NGINX.replace("198.51.100.9", "2001:db8::7").replace(" 1 77 31250 www", " - - - www")
    found = request_line(six.encode())
    assert isinstance(found, RequestLine)
    assert found.client == bytes.fromhex("20010db8" + "0" * 23 + "7")
    assert (found.number, found.connection, found.rtt_us) == (0, "", 0)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("GET / HTTP/1.1", "line-unreadable"), (NGINX + " more", "line-unreadable"),
        (NGINX + "x" * 1024, "line-unreadable"), (NGINX.replace("0.050", "-1"), "line-unreadable"),
        (NGINX.replace("198.51.100.9", "198.51.100.256"), "line-unreadable"),
        (NGINX.replace("1700000000.250", "nan"), "line-unreadable"),
        (NGINX.replace("1700000000.250", "1e400"), "line-unreadable"),
        (NGINX.replace("31250", "9" * 30), "line-unreadable"),
        (NGINX.replace("www.example.org", "www\x1b[2J"), "line-unreadable"),
        (NGINX.replace(TOKEN, "-"), "line-without-token"), (NGINX.replace("50123", "0"), "line-proxied"),
    ],
)  # fmt: skip
def test_lines_that_are_none(line: str, reason: str) -> None:
    assert request_line(line.encode()) == reason and reason in reasons.LINES


@given(st.binary(max_size=200), st.integers(0, 11), st.text(max_size=30))
def test_any_datagram_is_a_line_or_a_reason(noise: bytes, at: int, word: str) -> None:
    words = NGINX.split(" ")
    words[at] = word
    for data in (noise, b"ctn " + noise, " ".join(words).encode()):
        found = request_line(data)
        assert isinstance(found, RequestLine) or found in reasons.LINES


def test_error_reports() -> None:
    body = [report(), report(type="dns.name_not_resolved", sampling_fraction=1), report(type="abandoned")]
    expected = [("tcp", 2.0), ("dns", 1.0), ("abandoned", 2.0)]
    assert failed_loads(json.dumps(body).encode()) == [FailedLoad(what, 1500.0, 900.0, weight, "h2")
                                                       for what, weight in expected]  # fmt: skip


@pytest.mark.parametrize("protocol", ["\ud800", "\x1b[2J", "\0", "\xe9", 7, None, ["h2"]])
def test_a_protocol_that_is_no_word_is_left_out_and_the_failure_counts(protocol: Any) -> None:
    """Half of a character went on to the database, which refused it: one report ended `learn serve --local`."""
    (found,) = failed_loads(json.dumps(report(protocol=protocol)).encode())
    assert isinstance(found, FailedLoad) and found.failure == "tcp"
    assert found.protocol.isascii() and (found.protocol.isprintable() or not found.protocol)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"type": "csp-violation"}, "report-unreadable"), (report(type="made.up"), "report-unreadable"),
        (report(sampling_fraction=0), "report-unreadable"), (report(sampling_fraction="x"), "report-unreadable"),
        (report(elapsed_time=-1), "report-unreadable"), (7, "report-unreadable"),
        (report(sampling_fraction=0.001), "report-rare"), (report(elapsed_time=7_200_000), "report-old"),
        (report(type="ok"), "report-success"), (report(type="http.error"), "report-server"),
    ],
)  # fmt: skip
def test_reports_that_do_not_count(given: Any, reason: str) -> None:
    assert failed_loads(json.dumps(given).encode()) == [reason] and reason in reasons.REPORTS
    assert failed_loads(json.dumps([given] * 66).encode()) == [reason] * 64 + ["report-overflow"] * 2


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_report_is_read(body: bytes) -> None:
    assert all(isinstance(one, FailedLoad) or one in reasons.REPORTS for one in failed_loads(body))
