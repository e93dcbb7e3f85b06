# SPDX-License-Identifier: MIT
import io
import json
from dataclasses import dataclass

from configtron.report import tables
from configtron.report.plant_scores import planted, planted_lines, share
from configtron.report.target_results import found_in
from tests.support.sample_results import reading, result


@dataclass(frozen=True)
class Planted:
    host: str
    knob: str
    region: str


# host -> window in na, eu, as; None stands for a verdict that is none.
WINDOWS = {"a": (10, 4, 10), "b": (10, None, 10), "c": (10, 10, 24), "d": (10, 10, None), "e": (10, 4, 4)}


def found(mixed: str = "") -> list[object]:
    made = []
    for host, windows in sorted(WINDOWS.items()):
        for vantage, window in sorted(zip(("na", "eu", "as"), windows, strict=True)):
            for trial in (1, 2):
                seen = [reading("icw", "!no-data" if window is None else window)]
                if host == mixed and trial == 1:
                    seen.append(reading("load_balancing", "mixed", "C", ""))
                made.append(result(host, vantage, trial, *seen))
    return list(found_in(made))


PLANTS = [Planted("a", "icw", "eu"), Planted("b", "icw", "eu"), Planted("c", "rwin", "as"), Planted("e", "icw", "eu")]


def test_planted_and_found() -> None:
    (row,) = planted(found(), PLANTS, ["icw", "rwin"], "na")
    assert (row.planted, row.found, row.same) == (3, 2, 6)
    assert [tuple(pair) for pair in row.false] == [("c", "as"), ("e", "as")]
    assert (row.hosts_planted, row.hosts_found) == ({"a", "b", "e"}, {"a", "e"})
    assert row.hosts_same == {"c", "d"} and row.hosts_false == {"c"}


def test_mixed_targets_are_in_no_pair() -> None:
    (row,) = planted(found(mixed="c"), PLANTS, ["icw"], "na")
    assert [pair.host for pair in row.false] == ["e"] and row.hosts_same == {"d"}


def test_shares_carry_their_interval() -> None:
    assert share(0, 0) == "-"
    assert share(69, 1000) == "69/1000 6.9 % (5.5-8.6)"
    rows = planted(found(), PLANTS, ["icw"], "na")
    out = io.StringIO()
    tables.console(out).print(tables.regions(rows))
    assert "2/3 66.7 %" in out.getvalue() and "2/6 33.3 %" in out.getvalue() and "1/2 50.0 %" in out.getvalue()
    (line,) = map(json.loads, planted_lines(rows))
    assert (line["planted"], line["found"], line["false"], line["false_pairs"]) == (3, 2, 2, ["c as", "e as"])
