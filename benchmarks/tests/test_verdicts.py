# SPDX-License-Identifier: MIT
"""What benchmarks.tune and benchmarks.tune_scale say of their figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.tune import FIGURES, Ratio, verdict
from configtron.model.tuning import Place
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from tests.support import ROOT
from tests.support.waiting import PATIENCE_S

GOOD = Ratio(1.000, 0.998, 1.004)
# As once measured: kmod and ebpf with a hundred thousand prefixes.
KMOD = [Ratio(1.003, 1.001, 1.007), Ratio(1.036, 1.028, 1.036), Ratio(1.014, 0.940, 1.089), Ratio(1.005, 1.003, 1.008)]
EBPF = [Ratio(1.021, 1.018, 1.026), Ratio(1.036, 1.035, 1.038), Ratio(1.093, 1.036, 1.150), Ratio(1.019, 1.015, 1.023)]


def test_a_goal_holds_by_every_figure_or_names_those_that_miss_it() -> None:
    assert verdict("ebpf", [GOOD] * len(FIGURES)) == "holds (3%)"
    assert verdict("kmod", KMOD) == "missed (1%): set-up p50; undecided (1%): set-up p99"
    assert verdict("ebpf", EBPF) == "missed (3%): set-up p50, set-up p99"
    assert verdict("route", EBPF) == verdict("  again", EBPF) == ""


@pytest.mark.parametrize("at", range(len(FIGURES)))
def test_no_figure_is_left_out(at: int) -> None:
    found = [GOOD] * len(FIGURES)
    found[at] = Ratio(1.05, 1.04, 1.06)
    assert verdict("ebpf", found) == f"missed (3%): {FIGURES[at]}"
    found[at] = Ratio(1.02, 0.90, 1.06)
    assert verdict("ebpf", found) == f"undecided (3%): {FIGURES[at]}"


@pytest.mark.root
def test_the_driver_alone_and_the_whole_command_stand_in_one_row(tmp_path: Path) -> None:
    if reason := EbpfDriver(Place()).missing():
        pytest.skip(reason)
    words = [sys.executable, "-m", "benchmarks.tune_scale", "--drivers", "ebpf", "--sizes", "1000"]
    done = subprocess.run(
        words, cwd=ROOT, check=True, capture_output=True, text=True, timeout=PATIENCE_S
    ).stdout.splitlines()
    assert done[1].split()[-5:] == ["complete", "cmd", "s", "cmd", "cpu"]
    figures = done[2].split()
    complete, command_s, command_cpu_s, change_cpu_ms = figures[-3], *map(float, figures[-2:]), float(figures[6])
    assert complete == "yes" and command_s > 0
    assert command_cpu_s > change_cpu_ms / 1000 > 0, "the driver's call is a part of what the command does"
