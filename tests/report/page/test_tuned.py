# SPDX-License-Identifier: MIT
"""The page of a tuned server: what agrees, what is marked, what is drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from configtron.model.nouns import Observation, Packet, Target, Trace
from configtron.report.page.markup import written
from configtron.report.page.sequence import SequenceRun, points, sequence
from configtron.report.page.tuned import Scene, Sight, Subject, TunedPage, page
from tests.support.headless import HeadlessPage, looked_at
from tests.support.tiny_run import segments

WANTED = ("bbr", 4)


def trace(window: int) -> Trace:
    packets = tuple(Packet(at, way, segment, n) for n, (at, way, segment) in enumerate(segments(window)))
    return Trace(f"seen/{window}", Target("server"), "client", "rwin", packets=packets)


def sight(window: int, congestion: str = "bbr", grade: str = "C") -> Sight:
    evidence = tuple(range(3, 3 + window))
    return Sight(WANTED, congestion, Observation("icw", window, grade=grade, evidence=evidence), trace(window))


def shown(seen: Sight, left: tuple[str, ...] = ()) -> str:
    subjects = [Subject("cable", "198.51.100.0/24", 20, "bbr 4")]
    scene = Scene("route", (("configtron tune apply", "<done>"),), left)
    by_gateway = [["of", "cable"], ["route", "bbr"]]
    return page(TunedPage("lead", subjects, ["route"], {"route": {"cable": seen}}, [scene], by_gateway))


def test_only_an_exact_window_with_its_congestion_control_agrees() -> None:
    assert sight(4).agrees and sight(4).seen == "bbr 4"
    assert not sight(5).agrees
    assert not sight(4, "cubic").agrees
    assert not sight(4, grade="L").agrees
    unread = Sight(WANTED, "bbr", Observation("icw", reason="no-data", grade="N"), trace(4))
    assert not unread.agrees and unread.seen == "bbr - (no-data)"


def test_what_differs_is_marked_and_what_was_left_is_reported() -> None:
    good, bad = shown(sight(4)), shown(sight(10), ("routes: left behind: 1",))
    assert "t-hit" not in good.partition("</style>")[2] and "nothing was left behind" in good
    assert '<b class="t-hit">bbr 10</b> wanted bbr 4' in bad
    assert "1 things were left behind" in bad and "routes: left behind: 1" in bad
    assert "4 segments, 400 bytes" in good and "10 segments, 1000 bytes" in bad
    assert "&lt;done&gt;" in good and "<done>" not in good


def test_points_count_from_the_request_in_round_trips() -> None:
    # The request at 0.02 s, the flight a round trip later, its repeat beyond the plot.
    assert points(trace(2), 0.02) == [(1.0, 100), (1.0, 200)]
    late = replace(trace(1), packets=tuple(p._replace(at=p.at * 1000) for p in trace(1).packets))
    assert points(late, 0.02) == []


def test_a_larger_flight_stands_higher() -> None:
    drawn = written(sequence([SequenceRun("untouched", trace(2)), SequenceRun("route", trace(8))], 0.02, "cable"))
    assert drawn.count("<circle") == 2 + 8
    assert "untouched 2 segments, 200 bytes in the first round trip" not in drawn
    assert "cable: untouched 0 segments" in drawn


@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_of_a_tuned_server(tmp_path: Path, width: int) -> None:
    (tmp_path / "t.html").write_text(shown(sight(10)))
    with HeadlessPage(tmp_path / "t.html", width) as page:
        assert looked_at(page, width) == []
