# SPDX-License-Identifier: MIT
"""How fast, and how long still: by a clock that the test holds."""

from __future__ import annotations

from configtron.report.pace import JobPace


def test_it_reports_now_and_then() -> None:
    reports: list[str] = []
    clock = [0.0]
    reported = JobPace("learn", "outcomes", 1000, 200, reports.append, lambda: clock[0])
    for at, done in ((1.0, 250), (6.0, 500), (7.0, 600)):
        clock[0] = at
        reported(done)
    clock[0] = 16.0
    reported(1000, last=True)
    assert reports == ["learn: 500/1000 outcomes, 50/s, 10 s left", "learn: 1000/1000 outcomes, 50/s in 16.0 s"]
    assert reported.line(201, 10.0) == "learn: 201/1000 outcomes, 0.1/s, 7990 s left"
    assert reported.line(200, 0.0) == "learn: 200/1000 outcomes, 0/s, 0 s left"
