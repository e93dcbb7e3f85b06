# SPDX-License-Identifier: MIT
"""The report of a calibration is its figures: errors over held runs, means by kind, verdicts computed."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from configtron.studies.emulation.calibration_result import (
    Calibrated,
    CalibrationPlan,
    evaluated,
    mean_interval,
    progress,
)
from configtron.studies.emulation.emulators import Emulator
from configtron.studies.emulation.paths import FOREIGN, HIDDEN, TRACES, foreign, hidden
from configtron.studies.emulation.replication import Figures, Seen
from configtron.studies.emulation.search import Tried
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN, Curves, Scatter

PLAN = CalibrationPlan(("bbr", "cubic"), runs=2, seconds=4.0, budget=3, batch=3, hidden=1)
FOUND = Emulator(2.0, 30.0, 50, 0.01, "poisson")
HELD: Seen = {"bbr": Figures(2.0, 50.0), "cubic": Figures(1.0, 100.0)}


def off(part: float) -> Seen:
    """Every figure too large by this part."""
    return {scheme: Figures(*(value * (1 + part) for value in figures)) for scheme, figures in HELD.items()}


def one(kind: str, error: float, chance: float = 0.5) -> Calibrated:
    path = hidden(1, 1)[0] if kind == HIDDEN else foreign()[0]
    tried = [Tried(FOUND, off(part)) for part in (0.4, 0.6, 0.2)]
    found = (off(error), off(chance), off(0.3))
    return Calibrated(path, off(0.05), HELD, (FOUND, FOUND, FOUND), found, (tried, tried[:2]))


def test_the_error_is_over_held_out_runs() -> None:
    calibrated = one(HIDDEN, 0.1, 0.4)
    assert [calibrated.error(role) for role in ("search", "chance", "suggested")] == pytest.approx([0.1, 0.4, 0.3])
    assert calibrated.floor == pytest.approx(0.05)
    # outcomes that the search saw decide nothing
    assert calibrated._replace(shown=off(9)).error() == calibrated.error()


def test_progress_never_worsens() -> None:
    tried = one(HIDDEN, 0).tried[0]
    assert progress(HELD, tried) == pytest.approx([0.4, 0.4, 0.2])


def test_intervals_are_students() -> None:
    assert mean_interval([1, 2, 3]) == pytest.approx((2, 0, 2 + 4.30 / math.sqrt(3)), abs=0.01)
    assert mean_interval([5])[0] == 5 and math.isnan(mean_interval([5])[1]) and math.isnan(mean_interval([])[0])
    many = [float(n % 2) for n in range(100)]
    assert mean_interval(many)[2] - 0.5 == pytest.approx(1.984 * 0.5025 / 10, rel=0.003)


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [((0.1, 0.1), HOLDS), ((0.1, 0.3), PARTLY), ((0.3, 0.1), PARTLY), ((0.2, 0.3), ABSENT)],
)
def test_seventeen_per_cent_is_judged_by_kind(errors: tuple[float, float], verdict: str) -> None:
    found = [one(kind, error) for kind, error in zip((HIDDEN, FOREIGN), errors, strict=True)]
    fact = evaluated(found, PLAN, 1).facts[0]
    assert fact.verdict == verdict
    assert f"{100 * errors[0]:.1f} % over 1 hidden (path itself: 5.0 %)" in fact.ours


def test_chance_may_win() -> None:
    facts = [evaluated([one(HIDDEN, 0.2, chance)], PLAN, 1).facts[2] for chance in (0.1, 0.3)]
    assert [fact.verdict for fact in facts] == [ABSENT, HOLDS]


def test_tables_say_what_was_drawn_and_what_stands_for_it() -> None:
    outcomes = evaluated([one(HIDDEN, 0.1), one(FOREIGN, 0.2)], PLAN, 1)
    errors, parameters, figures = outcomes.tables
    assert [row[:6] for row in errors.rows] == [
        ["hidden-1", HIDDEN, 10.0, 50.0, 30.0, 5.0],
        ["commute", FOREIGN, 20.0, 50.0, 30.0, 5.0],
        ["mean of 1", HIDDEN, 10.0, 50.0, 30.0, 5.0],
        ["mean of 1", FOREIGN, 20.0, 50.0, 30.0, 5.0],
    ]
    truth = hidden(1, 1)[0].truth
    assert truth
    assert [row[:4] for row in parameters.rows] == [
        ["hidden-1", "drawn", truth.rate_mbit, truth.delay_ms],
        ["hidden-1", "found", 2.0, 30.0],
    ]
    assert figures.rows[0] == ["hidden-1", "bbr", 2.0, 2.2, 50.0, 55.0]
    assert all(len(row) == len(table.columns) for table in outcomes.tables for row in table.rows)
    courses, throughput, _ = outcomes.plots
    # as long as the shorter of the two searches
    assert isinstance(courses, Curves) and [len(line.points) for line in courses.series] == [3, 2]
    assert isinstance(throughput, Scatter)
    assert throughput.clouds[0].points == [(2.0, pytest.approx(2.2)), (2.0, pytest.approx(2.4))]


def test_nothing_found_is_not_measured() -> None:
    outcomes = evaluated([], PLAN, 1, "hidden-1: no guest")
    assert {fact.verdict for fact in outcomes.facts} == {UNKNOWN} and not outcomes.whole and not outcomes.plots


# --- the paths ---------------------------------------------------------------------------------------------------


def test_hidden_paths_are_drawn_by_seed() -> None:
    assert [p.truth for p in hidden(4, 1)] == [p.truth for p in hidden(4, 1)] != [p.truth for p in hidden(4, 2)]
    truths = [path.truth for path in hidden(40, 3)]
    assert len(set(truths)) == 40
    assert {bool(truth and truth.loss) for truth in truths} == {True, False}
    assert {truth.kind for truth in truths if truth} == {"constant", "poisson"}


def test_foreign_paths_are_no_emulators() -> None:
    for path in foreign():
        first, second = path.condition(0), path.condition(1)
        is_emulator = first.down.kind in ("constant", "poisson") and first.up.kind in ("constant", "poisson")
        assert path.truth is None
        assert not is_emulator or first.steps or path.rivals
        # a trace is another in each run, and the same in the same run
        assert (first != second) == (first.down.kind == "trace")
        assert path.condition(0) == replace(first)


def test_any_few_runs_meet_all_of_a_trace() -> None:
    for path in foreign():
        moments = [path.condition(run).down.offset_s for run in range(12)]
        if path.condition(0).down.kind == "trace":
            seconds = TRACES[path.name][1]
            for first in range(8):
                met = sorted(moments[first : first + 4])
                gaps = [later - earlier for earlier, later in pairwise([*met, met[0] + seconds])]
                assert max(gaps) < 0.4 * seconds
