# SPDX-License-Identifier: MIT
"""The benchmark's own arithmetic: theory by hand, and that a figure outside its bound is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.emulators import (
    BOUNDS,
    COSTS,
    PINGS,
    SLOW_STARTS,
    boot,
    capacities,
    expected,
    label,
    line_of,
    nominal_kbit,
    wrong,
)
from configtron.lab.testbed.families import named
from configtron.lab.uml.user_mode_linux import UmlVirtual

GOOD: tuple[dict[str, Any], ...] = (
    {"part": "capacity", "name": "pantheon:7", "direction": "down", "kbit": 12_000.0},
    # a fraction is lost after the played link
    {"part": "capacity", "name": "pantheon:1", "direction": "down", "kbit": 570 * (1 - 0.0477)},
    # one packet each 100 ms
    {"part": "capacity", "name": "pantheon:13", "direction": "up", "kbit": 120.0},
    # 1, 2, 4, 8 segments hold 15 kB; and the handshake
    {"part": "slow-start", "window": 1, "size": 15_000, "rtt": 500, "took_s": 2.5},
    {"part": "slow-start", "window": 10, "size": 14_480, "rtt": 500, "took_s": 1.0},
    {"part": "slow-start", "window": 10, "size": 14_481, "rtt": 500, "took_s": 1.5},
    {"part": "line-rate", "mbit": 5, "rtt": 50, "scheme": "cubic", "kbit": 5000 * 1448 / 1500},
    # 1448 bytes, a window of sqrt(150) segments
    {"part": "mathis", "rtt": 50, "loss": 0.01, "kbit": 1448 * 8 / 50 * 12.2474},
    {"part": "ping", "name": "access:dsl", "least_ms": 50.0},
    {"part": "cost", "kind": "condition", "each_s": 0.001, "boot_s": 0.5},
)


@pytest.mark.parametrize("row", GOOD, ids=lambda row: f"{row['part']} {label(row)}")
def test_theory_by_hand(row: dict[str, Any]) -> None:
    assert wrong(row) == ""
    if row["part"] in BOUNDS:
        found = next(row[name] for name in ("took_s", "kbit") if name in row)
        assert expected(row) == pytest.approx(found, rel=1e-4)
    assert label(row) in line_of(row)


@pytest.mark.parametrize("row", GOOD, ids=lambda row: f"{row['part']} {label(row)}")
def test_a_figure_outside_its_bound_is_reported(row: dict[str, Any]) -> None:
    worse = {
        name: value * (1 + 2 * BOUNDS.get(row["part"], 0.1)) if name in ("kbit", "took_s", "least_ms") else value
        for name, value in row.items()
    }
    assert wrong(worse | ({"each_s": 0.03} if "each_s" in row else {}))


def test_every_emulator_and_trace_is_measured() -> None:
    measured = list(capacities())
    downs = [name for name, direction, _ in measured if direction == "down"]
    assert downs[:18] == [f"pantheon:{number}" for number in range(1, 19)] and len(downs) == 21
    ups = [name for name, direction, _ in measured if direction == "up"]
    assert ups == ["pantheon:13", "pantheon:14", *downs[18:]]
    # whole periods of what is played, or the count would depend on where it began
    assert all(seconds >= 40 for name, _, seconds in measured if name == "trace:commute+20")


def test_rates_are_the_names() -> None:
    assert nominal_kbit(named("pantheon:5"), "down") == 77_720
    assert nominal_kbit(named("pantheon:14"), "up") == pytest.approx(600)


def test_configurations_change_every_time() -> None:
    assert len(set(COSTS)) == len(COSTS) == 48


@pytest.mark.root
@pytest.mark.lab
def test_links_and_tcp_are_as_theory_has_them(tmp_path: Path) -> None:
    """The quick parts of the benchmark: an even link, a policer, gathered ACKs, slow start and round trips."""
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    rows, _ = boot(["capacity=pantheon:7,pantheon:13,pantheon:15", "slow-start", "ping"], tmp_path / "guest")
    assert len(rows) == 4 + len(SLOW_STARTS) + len(PINGS)
    assert [wrong(row) for row in rows if wrong(row)] == []
