# SPDX-License-Identifier: MIT
"""Options of a resumed campaign: the run's own, but for outputs, the time limit and hosts that opted out since."""

from __future__ import annotations

from pathlib import Path

from configtron.service.campaign.run_options import ProbeOptions
from configtron.service.campaign.running import resumed_options


def test_opt_out_files_of_today_join_those_of_the_run() -> None:
    begun = ProbeOptions(words=("192.0.2.1",), opt_out_files=(Path("old"),), max_runtime_s=9)
    today = ProbeOptions(resume=3, opt_out_files=(Path("new"), Path("old")), fail_on=("refused",))
    found = resumed_options(begun, today, 3)
    assert found.opt_out_files == (Path("old"), Path("new"))
    assert (found.words, found.resume, found.fail_on, found.max_runtime_s) == (("192.0.2.1",), 3, ("refused",), 0)
