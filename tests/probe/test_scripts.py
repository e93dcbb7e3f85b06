# SPDX-License-Identifier: MIT
"""The scripts against a server in virtual time: every verdict is known beforehand, and replays to the same bytes."""

from __future__ import annotations

from typing import Any

import pytest

from configtron.fingerprint.merge import merge
from configtron.probe.profiles import CLEAR
from tests.support.fake_server import FakeServer
from tests.support.played import seen


@pytest.mark.parametrize(("mss", "icw"), [(64, 100), (536, 1), (536, 2), (536, 10), (1460, 1), (1460, 32)])
@pytest.mark.parametrize("sack", [False, True])
@pytest.mark.parametrize("header", [0, 240])
def test_icw_is_exact_on_a_page_that_is_long_enough(mss: int, icw: int, sack: bool, header: int) -> None:
    settings: Any = {"icw": icw, "sack": True, "page": 200_000, "header": header}
    found = seen("icw", FakeServer(**settings), mss=mss, sack=sack, wscale=7)
    assert (found["icw"].value, found["icw"].grade) == (icw, "C" if sack else "L"), found["icw"]
    # A burst that ends in a short segment may have been all that the server had to say yet.
    short = header and icw == -(-header // mss) and header % mss
    assert found["icw"].detail("proof") == ("edge" if sack else "short-end" if short else "after-timer")
    found = seen("icw", FakeServer(**settings), mss=mss, sack=sack, wscale=7, early=True)
    assert (found["icw"].value, found["icw"].detail("proof")) == (icw, "short-end" if short else "before-timer")


@pytest.mark.parametrize(
    ("page", "closes", "params", "window", "grade"),
    [
        # a page no longer than the window gives a bound, one byte more is proof
        *((segments * 536, closes, {}, segments, "L") for segments in (1, 3, 9, 10) for closes in (True, False)),
        (10 * 536 + 1, True, {"early": True}, 10, "C"),
    ],
)
def test_a_page_that_ends_is_no_window(
    page: int, closes: bool, params: dict[str, Any], window: int, grade: str
) -> None:
    found = seen("icw", FakeServer(icw=10, page=page, closes=closes), **params)["icw"]
    assert (found.value, found.grade) == (window, grade)


def thinking(think_s: float, after: int, **settings: Any) -> FakeServer:
    return FakeServer(icw=10, sack=True, think_after=after * 536, think_s=think_s, header=after * 536, **settings)


@pytest.mark.parametrize("think_s", [0.2, 0.9, 2.5])
@pytest.mark.parametrize("params", [{}, {"sack": True}, {"early": True}])
def test_one_run_does_not_overclaim_a_server_that_pauses(think_s: float, params: dict[str, Any]) -> None:
    found = seen("icw", thinking(think_s, 4, rto_min_s=9.0), **params)
    assert found["icw"].value == 10 or found["icw"].grade == "L", found["icw"]


@pytest.mark.parametrize("think_ms", [20, 60, 180, 220, 400, 900])
@pytest.mark.parametrize("after", [1, 4])
def test_no_verdict_overclaims_a_server_that_pauses(think_ms: int, after: int) -> None:
    """A pause may look like one round trip, by chance, in one run; not in all the runs of a profile."""
    rows = [dict(params) for probe, params in CLEAR["standard"] if probe == "icw"]
    trials = [seen("icw", thinking(think_ms / 1000, after), **{**row, "mss": 536})["icw"] for row in rows]
    verdict = merge(trials)
    assert verdict.value == 10 or verdict.grade in ("C", "L"), [(t.text, t.detail("proof")) for t in trials]


@pytest.mark.parametrize("drop", [{4}, {1, 5}, {9}, {8, 9}, {0}, {3, 9}])
def test_lost_segments_are_counted_up_to_the_probe(drop: set[int]) -> None:
    """The start of the tail loss probe is the edge of the window, whatever was lost before it."""
    found = seen("icw", FakeServer(icw=10, sack=True, drop=frozenset(drop)), sack=True)
    assert (found["icw"].value, found["icw"].detail("proof")) == (10, "edge")


@pytest.mark.parametrize(
    ("settings", "reason"), [({"silent": True}, "no-synack"), ({"refuse": True}, "refused"), ({"page": 0}, "no-data")]
)
def test_failures_are_named(settings: dict[str, Any], reason: str) -> None:
    assert seen("icw", FakeServer(**settings))["icw"].reason == reason
