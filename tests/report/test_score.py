import io
import json
from dataclasses import dataclass

import pytest

from configtron.lab.truth import Expectation as LabExpectation
from configtron.nouns import Observation, Value
from configtron.report import score as module
from configtron.report import tables
from configtron.report.score import Judged, score, score_lines


@dataclass(frozen=True)
class Truth:
    """An expectation as simple as can be; the lab's own stands beside it below."""

    values: tuple[Value, ...] = ()
    bound: bool = False
    reason: str = ""
    reasons: tuple[str, ...] = ()

    def admits(self, value: Value | None, *, lower_bound: bool = False, reason: str = "") -> bool:
        return value in self.values if value is not None else not self.values or reason in self.reasons


def seen(value: Value | None, grade: str) -> Observation:
    return Observation("icw", value, None if value is not None else "too-short", grade=grade)


BOUND, NOTHING = Truth((10,), bound=True), Truth(reason="no-h2")


@pytest.mark.parametrize(
    ("observation", "truth", "right", "usable", "overclaim"),
    [
        (seen(10, "A"), Truth((10,)), True, True, False),
        (seen(10, "C"), Truth((10, 11)), True, False, False),
        (seen(4, "B"), Truth((10,)), False, True, True),
        (seen(4, "B"), BOUND, False, True, True),
        (seen(4, "L"), BOUND, True, True, False),
        (seen(4, "L"), Truth((10,)), True, False, False),
        (seen(11, "L"), BOUND, False, True, True),
        (seen(None, "N"), Truth((10,)), False, False, False),
        (seen(None, "N"), NOTHING, True, True, False),
        (seen("absent", "B"), NOTHING, True, True, False),
        (seen(5, "B"), NOTHING, False, True, True),
    ],
)
@pytest.mark.parametrize("kind", [Truth, LabExpectation])
def test_each_verdict_is_judged(
    observation: Observation, truth: Truth, right: bool, usable: bool, overclaim: bool, kind: type[Truth]
) -> None:
    expectation = kind(values=truth.values, bound=truth.bound, reason=truth.reason)
    result = score([Judged("na", "a", "icw", observation, expectation)])
    (row,) = result.knobs
    assert (sum(row.right.values()), row.usable, row.overclaims) == (right, usable, overclaim)
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
    console.print(tables.scores(result))
    console.print(tables.mismatches(result, 0))
    assert "75.0 %" in out.getvalue() and "1 more" in out.getvalue()


def test_wrong_values_have_rows_of_their_own_and_stand_before_those_that_nobody_gave() -> None:
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
    excused, shut = Truth((10,), reasons=("no-data",)), Truth(reason="no-synack")
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
    assert (len(think.cases), len(think.reachable), think.usable) == (3, 3, {("eu", "b")})
    assert (len(rows["shut"].cases), len(rows["shut"].reachable)) == (1, 0)
    assert (len(all_.cases), len(all_.reachable), len(all_.usable), all_.overclaims) == (5, 4, 2, 1)
    assert result.reasons == {"no-data": 2, "tls:*": 1}
    assert {miss.trouble for miss in result.mismatches} == {"think"}
    out = io.StringIO()
    tables.console(out).print(tables.troubles(result))
    assert "50.0 %" in out.getvalue() and "none" in out.getvalue()
    assert sum("configtron.trouble/1" in line for line in score_lines(result)) == 3
