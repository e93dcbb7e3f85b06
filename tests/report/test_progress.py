# SPDX-License-Identifier: MIT
import io
import json
import os
import pty

from configtron.report.progress import CampaignCounts, Progress


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines_come_now_and_then_and_last() -> None:
    err, clock = io.StringIO(), Clock()
    with Progress("run 1", err, clock=clock) as progress:
        for second in range(25):
            clock.now = 100.0 + second
            progress.update(CampaignCounts(100, second, 3 * second, 1))
        progress.update(CampaignCounts(100, 100, 300, 1), last=True)
    lines = err.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1] == "run 1: 100/100 targets, 300 connections, 1 without answer, 24 s"


def test_status_lines_come_each_second() -> None:
    status, clock = io.StringIO(), Clock()
    with Progress("run 1", io.StringIO(), quiet=True, status=status, clock=clock) as progress:
        for tick in range(40):
            clock.now = 100.0 + tick / 10
            progress.update(CampaignCounts(10, tick))
    lines = [json.loads(line) for line in status.getvalue().splitlines()]
    assert [line["elapsed_s"] for line in lines] == [0, 1, 2, 3]
    assert lines[1]["done"] == 10 and lines[1]["total"] == 10


def test_it_moves_by_connections_and_says_what_is_left() -> None:
    """Targets that are probed together end together: 0/100 for most of the run, though half of it is done."""
    err, clock = io.StringIO(), Clock()
    with Progress("run 1", err, clock=clock) as progress:
        for second in range(0, 50, 10):
            clock.now = 100.0 + second
            progress.update(CampaignCounts(100, 0, 13 * second, 0, 1300))
        clock.now = 200.0
        progress.update(CampaignCounts(100, 100, 1250, 0, 1300), last=True)
    lines = err.getvalue().splitlines()
    assert lines[0].endswith("0 s") and "left" not in lines[0]
    assert lines[2].endswith("0/100 targets, 260 of about 1300 connections, 0 without answer, 20 s, about 80 s left")
    assert "left" not in lines[-1]


def test_no_time_left_where_the_last_connections_are_the_slow_ones() -> None:
    """A half-open connection is waited for, for two minutes: 12 of 13 connections are not 12/13 of the time."""
    err, clock = io.StringIO(), Clock()
    with Progress("run 1", err, clock=clock) as progress:
        for second in range(130):
            clock.now = 100.0 + second
            progress.update(CampaignCounts(1, 0, 12 if second < 75 else 13, 1, 13))
    assert len(err.getvalue().splitlines()) == 13 and "left" not in err.getvalue()


def test_an_estimate_never_ends_the_run() -> None:
    assert CampaignCounts(10, 0, 400, 0, 100).share < 1 and CampaignCounts(10, 10, 90, 0, 100).share == 1
    assert CampaignCounts(10, 5).share == 0.5 and CampaignCounts().share == 0
    shares = [CampaignCounts(10, 0, calls, 0, 100).share for calls in range(0, 300, 7)]
    assert shares == sorted(shares) and len(set(shares)) > 10


def test_quiet_is_quiet() -> None:
    err = io.StringIO()
    with Progress("run 1", err, quiet=True) as progress:
        progress.say("hello")
        progress.update(CampaignCounts(), last=True)
    assert err.getvalue() == ""


def test_a_terminal_gets_a_bar() -> None:
    main, other = pty.openpty()
    with os.fdopen(other, "w") as err:
        with Progress("run 1", err, color=False) as progress:
            progress.say("[kernel] ready")
            progress.update(CampaignCounts(10, 4, 12, 0), last=True)
        err.flush()
        shown = ""
        # A pseudo-terminal hands its text over in pieces.
        while "[kernel] ready" not in shown or "4/10" not in shown:
            shown += os.read(main, 65536).decode()
    os.close(main)
    assert "run 1" in shown


def test_a_terminal_without_colours_gets_plain_lines() -> None:
    """A bar moves the cursor: that is escapes too."""

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    err = Screen()
    with Progress("run 1", err, color=False) as progress:
        progress.update(CampaignCounts(4, 4, 4, 0), last=True)
    assert err.getvalue().startswith("run 1: 4/4 targets") and "\x1b" not in err.getvalue()
