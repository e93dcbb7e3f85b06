# SPDX-License-Identifier: MIT
"""A campaign compared: the figures of the summary and of the score, whatever the way they are counted."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest

from configtron.report.comparison import RegionComparison, compared
from configtron.report.diversity_lines import write_comparison
from configtron.report.plant_scores import planted
from configtron.report.target_results import found_in, rows_of
from tests.support import ROOT
from tests.support import tiny_run as tiny

KNOBS, VANTAGES = ("icw", "rwin", "synack_rto"), ("na", "eu", "as")


class Plant(NamedTuple):
    host: str
    knob: str
    region: str


@pytest.fixture
def found(tmp_path: Path) -> RegionComparison:
    return compared(found_in(tiny.results(tmp_path)), KNOBS, VANTAGES, "na")


def written(found: RegionComparison, form: str) -> str:
    out = io.StringIO()
    write_comparison(7, found, form, out, color=False)
    return out.getvalue()


def lines_of(found: RegionComparison) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written(found, "jsonl").splitlines()]


def test_rows_are_those_of_the_summary_and_pairs_those_of_the_score(found: RegionComparison, tmp_path: Path) -> None:
    """Planted differences and false ones are what is listed here."""
    whole = list(found_in(tiny.results(tmp_path)))
    assert [parameter.row for parameter in found.parameters] == rows_of(whole, KNOBS, "na")
    icw, timer = found.parameters
    assert (icw.row.compared, icw.row.differing, icw.row.undetermined, icw.row.mixed) == (3, 2, 1, 1)
    assert (timer.row.compared, timer.row.differing) == (4, 0)
    plants = [Plant("a.example", "icw", "eu"), Plant("c.example", "icw", "as"), Plant("b.example", "icw", "as")]
    for parameter, row in zip(found.parameters, planted(whole, plants, KNOBS, "na"), strict=True):
        assert parameter.row.knob == row.knob and row.is_perfect == (row.knob == "synack_rto")
        assert len(parameter.differences) == row.found + len(row.false)
        elsewhere = [region for region in parameter.regions if region.name != "na"]
        missed_but_same = {"icw": 1, "synack_rto": 0}[row.knob]
        assert sum(region.compared for region in elsewhere) == row.found + row.same + missed_but_same


def test_who_runs_a_site_and_who_answered(found: RegionComparison) -> None:
    assert found.sites["a.example"].provider == "One CDN" and found.sites["c.example"].provider_from == "name"
    presence = found.sites["a.example"].presences["eu"]
    assert (presence.address, presence.server, presence.rtt_s) == ("198.18.0.1", "nginx", 0.02)
    first = found.operators[0]
    assert (first.name, first.targets, first.compared, first.differing) == ("One CDN", ("a.example", "b.example"), 2, 1)
    assert found.mixed == ("e.example",) and (found.compared, found.differing) == (4, 2)


def test_json_lines_fit_their_schema(found: RegionComparison) -> None:
    schema = json.loads((ROOT / "configtron/report" / "diversity.schema.json").read_text())
    icw, timer = lines_of(found)
    for line in (icw, timer):
        jsonschema.validate(line, schema)
    assert (icw["run"], icw["differing"], icw["compared"], icw["share"]) == (7, 2, 3, 0.666667)
    assert icw["example"] == {"target": "a.example", "here": 10, "region": "as", "there": 4}
    assert icw["mixed_targets"] == ["e.example"] and icw["obstacles"] == {"too-short": 1}
    assert [(d["target"], d["region"]) for d in icw["differences"]] == [
        ("a.example", "as"), ("a.example", "eu"), ("c.example", "as"),
    ]  # fmt: skip
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**icw, "share": 2}, schema)


def test_csv_and_table_have_a_row_for_each_region(found: RegionComparison) -> None:
    rows = list(csv.DictReader(io.StringIO(written(found, "csv"))))
    assert [(row["knob"], row["region"]) for row in rows[:4]] == [("icw", r) for r in ("*", "na", "eu", "as")]
    anywhere, here, europe, asia = rows[:4]
    assert (anywhere["compared"], anywhere["differs"], anywhere["example"]) == ("3", "2", "a.example")
    assert (anywhere["same"], anywhere["undetermined"], anywhere["mixed"]) == ("1", "1", "1")
    assert (here["values"], here["compared"]) == ("[[10,2],[24,1]]", "")
    assert (europe["same"], europe["differs"], europe["undetermined"]) == ("2", "1", "1")
    assert (asia["differs"], asia["share"]) == ("2", "0.666667")
    assert "in eu" in written(found, "table") and "2/3 66.7 %" in written(found, "table")


def test_where_nothing_was_compared_nothing_is_claimed(tmp_path: Path) -> None:
    alone = (item for item in found_in(tiny.results(tmp_path)) if item.vantage == "na")
    (line,) = lines_of(compared(alone, ["icw"], ("na",), "na"))
    assert (line["share"], line["low"], line["high"], line["compared"], line["known"]) == (None, None, None, 0, 3)
