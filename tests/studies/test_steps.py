# SPDX-License-Identifier: MIT
"""Progress of a study: the time left."""

from __future__ import annotations

from io import StringIO

from configtron.studies.output.steps import Steps


def test_a_studys_next_lot_of_parts_has_a_time_left_of_its_own() -> None:
    now, err = [0.0], StringIO()
    with Steps("study", err, color=False, clock=lambda: now[0]) as steps:
        # 18 of 24 were there; three take 10 s each; then another lot, of which none was there
        for at_s, done, parts in (
            (0, 18, 24),
            (10, 19, 24),
            (20, 20, 24),
            (60, 24, 24),
            (60, 0, 8),
            (70, 1, 8),
            (70, 24, 24),
        ):
            now[0] = float(at_s)
            steps.step(done, parts)
    lines = [line.partition("parts, ")[2] for line in err.getvalue().splitlines()]
    assert lines == [
        "time left unknown", "50 s left", "40 s left", "0 s left", "time left unknown", "70 s left", "0 s left",
    ]  # fmt: skip
