# SPDX-License-Identifier: MIT
import io
import json
from dataclasses import dataclass

import pytest

from configtron.lab.internet.truth import Expectation as LabExpectation
from configtron.model.nouns import Observation, Value
from configtron.report import score as module
from configtron.report import tables
from configtron.report.allowed_verdict import Judged, is_answered
from configtron.report.constants import THIS_RUN, beside_constants
from configtron.report.plant_scores import PlantScore
from configtron.report.rendering import render_score
from configtron.report.score import score, score_lines


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


BOUND, NOTHING = Truth((10,), bound=True, least=4), Truth(reasons=("not-h2",))
ABSENT, EXCUSED = Truth(reasons=("not-announced",)), Truth((10,), reasons=("not-h2",))
TRIVIAL = Truth((10,), bound=True, least=1)


@pytest.mark.parametrize(("observation", "truth", "right", "answered", "overclaim"), [
    (seen(10, "A"), Truth((10,)), True, True, False),
    (seen(10, "C"), Truth((10, 11)), True, False, False),
    (seen(4, "B"), Truth((10,)), False, False, True),
    (seen(4, "B"), BOUND, False, False, True),
    (seen(10, "B"), BOUND, True, True, False),
    (seen(4, "L"), BOUND, True, True, False),
    # true, but less than the answer proves
    (seen(3, "L"), BOUND, True, False, False),
    (seen(1, "L"), TRIVIAL, True, False, False),
    (seen(4, "L"), Truth((10,)), True, False, False),
    (seen(11, "L"), BOUND, False, False, True),
    (seen(None, "N"), Truth((10,)), False, False, False),
    # excused is not answered
    (seen(None, "N"), EXCUSED, True, False, False),
    (seen(None, "N"), NOTHING, True, True, False),
    (seen(None, "N", "no-h2"), NOTHING, False, False, False),
    (seen(None, "N", "unclear:alone"), NOTHING, False, False, False),
    (seen("absent", "B"), ABSENT, True, True, False),
    (seen("absent", "B"), NOTHING, False, False, True),
    (seen(5, "B"), NOTHING, False, False, True),
])  # fmt: skip
@pytest.mark.parametrize("kind", [Truth, LabExpectation])
def test_each_verdict_is_judged(
    observation: Observation, truth: Truth, right: bool, answered: bool, overclaim: bool, kind: type[Truth]
) -> None:
    expectation = kind(values=truth.values, bound=truth.bound, least=truth.least, reasons=truth.reasons)
    result = score([Judged("na", "a", "icw", observation, expectation)])
    (row,) = result.knobs
    assert (sum(row.right.values()), row.answered.total(), row.overclaims) == (right, answered, overclaim)
    assert len(result.mismatches) == (not right)


def test_shares_and_mismatches() -> None:
    judged = [Judged("na", f"h{n}", "icw", seen(10 if n else 4, "AB"[n % 2]), Truth((10,))) for n in range(4)]
    result = score(judged)
    assert result.knobs[0].right_share == "75.0 %"
    lines = [json.loads(line) for line in score_lines(result)]
    assert lines[0]["right"] == {"A": 1, "B": 2, "C": 0, "L": 0, "N": 0}
    assert (lines[2]["host"], lines[2]["truth"], lines[2]["observation"]["value"]) == ("h0", "10", 4)
    out = io.StringIO()
    console = tables.console(out)
    console.print(tables.scores(result.knobs))
    console.print(tables.mismatches(result, 0))
    assert "75.0 %" in out.getvalue() and "1 more" in out.getvalue()


def test_wrong_values_have_rows_of_their_own_and_stand_before_those_that_no_one_gave() -> None:
    judged = [Judged("na", f"h{n}", "icw", seen(None, "N"), Truth((10,))) for n in range(30)]
    judged += [Judged("eu", f"x{n}", "rwin", seen(4, "B"), Truth((10,))) for n in range(2)]
    table = tables.mismatches(score(judged), 40)
    hosts = list(table.columns[1].cells)
    assert hosts == ["x0", "x1", "h0 and 29 more"]
    assert "more there" not in str(table.caption)


def test_nothing_is_no_share() -> None:
    assert module.percent(0, 0) == "-"
    assert score([]).knobs == ()


def test_each_trouble_has_its_row() -> None:
    excused, shut = Truth((10,), reasons=("no-data",)), Truth(reasons=("no-synack", "no-data"))
    none = Observation("icw", reason="no-data")
    judged = [
        Judged("na", "a", "icw", seen(10, "A"), Truth((10,))),
        Judged("na", "b", "icw", none, excused, "think"),
        Judged("eu", "b", "icw", seen(4, "L"), excused, "think"),
        Judged("as", "b", "icw", Observation("icw", reason="tls:version"), excused, "think"),
        Judged("as", "b", "rwin", seen(9, "B"), Truth((8,)), "think"),
        Judged("na", "c", "icw", none, shut, "shut"),
    ]
    result = score(judged)
    rows = {row.trouble: row for row in result.troubles}
    think, all_ = rows["think"], module.total(result)
    assert (think.value, think.bound, think.reason, think.unexcused, think.overclaims) == (0, 1, 1, 1, 1)
    assert (len(think.cases), len(think.reachable), len(think.allowed), think.answered) == (3, 3, 3, set())
    assert (len(rows["shut"].cases), len(rows["shut"].reachable)) == (1, 0)
    assert (len(all_.cases), len(all_.reachable), all_.overclaims) == (5, 4, 1)
    assert all_.answered == {("na", "a"), ("na", "c")} and len(all_.allowed) == 5
    assert result.reasons == {"no-data": 2, "tls:*": 1}
    assert {miss.trouble for miss in result.mismatches} == {"think"}
    out = io.StringIO()
    tables.console(out).print(tables.troubles(result))
    assert "40.0 %" in out.getvalue() and "none" in out.getvalue()
    assert sum("configtron.trouble/2" in line for line in score_lines(result)) == 3


