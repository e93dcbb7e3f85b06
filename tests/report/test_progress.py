# SPDX-License-Identifier: MIT
"""How far a job is: plain lines rarely, status lines each second, a bar on a terminal; a time left that is known."""

from __future__ import annotations

import io
import json
import os
import pty
from typing import Any

import pytest

from configtron.report.progress import CampaignCounts, Moment, Progress, lasting

Steps = list[tuple[float, CampaignCounts | Moment]]


def shown(
    steps: Steps, last: CampaignCounts | Moment | None = None, **how: Any
) -> tuple[list[str], list[dict[str, Any]]]:
    """Plain and status lines of counts at these seconds, and of the last ones (twice: they are shown once)."""
    now, err, status = [100.0], io.StringIO(), io.StringIO()
    with Progress("run 1", err, status=status, clock=lambda: now[0], **how) as progress:
        for at_s, counts in steps:
            now[0] = 100.0 + at_s
            progress.update(counts)
        for _ in range(2 * (last is not None)):
            progress.update(last, last=True)  # type: ignore[arg-type]
    return err.getvalue().splitlines(), [json.loads(line) for line in status.getvalue().splitlines()]


def test_plain_lines_come_now_and_then_and_last() -> None:
    lines, _ = shown([(s, CampaignCounts(100, s, 3 * s, 1)) for s in range(25)], CampaignCounts(100, 100, 300, 1))
    assert len(lines) == 4
    assert lines[-1] == "run 1: 100/100 targets, 300 connections, 1 without answer, 24 s"


def test_status_lines_come_each_second_and_quiet_says_nothing_else() -> None:
    lines, rows = shown([(tick / 10, CampaignCounts(10, tick)) for tick in range(40)], quiet=True)
    assert lines == [] and [row["elapsed_s"] for row in rows] == [0, 1, 2, 3]
    assert rows[1] == {"elapsed_s": 1, "what": "run 1", "total": 10, "done": 10, "calls": 0, "failed": 0, "steps": 0}
    err = io.StringIO()
    with Progress("run 1", err, quiet=True) as progress:
        progress.say("hello")
    assert err.getvalue() == ""


def test_it_moves_by_connections_and_says_what_is_left() -> None:
    """Targets that are probed together end together: 0/100 for most of the run, though half of it is done."""
    steps: Steps = [(s, CampaignCounts(100, 0, 13 * s, 0, 1300)) for s in range(0, 50, 10)]
    lines, _ = shown([*steps, (100, CampaignCounts(100, 100, 1250, 0, 1300))], CampaignCounts(100, 100, 1250, 0, 1300))
    assert lines[0].endswith("0 s") and "left" not in lines[0]
    assert lines[2].endswith("0/100 targets, 260 of about 1300 connections, 0 without answer, 20 s, about 80 s left")
    assert "left" not in lines[-1]


def test_no_time_left_where_the_last_connections_are_the_slow_ones() -> None:
    """A half-open connection is waited for, for two minutes: 12 of 13 connections are not 12/13 of the time."""
    lines, _ = shown([(s, CampaignCounts(1, 0, 12 if s < 75 else 13, 1, 13)) for s in range(130)])
    assert len(lines) == 13 and "left" not in " ".join(lines)


def test_an_estimate_never_ends_the_run() -> None:
    assert CampaignCounts(10, 0, 400, 0, 100).share < 1 and CampaignCounts(10, 10, 90, 0, 100).share == 1
    assert CampaignCounts(10, 5).share == 0.5 and CampaignCounts().share == 0
    shares = [CampaignCounts(10, 0, calls, 0, 100).share for calls in range(0, 300, 7)]
    assert shares == sorted(shares) and len(set(shares)) > 10


def test_a_measurement_counts_cells_and_says_when_it_ends() -> None:
    steps: Steps = [(s, Moment(cells=100, done=4 * s, loads=8 * s)) for s in range(26)]
    lines, rows = shown(steps, Moment(cells=100, done=100, loads=200), counted=True)
    assert lines == [
        "run 1: 40/100 cells, 80 loads, 15 s left, 10 s",
        "run 1: 80/100 cells, 160 loads, 5 s left, 20 s",
        "run 1: 100/100 cells, 200 loads, 0 s left, 25 s",
    ]
    assert len(rows) == 28 and rows[10]["left_s"] == 15.0 and rows[0]["left_s"] is None
    assert rows[-1]["what"] == "run 1" and rows[-1]["loads"] == 200


@pytest.mark.parametrize(("done", "before", "left_s"), [
    (4, 0, None), (0, 0, None), (20, 0, 40),
    # sixty were done by an earlier run, which took who knows how long
    (80, 60, 10), (60, 60, None),
])  # fmt: skip
def test_time_left_is_reported_from_the_cells_done_here(done: int, before: int, left_s: float | None) -> None:
    assert Moment(cells=100, done=done, before=before).left_s(10) == left_s


def test_time_left_in_words() -> None:
    assert [lasting(seconds) for seconds in (None, 9.6, 119, 121, 7300)] == [
        "time left unknown", "10 s left", "119 s left", "0 h 02 min left", "2 h 02 min left",
    ]  # fmt: skip


@pytest.mark.parametrize("counts", [CampaignCounts(10, 4, 12, 0), Moment(cells=10, done=4)])
def test_a_terminal_gets_a_bar(counts: CampaignCounts | Moment) -> None:
    main, other = pty.openpty()
    with os.fdopen(other, "w") as err:
        with Progress("run 1", err, counted=isinstance(counts, Moment)) as progress:
            progress.say("[kernel] ready")
            progress.update(counts, last=True)
        err.flush()
        text = ""
        # A pseudo-terminal hands its text over in pieces.
        while "[kernel] ready" not in text or "4/10" not in text:
            text += os.read(main, 65536).decode()
    os.close(main)
    assert "run 1" in text
