# SPDX-License-Identifier: MIT
"""Copa, LEDBAT and GCC beside other implementations: tquic's, libutp's, pion's, whose answers are stored.

Each answer names what it is of, and the command that made it, which the repository had until its commit 36a63170.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from configtron.lab.schemes.copa import Copa
from configtron.lab.schemes.ledbat import Ledbat
from configtron.lab.schemes.scheme import Scheme
from tests.support import ROOT, oracle_inputs

STORED: dict[str, dict[str, Any]] = json.loads((ROOT / "tests/lab/schemes/oracle_answers.json").read_text())
CLOSE = 0.05


def test_each_answer_has_its_origin_and_command() -> None:
    assert set(STORED) == {"copa", "ledbat", "gcc"}
    for name, row in STORED.items():
        assert row["of"] and row["made by"] == f"python -m benchmarks.scheme_oracles {name} --write"


def test_copas_window_moves_as_tquics_does() -> None:
    """On the acknowledgements of a flow of tquic's, on a path whose rate halves."""
    theirs = [oracle_inputs.Move(*row) for row in STORED["copa"]["answers"]["moves"]]
    ours = oracle_inputs.copa_moves(theirs)
    assert len(theirs) > 500
    assert oracle_inputs.same_direction(theirs, ours) > 0.95 and oracle_inputs.windows_apart(theirs, ours) < CLOSE
    assert sum(a.velocity == b.velocity for a, b in zip(theirs, ours, strict=True)) > 0.9 * len(theirs)


@pytest.mark.parametrize("number", range(len(oracle_inputs.COPA_PATHS)))
def test_copa_keeps_tquics_queue(number: int) -> None:
    _close(Copa(), oracle_inputs.COPA_PATHS[number], STORED["copa"]["answers"]["settled"][number])


@pytest.mark.parametrize("number", range(len(oracle_inputs.LEDBAT_PATHS)))
def test_ledbat_keeps_libutps_queue(number: int) -> None:
    _close(Ledbat(), oracle_inputs.LEDBAT_PATHS[number], STORED["ledbat"]["answers"]["settled"][number])


def _close(scheme: Scheme, path: tuple[float, float, int], theirs: list[float]) -> None:
    mbit, queueing_ms = oracle_inputs.settled(scheme, path)
    assert mbit == pytest.approx(theirs[0], rel=0.01) and queueing_ms == pytest.approx(theirs[1], rel=CLOSE)


def test_ledbats_window_moves_by_libutps_formula() -> None:
    """Two packets a round trip in libutp, one in ours; below the target and above."""
    steps = STORED["ledbat"]["answers"]["steps"]
    assert oracle_inputs.growths_agree(steps) > 0.95 and len(steps) > 100
    assert {gain > 0 for *_, gain in steps} == {True, False}


def test_libutps_late_comer_takes_the_path_too() -> None:
    """The advantage is LEDBAT's own (RFC 6817 section 4), not a mistake of ours."""
    for first, late in (
        [row[0] for row in STORED["ledbat"]["answers"]["two"]],
        [row.mbit for row in oracle_inputs.two(Ledbat(), Ledbat())],
    ):
        assert late > 10 * first


def test_gccs_signals_are_pions() -> None:
    theirs = STORED["gcc"]["answers"]
    assert oracle_inputs.same_signals(theirs) >= 0.99 * sum(map(len, theirs)) and set("".join(theirs)) == set("OUN")
