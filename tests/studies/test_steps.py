# SPDX-License-Identifier: MIT
"""Progress of a study: parts of an earlier run take no time, a second round of parts is timed by itself."""

from __future__ import annotations

import io

from configtron.studies.output.steps import Steps


def test_each_round_of_parts_is_timed_by_itself() -> None:
    now, err = [0.0], io.StringIO()
    with Steps("study", err, clock=lambda: now[0]) as steps:
        for at_s, done, parts in ((0, 20, 24), (10, 21, 24), (40, 24, 24), (40, 0, 8), (50, 1, 8), (60, 2, 8)):
            now[0] = at_s
            steps.update(done, parts)
    assert err.getvalue().splitlines() == [
        "study: 20/24 parts, time left unknown", "study: 21/24 parts, 30 s left", "study: 24/24 parts, 0 s left",
        "study: 0/8 parts, time left unknown", "study: 1/8 parts, 70 s left", "study: 2/8 parts, 60 s left",
    ]  # fmt: skip
