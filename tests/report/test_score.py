# SPDX-License-Identifier: MIT
"""Verdicts against the truth, beside constant answers; and planted differences between regions."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from configtron.lab.internet.truth import Expectation as LabExpectation
from configtron.model.nouns import Observation, Value
from configtron.report import score as module
from configtron.report import tables
from configtron.report.allowed_verdict import Judged, is_answered
from configtron.report.constants import THIS_RUN, beside_constants
from configtron.report.folding import Sheet
from configtron.report.plant_scores import PlantScore, planted, planted_lines, share
from configtron.report.rendering import render_score
from configtron.report.score import score, score_lines
from configtron.report.target_results import TargetResult, found_in
from tests.support.sample_results import reading, result


@dataclass(frozen=True)
class Truth:
    """An expectation as simple as can be; the lab's own stands beside it below."""

    values: tuple[Value, ...] = ()
    bound: bool = False
    least: int = 0
    reasons: tuple[str, ...] = ()
    edges: tuple[Value, ...] = ()

    @property
    def reason(self) -> str:
        return " or ".join(self.reasons)

    def admits(self, value: Value | None, *, lower_bound: bool = False, reason: str = "") -> bool:
        return value in self.values if value is not None else reason in self.reasons


def seen(value: Value | None, grade: str, reason: str = "not-h2") -> Observation:
    return Observation("icw", value, None if value is not None else reason, grade=grade)


def judged(host: str, observation: Observation, truth: Any, knob: str = "icw", at: str = "na", *more: Any) -> Judged:
    return Judged(at, host, knob, observation, truth, *more)


