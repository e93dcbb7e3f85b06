# SPDX-License-Identifier: MIT
"""A judge of benchmarks/ that cannot find a mistake proves nothing: each finds a planted one, and passes what is right.

The only tests that import benchmarks.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from benchmarks import kills
from benchmarks.evidence_rows import ROWS, PaperRow
from benchmarks.live.judge import Judged, compared, mean_interval
from benchmarks.stacks import STACKS, Recorded
from benchmarks.stacks import wrong as contradicted
from benchmarks.tune import FIGURES, Ratio, verdict
from tests.support import ROOT


def test_calls_that_are_missing_twice_or_of_no_target_are_wrong() -> None:
    hosts = [f"v0/198.19.0.{n}" for n in range(kills.TARGETS)]
    wanted = Counter([f"{host}/icw.1" for host in hosts] + [f"{hosts[0]}/icw_tls.1"])
    assert kills.wrong_calls(wanted, wanted) == []
    assert kills.wrong_calls(Counter(f"{host}/icw.1" for host in hosts[1:]), wanted) == [f"{hosts[0]}/icw.1"]
    for extra in (f"{hosts[1]}/icw.1", f"{hosts[1]}/icw.3", "database: broken, 0 dangling"):
        assert kills.wrong_calls(wanted + Counter([extra]), wanted) == [extra]


@pytest.mark.parametrize(
    ("knob", "value", "grade", "right"),
    [
        ("min_rto", 0.2, "B", True), ("min_rto", 0.167, "B", False), ("data_rto", 0.4, "B", False),
        ("synack_rto", 1.02, "A", True), ("synack_rto", 2.0, "A", False), ("synack_rto", 2.0, "C", True),
        ("icw", 10, "B", True), ("icw", 11, "B", False), ("icw", 8, "L", True), ("icw", 11, "L", False),
    ],
)  # fmt: skip
def test_a_value_that_a_stack_has_not_is_wrong(knob: str, value: float, grade: str, right: bool) -> None:
    seen, row = Recorded((1.0, 1.01, 2.0), (0.2, 0.201, 0.202)), {"value": value, "grade": grade, "text": str(value)}
    assert bool(contradicted(STACKS["gvisor"], {knob: row}, seen)) is not right


def test_a_goal_holds_by_every_figure_or_names_those_that_miss_it() -> None:
    good, missed, undecided = Ratio(1.0, 0.998, 1.004), Ratio(1.05, 1.04, 1.06), Ratio(1.02, 0.90, 1.06)
    assert verdict("ebpf", [good] * len(FIGURES)) == "holds (3%)"
    for at, name in enumerate(FIGURES):
        for one, word in ((missed, "missed"), (undecided, "undecided")):
            found = [good] * len(FIGURES)
            found[at] = one
            assert verdict("ebpf", found) == f"{word} (3%): {name}"


def _loads(gain: float, seed: int) -> Judged:
    rng = np.random.default_rng(seed)
    client = np.repeat(np.arange(400), 10)
    held, nothing = client % 2, np.zeros(len(client), dtype=np.int64)
    ln = 7.0 + 0.3 * rng.standard_normal(400)[client] + 0.3 * rng.standard_normal(len(client))
    return Judged(client, nothing, np.exp(ln + np.log1p(-gain) * (held == 0)), held, nothing)


@pytest.mark.slow
def test_a_gain_is_found_and_none_where_there_is_none() -> None:
    found = compared(_loads(0.3, 1), 0.5)
    assert 0.0 < found.low < 0.3 < found.high
    none = [compared(_loads(0.0, seed), 0.5) for seed in range(20)]
    assert sum(not one.low <= 0.0 <= one.high for one in none) <= 4


def test_intervals_are_by_client_and_not_by_load() -> None:
    values = np.repeat(np.random.default_rng(2).standard_normal(50), 100)
    mean, low, high = mean_interval(values, np.repeat(np.arange(50), 100))
    assert mean == pytest.approx(values.mean()) and high - low > 3.0 / np.sqrt(50)


def _lacking(row: PaperRow) -> list[str]:
    modules = [one.replace(".", "/") for one in re.findall(r"python -m (benchmarks\.\w+)", row.command)]
    places = [(f"{one}.py", one) for one in modules] + [(one,) for one in re.findall(r"tests/\S+\.py", row.command)]
    return [place[0] for place in places if not any((ROOT / one).exists() for one in place)]


def test_each_row_of_the_evidence_names_a_command_that_exists() -> None:
    assert {row.what: lost for row in ROWS if (lost := _lacking(row))} == {}
    assert _lacking(ROWS[0]._replace(command="python -m benchmarks.none tests/no.py")) == [
        "benchmarks/none.py", "tests/no.py",
    ]  # fmt: skip
