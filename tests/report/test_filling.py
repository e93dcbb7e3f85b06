# SPDX-License-Identifier: MIT
"""How far a measurement is: rarely in plain lines, each second as JSON, the time left only when it is known."""

from __future__ import annotations

import io
import json

from configtron.report.filling import Filling, Moment, lasting, left_s


def test_time_left_is_reported_from_the_cells_done_here() -> None:
    assert left_s(Moment(cells=100, done=4), 10) is None
    assert left_s(Moment(cells=100, done=0), 10) is None
    assert left_s(Moment(cells=100, done=20), 10) == 40
    # sixty were done by an earlier run, which took who knows how long
    assert left_s(Moment(cells=100, done=80, before=60), 10) == 10
    assert left_s(Moment(cells=100, done=60, before=60), 10) is None


def test_time_left_in_words() -> None:
    assert [lasting(seconds) for seconds in (None, 9.6, 119, 121, 7300)] == [
        "time left unknown", "10 s left", "119 s left", "0 h 02 min left", "2 h 02 min left",
    ]  # fmt: skip


def test_plain_lines_are_rare_and_status_lines_regular() -> None:
    now = [0.0]
    err, status = io.StringIO(), io.StringIO()
    with Filling("measurement 7", err, status=status, clock=lambda: now[0]) as filling:
        for second in range(26):
            now[0] = second
            filling.update(Moment(cells=100, done=4 * second, loads=8 * second))
        filling.update(Moment(cells=100, done=100, loads=200), last=True)
        filling.update(Moment(cells=100, done=100, loads=200), last=True)
    lines = err.getvalue().splitlines()
    assert lines == [
        "measurement 7: 40/100 cells, 80 loads, 15 s left, 10 s",
        "measurement 7: 80/100 cells, 160 loads, 5 s left, 20 s",
        "measurement 7: 100/100 cells, 200 loads, 0 s left, 25 s",
    ]
    rows = [json.loads(line) for line in status.getvalue().splitlines()]
    assert len(rows) == 28 and rows[10]["left_s"] == 15.0 and rows[0]["left_s"] is None
    assert rows[-1]["what"] == "measurement 7" and rows[-1]["loads"] == 200


def test_quiet_says_nothing() -> None:
    err = io.StringIO()
    with Filling("x", err, quiet=True) as filling:
        filling.update(Moment(cells=1, done=1), last=True)
        filling.say("no")
    assert err.getvalue() == ""