def lines_of(lines: Iterable[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def printed(*shown: Sheet) -> str:
    out = io.StringIO()
    for table in shown:
        table.write(out)
    return out.getvalue()


TEN = Truth((10,))
BOUND, NOTHING = Truth((10,), bound=True, least=4), Truth(reasons=("not-h2",))
ABSENT, EXCUSED = Truth(reasons=("not-announced",)), Truth((10,), reasons=("not-h2",))
TRIVIAL = Truth((10,), bound=True, least=1)


@pytest.mark.parametrize(("observation", "truth", "right", "answered", "overclaim"), [
    (seen(10, "A"), TEN, True, True, False), (seen(10, "C"), Truth((10, 11)), True, False, False),
    (seen(4, "B"), TEN, False, False, True), (seen(4, "B"), BOUND, False, False, True),
    (seen(10, "B"), BOUND, True, True, False), (seen(4, "L"), BOUND, True, True, False),
    # true, but less than the answer proves
    (seen(3, "L"), BOUND, True, False, False), (seen(1, "L"), TRIVIAL, True, False, False),
    (seen(4, "L"), TEN, True, False, False), (seen(11, "L"), BOUND, False, False, True),
    # excused is not answered
    (seen(None, "N"), TEN, False, False, False), (seen(None, "N"), EXCUSED, True, False, False),
    (seen(None, "N"), NOTHING, True, True, False), (seen(None, "N", "no-h2"), NOTHING, False, False, False),
    (seen(None, "N", "unclear:alone"), NOTHING, False, False, False), (seen("absent", "B"), ABSENT, True, True, False),
    (seen("absent", "B"), NOTHING, False, False, True), (seen(5, "B"), NOTHING, False, False, True),
])  # fmt: skip
@pytest.mark.parametrize("kind", [Truth, LabExpectation])
def test_each_verdict_is_judged(
    observation: Observation, truth: Truth, right: bool, answered: bool, overclaim: bool, kind: type[Truth]
) -> None:
    expectation = kind(values=truth.values, bound=truth.bound, least=truth.least, reasons=truth.reasons)
    found = score([judged("a", observation, expectation)])
    (row,) = found.knobs
    assert (sum(row.right.values()), row.answered.total(), row.overclaims) == (right, answered, overclaim)
    assert len(found.mismatches) == (not right)


def test_shares_and_mismatches() -> None:
    found = score([judged(f"h{n}", seen(10 if n else 4, "AB"[n % 2]), TEN) for n in range(4)])
    assert found.knobs[0].right_share == "75.0 %" and module.percent(0, 0) == "-" and score([]).knobs == ()
    lines = lines_of(score_lines(found))
    assert lines[0]["right"] == {"A": 1, "B": 2, "C": 0, "L": 0, "N": 0}
    assert (lines[2]["host"], lines[2]["truth"], lines[2]["observation"]["value"]) == ("h0", "10", 4)
    text = printed(tables.scores(found.knobs), tables.mismatches(found, 0))
    assert "75.0 %" in text and "1 more" in text


def test_wrong_values_have_rows_of_their_own_and_stand_before_those_that_no_one_gave() -> None:
    silent = [judged(f"h{n}", seen(None, "N"), TEN) for n in range(30)]
    wrong = [judged(f"x{n}", seen(4, "B"), TEN, "rwin", "eu") for n in range(2)]
    table = tables.mismatches(score(silent + wrong), 40)
    assert [row[1] for row in table.rows[1:]] == ["x0", "x1", "h0 and 29 more"]
    assert "more there" not in table.caption


def test_each_trouble_has_its_row() -> None:
    excused, shut = Truth((10,), reasons=("no-data",)), Truth(reasons=("no-synack", "no-data"))
    none = Observation("icw", reason="no-data")
    found = score([
        judged("a", seen(10, "A"), TEN),
        judged("b", none, excused, "icw", "na", "think"),
        judged("b", seen(4, "L"), excused, "icw", "eu", "think"),
        judged("b", Observation("icw", reason="tls:version"), excused, "icw", "as", "think"),
        judged("b", seen(9, "B"), Truth((8,)), "rwin", "as", "think"),
        judged("c", none, shut, "icw", "na", "shut"),
    ])  # fmt: skip
    rows = {row.trouble: row for row in found.troubles}
    think, all_ = rows["think"], module.total(found)
    assert (think.value, think.bound, think.reason, think.unexcused, think.overclaims) == (0, 1, 1, 1, 1)
    assert (len(think.cases), len(think.reachable), len(think.allowed), think.answered) == (3, 3, 3, set())
    assert (len(rows["shut"].cases), len(rows["shut"].reachable)) == (1, 0)
    assert (len(all_.cases), len(all_.reachable), all_.overclaims) == (5, 4, 1)
    assert all_.answered == {("na", "a"), ("na", "c")} and len(all_.allowed) == 5
    assert found.reasons == {"no-data": 2, "tls:*": 1}
    assert {miss.trouble for miss in found.mismatches} == {"think"}
    text = printed(tables.troubles(found))
    assert "40.0 %" in text and "none" in text
    assert sum("configtron.trouble/2" in line for line in score_lines(found)) == 3


def answer(truth: Truth) -> Observation:
    """All that this truth allows."""
    return seen(truth.values[0], "A") if truth.values else seen(None, "N", truth.reasons[0])


def drawn() -> list[Judged]:
    """A town: mostly windows of 10, a few others, bounds, nothing, two servers that take turns."""
    truths = [TEN] * 70 + [Truth((n,)) for n in (1, 4, 24, 30) for _ in range(5)]
    truths += [Truth((10, 4)), Truth((20,), bound=True, least=9), TRIVIAL, NOTHING, NOTHING, EXCUSED]
    return [judged(f"h{n}", answer(truth), truth, "icw", "na", "x") for n, truth in enumerate(truths)]


def test_the_same_verdict_for_all_servers_yields_nothing() -> None:
    """The rule before: a bound of 1 was usable on 97 of 100; 10 everywhere would be right on 70."""
    probers = beside_constants(drawn())
    assert list(probers) == [THIS_RUN, "silence", "least bounds", "commonest"]
    for name, yielded in zip(probers, (1.0, 0.0, 0.0, 0.0), strict=True):
        assert probers[name].yielded == probers[name].troubled.yielded == yielded, name
    assert probers["least bounds"].overclaims == 2 and probers["commonest"].answered("exact")[0] > 70
    assert probers["silence"].wrong_reasons == len(drawn())
    lines = [line for line in score_lines(probers[THIS_RUN], probers) if "configtron.prober/1" in line]
    assert [line["yield"] for line in lines_of(lines)] == [1.0, 0.0, 0.0, 0.0]
    text = printed(tables.probers(probers))
    assert "commonest" in text and "100.0 %" in text


def test_what_was_not_asked_is_counted_and_not_judged() -> None:
    found = score([one._replace(asked=n > 3) for n, one in enumerate(drawn())])
    (row,) = found.knobs
    assert (row.not_asked, row.total) == (4, len(drawn()) - 4)
    assert '"not_asked":4' in score_lines(found)[0]


def test_no_number_between_two_timers_yields_anything() -> None:
    """Timers of 0.2 and 0.31 s that may be late: 0.295 passes for both, though neither's own value does."""
    timers = [LabExpectation((0.2,), 0.5), LabExpectation((0.31,), 0.0, 0.02), LabExpectation((0.9,), 0.1, 0.02)]
    cases = [judged(f"h{n}", seen(0.295, "A"), timer, "min_rto") for n, timer in enumerate(timers)]
    assert sum(is_answered(one) for one in cases) == 2
    assert score(cases).yielded == 0.0


def test_a_table_shows_what_is_not_perfect_and_ends_in_four_lines_of_sums() -> None:
    cases = [judged(f"h{n}", seen(10, "A"), TEN) for n in range(4)] + [judged("h0", seen(4, "B"), TEN, "rwin")]
    plants = [PlantScore("icw", planted=2, found=2), PlantScore("rwin", planted=3, found=2)]
    short, whole = io.StringIO(), io.StringIO()
    render_score(score(cases), {}, plants, "table", short)
    render_score(score(cases), {}, plants, "table", whole, whole=True)
    sums = (
        "pairs     5 of a parameter, a site and a region\n"
        "right     4 of 5 values and bounds given (80.0 %)\n"
        "planted   4 of 5 differences between regions found (80.0 %)\n"
        "invented  0 differences; of what was given, 1 wrong\n"
    )
    assert short.getvalue().endswith(sums) and whole.getvalue().endswith(sums)
    assert "4/4" not in short.getvalue() and "4/4" in whole.getvalue()
    assert "1 of 2 parameters are not perfect" in short.getvalue()


class Plant(NamedTuple):
    host: str
    knob: str
    region: str


# host -> window in na, eu, as; None stands for a verdict that is none.
WINDOWS = {"a": (10, 4, 10), "b": (10, None, 10), "c": (10, 10, 24), "d": (10, 10, None), "e": (10, 4, 4)}
PLANTS = [Plant("a", "icw", "eu"), Plant("b", "icw", "eu"), Plant("c", "rwin", "as"), Plant("e", "icw", "eu")]


def sown(mixed: str = "") -> list[TargetResult]:
    made = []
    for host, windows in sorted(WINDOWS.items()):
        for vantage, window in sorted(zip(("na", "eu", "as"), windows, strict=True)):
            for trial in (1, 2):
                found = [reading("icw", "!no-data" if window is None else window)]
                if host == mixed and trial == 1:
                    found.append(reading("load_balancing", "mixed", "C", ""))
                made.append(result(host, vantage, trial, *found))
    return list(found_in(made))


def test_planted_and_found() -> None:
    (row,) = planted(sown(), PLANTS, ["icw", "rwin"], "na")
    assert (row.planted, row.found, row.same) == (3, 2, 6)
    assert [tuple(pair) for pair in row.false] == [("c", "as"), ("e", "as")]
    assert (row.hosts_planted, row.hosts_found) == ({"a", "b", "e"}, {"a", "e"})
    assert row.hosts_same == {"c", "d"} and row.hosts_false == {"c"}
    text = printed(tables.regions([row]))
    assert "2/3 66.7 %" in text and "2/6 33.3 %" in text and "1/2 50.0 %" in text
    (line,) = lines_of(planted_lines([row]))
    assert (line["planted"], line["found"], line["false"], line["false_pairs"]) == (3, 2, 2, ["c as", "e as"])
    assert (share(0, 0), share(69, 1000)) == ("-", "69/1000 6.9 % (5.5-8.6)")
    (row,) = planted(sown(mixed="c"), PLANTS, ["icw"], "na")
    assert [pair.host for pair in row.false] == ["e"] and row.hosts_same == {"d"}, "mixed targets are in no pair"
