# SPDX-License-Identifier: MIT
"""An outcome from the fields of a line; the commands that read whole files: tests/cli/learn."""

from __future__ import annotations

from typing import Any

import pytest

from configtron.intake.outcome_formats import outcome_of

DATED = 1795687200_500_000_000


@pytest.mark.parametrize(("given", "at_ns", "arm"), [
    ({}, 0, "default"), ({"profile": {"initcwnd": 4}, "measured_at": 0}, 0, "static"),
    *(({"measured_at": at}, DATED, "default") for at in (1795687200.5, 1795687200500, "1795687200500000", DATED)),
])  # fmt: skip
def test_a_time_and_an_arm_that_are_not_written_have_a_meaning(given: dict[str, Any], at_ns: int, arm: str) -> None:
    found = outcome_of({"plt_ms": 80.0, **given}, "live")
    assert (found.measured_at, found.decision.arm) == (at_ns, arm)
