# SPDX-License-Identifier: MIT
"""The configurations of docs/learn.md in real servers: page, token, log line, connection, beacon, row."""

from __future__ import annotations

import http.client
import json
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from configtron.intake.receiving.ended_sockets import EndedSockets
from configtron.lab.testbed import browser
from configtron.model.errors import Missing
from tests.support import real_servers
from tests.support.real_servers import absent, running
from tests.support.running_outcomes import RunningOutcomes, running_outcomes
from tests.support.waiting import until

AGENT = "Mozilla/5.0 (X11; Linux x86_64) Chrome/140"


@pytest.fixture(params=["nginx", "haproxy", "apache"])
def server(request: pytest.FixtureRequest) -> str:
    if reason := absent(request.param):
        pytest.skip(reason)
    return str(request.param)


SOON_NS = 200_000_000


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder that a server's unprivileged processes reach."""
    with tempfile.TemporaryDirectory(prefix="outcomes-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def serving(server: str, folder: Path, patch: pytest.MonkeyPatch, *text: str) -> Iterator[tuple[RunningOutcomes, int]]:
    """Yield outcomes and the port of a server whose lines and connections they get; text: of its page."""
    log, port = folder / "log", real_servers.free_port()
    patch.setattr(real_servers, "free_port", lambda: port)
    source = EndedSockets((port,))
    with running_outcomes(log, source, settle_ns=SOON_NS) as outcomes:
        with running(server, folder, log, outcomes.port, *text) as at:
            # connections of the first list began before the reader, as far as it knows
            until(lambda: source._listed_ns > 0)
            yield outcomes, at
    source.close()


@pytest.fixture
def site(server: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[RunningOutcomes, int]]:
    with serving(server, folder, monkeypatch) as found:
        yield found


def page(to: http.client.HTTPConnection, path: str = "/index.html") -> str:
    """Ask for a page; return its token, "" without one."""
    to.request("GET", path, headers={"Host": "localhost", "User-Agent": AGENT})
    response = to.getresponse()
    response.read()
    assert response.status == 200
    found = re.fullmatch(r'ct;desc="([^"]+)"', response.headers.get("Server-Timing", ""))
    return found[1] if found else ""


def send_beacon(port: int, token: str, value_ms: float = 300.0, identity: str = "a") -> int:
    to = http.client.HTTPConnection("127.0.0.1", port)
    body = json.dumps({"v": 1, "id": identity, "t": token, "w": "load", "qs": 1.0, "ps": 2.0, "le": value_ms})
    to.request("POST", "/configtron/beacon", body, {"User-Agent": AGENT, "Origin": "http://localhost"})
    status = to.getresponse().status
    to.close()
    return status


@pytest.mark.slow
def test_a_page_becomes_a_row(site: tuple[RunningOutcomes, int]) -> None:
    outcomes, port = site
    to = http.client.HTTPConnection("127.0.0.1", port)
    first = page(to)
    page(to, "/object.txt")
    second = page(to)
    assert first and second and first != second
    time.sleep(0.4)
    assert [send_beacon(port, token, 300.0 + at, str(at)) for at, token in enumerate((first, second))] == [204, 204]
    to.close()
    outcomes.wait(lambda: outcomes.counts()["accepted"] + outcomes.counts()["too-often"] == 2)
    row = next(row for row in outcomes.rows if row.plt_ms == 300.0)
    assert (row.agent, row.site, row.prefix, row.device) == ("web1", "localhost", "127.0.0.0/24", "computer")
    assert (row.class_name, row.arm, row.profile, row.propensity, row.map_version) == ("all", 1, "wide", 0.75, 7)
    assert (row.teaches, row.why_not) == (True, "")
    assert abs(row.at_ns - time.time_ns()) < 60_000_000_000
    assert 0 < (row.rtt_ms or 0) < 100
    for row in outcomes.rows:
        if row.plt_ms == 301.0:
            assert (row.teaches, row.why_not) == (False, "reused-connection")


@pytest.mark.slow
def test_connections_that_close_at_once_join_too(site: tuple[RunningOutcomes, int]) -> None:
    """A look-up at the line's arrival would find the listener for many of these."""
    outcomes, port = site
    for number in range(40):
        to = http.client.HTTPConnection("127.0.0.1", port)
        to.request("GET", "/index.html", headers={"Connection": "close", "User-Agent": AGENT})
        response = to.getresponse()
        response.read()
        token = re.search(r'"(.+)"', response.headers["Server-Timing"])
        assert token
        to.close()
        # a busy machine reads late, and the kernel queues 10 lines
        outcomes.wait(partial(has_line, outcomes, token[1]))
        send_beacon(port, token[1], 3.0 + number, str(number))
    outcomes.wait(lambda: outcomes.counts()["accepted"] == 40)
    assert {row.plt_ms for row in outcomes.rows} == {3.0 + number for number in range(40)}
    assert sum(row.teaches for row in outcomes.rows) == 20, "one client may teach so often"


def has_line(outcomes: RunningOutcomes, token: str) -> bool:
    """Return whether the line of a token has come."""
    join = outcomes.local.reader.join
    return join._seen.get(token) is not None or any(line.token == token for _, _, line in list(join._waiting))


SCRIPT_PAGE = """<!doctype html><title>page</title><script src="/configtron/beacon.js" async></script>
<p>text</p><img src="/object.txt">"""


@pytest.mark.slow
def test_a_real_browser_reports_its_load(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := absent("nginx"):
        pytest.skip(reason)
    try:
        browser.program()
    except Missing as error:
        pytest.skip(str(error))
    with serving("nginx", folder, monkeypatch, SCRIPT_PAGE) as (outcomes, port):
        with browser.Browser([], {}, http="http/1.1", netns="") as chromium:
            target = chromium._call("Target.createTarget", {"url": "about:blank"})["targetId"]
            session = chromium._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
            # a headless browser names itself, and programs are no visitors
            chromium._call("Network.setUserAgentOverride", {"userAgent": AGENT}, session)
            chromium._call("Page.navigate", {"url": f"http://127.0.0.1:{port}/index.html"}, session)
            outcomes.wait(lambda: len(outcomes.rows) == 1)
            chromium._call("Target.closeTarget", {"targetId": target})
            outcomes.wait(lambda: outcomes.counts()["beacons"] >= 2)
    (row,) = outcomes.rows
    assert row.plt_ms is not None and 1 < row.plt_ms < 20_000
    assert (row.site, row.device, row.protocol, row.teaches) == ("127.0.0.1", "computer", "http/1.1", True)
    counts = outcomes.counts()
    assert (counts["accepted"], counts["beacons"]) == (1, 2), "at the load event, and again when the page was closed"
    assert counts["again"] + counts["used-token"] == 1
