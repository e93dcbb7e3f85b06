# SPDX-License-Identifier: MIT
"""What is reported of a profile that kills loads: the row of the table of faults."""

from __future__ import annotations

import json

from benchmarks.fault_table import Row
from benchmarks.fleet_killing import row
from tests.support.fleet_killing import KillingFound


def found(stage: str, at_s: float, faster: float = 0.8) -> KillingFound:
    line = "version 1.3 is taken back: failures: a goal's lower bound of harm is above zero (estimate 0.3)"
    return KillingFound(stage, "alarm", "failures", at_s, 20, 14, 14, 13, faster, 30.0, at_s - 1, line)


def test_the_row_has_the_time_in_force_and_what_came_of_it_without_reports() -> None:
    made = Row(**json.loads(row([found("returned", at_s) for at_s in (100.0, 130.0, 90.0)],
                                [found("all", 800.0), found("quarter", 1_200.0)])))  # fmt: skip
    assert made.recovery == "60, 70, 100 of 3"
    assert "looked 20% faster" in made.end and made.end.endswith("in 1 of 2 runs")
    assert made.line == "version 1.3 is taken back: failures: a goal's lower bound of harm is above zero"