def drawn() -> list[Judged]:
    """A town: mostly windows of 10, a few others, bounds, nothing, two servers that take turns."""
    truths = [Truth((10,))] * 70 + [Truth((n,)) for n in (1, 4, 24, 30) for _ in range(5)]
    truths += [Truth((10, 4)), Truth((20,), bound=True, least=9), TRIVIAL, NOTHING, NOTHING, EXCUSED]
    return [Judged("na", f"h{n}", "icw", answer(truth), truth, "x") for n, truth in enumerate(truths)]


def answer(truth: Truth) -> Observation:
    """All that this truth allows."""
    return seen(truth.values[0], "A") if truth.values else seen(None, "N", truth.reasons[0])


def test_the_same_verdict_for_all_servers_yields_nothing() -> None:
    """The rule before: a bound of 1 was usable on 97 of 100; 10 everywhere would be right on 70."""
    probers = beside_constants(drawn())
    assert set(probers) == {THIS_RUN, "silence", "least bounds", "commonest"}
    assert probers[THIS_RUN].yielded == probers[THIS_RUN].troubled.yielded == 1.0
    for name in ("silence", "least bounds", "commonest"):
        assert probers[name].yielded == 0.0 and probers[name].troubled.yielded == 0.0, name
    assert probers["least bounds"].overclaims == 2 and probers["commonest"].answered("exact")[0] > 70
    assert probers["silence"].wrong_reasons == len(drawn())


@pytest.mark.parametrize("constant", [*range(1, 31), "not-h2", "unclear:alone"])
@pytest.mark.parametrize("grade", ["A", "L"])
def test_no_constant_at_all_yields_anything(constant: Value, grade: str) -> None:
    stated = seen(None, "N", constant) if isinstance(constant, str) else seen(constant, grade)
    assert score([one._replace(observation=stated) for one in drawn()]).yielded == 0.0


def test_half_of_the_truths_are_half_of_the_yield() -> None:
    truths = [Truth((n,)) for n in range(1, 6)]
    judged = [Judged("na", f"h{n}", "icw", answer(t), t) for n, t in enumerate(truths)]
    judged[:2] = [one._replace(observation=seen(99, "A")) for one in judged[:2]]
    assert score(judged).yielded == pytest.approx((0.6 - 0.2) / 0.8)
    assert score(judged[2:3]).yielded is None, "one truth distinguishes no host"


def test_what_was_not_asked_is_counted_and_not_judged() -> None:
    judged = [one._replace(asked=n > 3) for n, one in enumerate(drawn())]
    (row,) = score(judged).knobs
    assert (row.not_asked, row.total) == (4, len(judged) - 4)
    assert '"not_asked":4' in score_lines(score(judged))[0]


def test_probers_have_a_line_and_a_row() -> None:
    probers = beside_constants(drawn())
    lines = [line for line in score_lines(probers[THIS_RUN], probers) if "configtron.prober/1" in line]
    assert [json.loads(line)["yield"] for line in lines] == [1.0, 0.0, 0.0, 0.0]
    out = io.StringIO()
    tables.console(out).print(tables.probers(probers))
    assert "commonest" in out.getvalue() and "100.0 %" in out.getvalue()


def test_no_number_between_two_timers_yields_anything() -> None:
    """Timers of 0.2 and 0.31 s that may be late: 0.295 passes for both, though neither's own value does."""
    timers = [LabExpectation((0.2,), 0.5), LabExpectation((0.31,), 0.0, 0.02), LabExpectation((0.9,), 0.1, 0.02)]
    judged = [Judged("na", f"h{n}", "min_rto", seen(0.295, "A"), timer) for n, timer in enumerate(timers)]
    assert sum(is_answered(one) for one in judged) == 2
    assert score(judged).yielded == 0.0


def test_a_table_shows_what_is_not_perfect_and_ends_in_four_lines_of_sums() -> None:
    judged = [Judged("na", f"h{n}", "icw", seen(10, "A"), Truth((10,))) for n in range(4)]
    judged += [Judged("na", "h0", "rwin", seen(4, "B"), Truth((10,)))]
    plants = [PlantScore("icw", planted=2, found=2), PlantScore("rwin", planted=3, found=2)]
    short, whole = io.StringIO(), io.StringIO()
    render_score(score(judged), {}, plants, "table", short)
    render_score(score(judged), {}, plants, "table", whole, whole=True)
    sums = (
        "pairs     5 of a parameter, a site and a region\n"
        "right     4 of 5 values and bounds given (80.0 %)\n"
        "planted   4 of 5 differences between regions found (80.0 %)\n"
        "invented  0 differences; of what was given, 1 wrong\n"
    )
    assert short.getvalue().endswith(sums) and whole.getvalue().endswith(sums)
    assert "4/4" not in short.getvalue() and "4/4" in whole.getvalue()
    assert "1 of 2 parameters are not perfect" in short.getvalue()
