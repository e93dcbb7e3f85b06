# SPDX-License-Identifier: MIT
"""Pages that are visited again, and servers that take time: on the loopback byte by byte, in guests by their effect."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from configtron.lab.testbed import loads
from configtron.lab.testbed.families import named
from configtron.lab.testbed.pages import PageObject
from configtron.lab.testbed.shard import visit_of
from tests.lab.testbed.test_kept_connections import DOCUMENT, Kept, context, loaded
from tests.lab.testbed.test_realism import filled, plts

__all__ = ["context"]
pytestmark = pytest.mark.root
# Linux waits so long for a second segment (TCP_DELACK_MIN), and a few ms by the tick.
DELAYED_ACK_MS = 50
THINGS = (DOCUMENT, PageObject("/p/a.png", 500, "image", parent=0, offset=2000))


def test_a_warm_visit_asks_on_the_connection_of_the_first(context: ssl.SSLContext) -> None:
    asked: list[str] = []
    times: list[float] = []

    def serve(next_one: Callable[[], Kept]) -> None:
        only = next_one()
        for size in (4000, 500, 4000, 500):
            asked.append(only.asked())
            times.append(time.monotonic())
            only.answer(size)

    found = loaded(THINGS, serve, context, f"{loads.WARM}:1.5")
    assert (found.failed, found.connections, found.connect_ms) == ("", 0, 0.0)
    assert asked == ["/p/index.html", "/p/a.png"] * 2
    assert times[2] - times[1] >= 1.5 and found.plt_ms < 1000


@pytest.mark.parametrize("visit", [loads.RESUMED, loads.FIRST])
def test_a_resumed_visit_goes_on_with_the_tls_session(context: ssl.SSLContext, visit: str) -> None:
    context.num_tickets = 2
    resumed: list[bool] = []

    def serve(next_one: Callable[[], Kept]) -> None:
        for _ in range(2 if visit == loads.RESUMED else 1):
            one = next_one()
            for size in (4000, 500):
                one.asked()
                one.answer(size)
            resumed.append(one.resumed)

    found = loaded(THINGS, serve, context, visit)
    assert found.failed == "" and found.connections == 1
    assert resumed == ([False, True] if visit == loads.RESUMED else [False]) and found.resumed == resumed.count(True)


def test_a_first_visit_that_fails_is_the_loads_failure(context: ssl.SSLContext) -> None:
    def serve(next_one: Callable[[], Kept]) -> None:
        first = next_one()
        first.asked()
        first.answer(4000, less=100)
        first.close()

    assert loaded((DOCUMENT,), serve, context, loads.RESUMED).failed == "closed"


def test_conditions_name_the_visit() -> None:
    names = {"": loads.FIRST, ",resumed=1": loads.RESUMED, ",warm=4": f"{loads.WARM}:4.0"}
    assert {option: visit_of(named(f"link:20/60/1{option}")) for option in names} == names


@pytest.mark.lab
def test_a_server_that_thinks_answers_so_much_later(tmp_path: Path) -> None:
    """One object: one answer; a page of 22 in two steps at least waits twice. A delayed ACK may vanish meanwhile."""
    for site, answers in (("search", 1), ("reference", 2)):
        plain, late = (filled(tmp_path / f"{site}{n}", f"link:20/60/1{option}", site)
                       for n, option in enumerate(("", ",think=500")))  # fmt: skip
        more = [after - before for before, after in zip(plts(plain), plts(late), strict=True)]
        assert all(500 * answers - DELAYED_ACK_MS - 1 <= one for one in more), (site, more)
        assert answers > 1 or max(more) < 500 + DELAYED_ACK_MS


@pytest.mark.lab
def test_a_warm_connection_saves_both_handshakes(tmp_path: Path) -> None:
    """TCP's and TLS 1.3's round trips of 100 ms; and a resumed session saves neither."""
    first, warm, resumed = (filled(tmp_path / str(n), f"link:20/100/1{option}", "search")
                            for n, option in enumerate(("", ",warm=1", ",resumed=1")))  # fmt: skip
    saved = [before - after for before, after in zip(plts(first), plts(warm), strict=True)]
    assert len(saved) == 2 and all(one >= 200 - DELAYED_ACK_MS for one in saved), saved
    assert plts(resumed) == pytest.approx(plts(first), abs=DELAYED_ACK_MS + 5)
