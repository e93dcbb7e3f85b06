# SPDX-License-Identifier: MIT
"""A profile that kills loads, in the whole simulated fleet: it is taken back because browsers report failed loads.

`benchmarks/fleet_faults.py` (killing) runs more seeds, and those without reports to their end.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from configtron.intake.pageloads.plan_book import DrawnArm, PlanBook
from tests.support.fleet_killing import KillingWorld

pytestmark = pytest.mark.slow
# s by which the alarm of seed 0 has come.
ENOUGH_S = 220.0


def ran(folder: Path, reports: bool = True, most_s: float = ENOUGH_S) -> KillingWorld:
    world = KillingWorld(0, folder, reports, most_s)
    try:
        world.run()
    finally:
        logging.disable(logging.NOTSET)
    assert world.found is not None
    return world


@pytest.mark.slow
def test_a_profile_that_kills_loads_is_taken_back_by_the_failures_that_browsers_report(tmp_path: Path) -> None:
    world = ran(tmp_path)
    found = world.found
    assert world.wrong == [] and found is not None
    assert (found.stage, found.why, found.goal) == ("returned", "alarm", "failures")
    assert found.faster < 1.0, "the loads that finish are faster"
    assert found.failures == found.reported >= 5 and "failures" in found.line


@pytest.mark.slow
def test_without_reports_it_looks_good(tmp_path: Path) -> None:
    world = ran(tmp_path, reports=False)
    found = world.found
    assert world.wrong == [] and found is not None
    assert found.stage == "canary" and found.broken > 15 and found.failures == 0 and found.faster < 1.0


@pytest.mark.slow
def test_a_failure_that_counts_against_another_client_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_client = PlanBook.of_client

    def broken(self: PlanBook, client: bytes, at_ns: int) -> DrawnArm | None:
        return of_client(self, bytes([*client[:3], client[3] ^ 1]), at_ns)

    monkeypatch.setattr(PlanBook, "of_client", broken)
    assert any("the failure of visit" in line for line in ran(tmp_path, most_s=80.0).wrong)
