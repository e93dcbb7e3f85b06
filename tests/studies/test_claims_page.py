# SPDX-License-Identifier: MIT
"""Pages and forms of a study's answer: every number is there beside the paper's, strangers' words stay words; the time
left."""

from __future__ import annotations

import io
import re
from io import StringIO
from math import nan
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import numpy as np
import pytest

from configtron.report.page.markup import written
from configtron.studies.output import result_lines as report
from configtron.studies.output.axes import Axes
from configtron.studies.output.claims_page import WORDS, page
from configtron.studies.output.curves import Series, curves
from configtron.studies.output.plots import drawn
from configtron.studies.output.results import (
    ABSENT,
    VERDICTS,
    Cloud,
    Curve,
    Curves,
    Evaluated,
    Fact,
    Heat,
    Mark,
    Plot,
    Scatter,
    Sequences,
    Table,
)
from configtron.studies.output.steps import Steps
from configtron.studies.output.worlds_page import digits_of, number
from configtron.studies.output.worlds_page import page as worlds_page
from configtron.studies.sim.metrics import Measured
from configtron.studies.simulated.points import Plot as StudyPlot
from configtron.studies.simulated.points import Point, SessionsStudy, StudyNumbers, summed
from tests.support.headless import HeadlessPage, looked_at

SCATTER = Scatter("S", "delay, ms", "rate", [Cloud("a<b", [(10, 1), (100, 2)], [(9, 1), (20, 2), (9, 3)])], True, True)
HEAT = Heat("H", ["r1", "r2"], ["c1", "c2"], [[1.0, None], [0.25, nan]], "Jain")
MARKS = [Mark(0.1, 0, 0, 1460), Mark(0.2, 1, 0, 1460), Mark(0.3, 0, 0, 1460, "again")]
SEQUENCES = Sequences("Q", [("ICW 10", MARKS, 1.25), ("ICW 30", MARKS[:1], 0.5)])
CURVES = Curves("C", "x", "y", [Curve("one", [(0, 1, nan, nan), (1, 2, nan, nan)])])


def answer(*plots: Plot, facts: tuple[Fact, ...] = (), rows: tuple[tuple[float | None, ...], ...] = ()) -> Evaluated:
    table = Table("t", "Table <t>", ("x", "y"), rows)
    return Evaluated("n", "Title", "PN", "method", [table], plots, facts, "differs here", (("seed", "1"),), "part 3")


def test_every_plot_is_drawn_and_described() -> None:
    text = page([answer(SCATTER, HEAT, SEQUENCES, CURVES)], "configtron tune evaluate")
    assert text.count("<svg") == 4 and "a&lt;b" in text and "<b<" not in text
    assert "the page is there after 1.250 s" in text and "Not whole: " in text and "part 3" in text
    assert "r1, c1: 1 Jain" in text and "r2, c2: – Jain" in text


@pytest.mark.parametrize("width", [390, 1400])
def test_a_telephone_shows_it(tmp_path: Path, width: int) -> None:
    why = "because " * 60
    facts, rows = (Fact("claim", "68 %", "12 %", ABSENT, why),), tuple((float(n), None) for n in range(101))
    (tmp_path / "p.html").write_text(page([answer(SCATTER, HEAT, SEQUENCES, CURVES, facts=facts, rows=rows)], ""))
    with HeadlessPage(tmp_path / "p.html", width) as shown:
        assert looked_at(shown, width) == []


def test_what_is_sent_again_stands_out_and_panels_share_their_axes() -> None:
    text = written(drawn(SEQUENCES))
    assert text.count('class="again"') == 1 + 1, "the legend's, and one segment"
    assert text.count('class="s0"') == 2 and text.count('class="s1"') == 1
    both = written(drawn(SEQUENCES._replace(panels=[("a", MARKS[:1], 2.0), ("b", MARKS[:1], 1.0)])))
    starts = [float(part.split()[0]) for part in both.split('d="M')[1:]]
    assert starts[1] - starts[0] == pytest.approx(380 + 84, abs=0.2), "the same second in both"


def test_axes_turn_and_bend() -> None:
    axes = Axes.around([(1, 0), (100, 5)], 200, 100, 0, log=True, flip=False)
    assert axes.across(10) == pytest.approx(axes.left + 100) and axes.up(5) == 0 and axes.up(0) == 100
    flipped = Axes.around([(0, 0), (100, 5)], 200, 100, 0, log=False, flip=True)
    assert flipped.across(100) == flipped.left < flipped.across(0)
    # what is out of the span is drawn at its end, and nothing at all has axes too
    assert axes.across(1e9) == axes.left + 200 and Axes.around([], 9, 9, 0, log=True, flip=False).xs


def test_facts_have_their_words() -> None:
    assert set(WORDS) == set(VERDICTS) == set(report.WORDS)
    facts = tuple(Fact(f"claim {v}", "68 %", "12 %", v, "because <x>") for v in VERDICTS)
    text = page([answer(facts=facts)], "")
    assert all(WORDS[v] in text for v in VERDICTS) and "because &lt;x&gt;" in text
    out = io.StringIO()
    report.write_table([answer(facts=facts, rows=((1.0, None),))], out)
    assert "NOT SO       claim absent" in out.getvalue() and "paper: 68 %" in out.getvalue()


def test_long_tables_are_cut_for_people_and_whole_for_programs() -> None:
    many = tuple((float(n), None if n else nan) for n in range(100))
    out, whole = io.StringIO(), io.StringIO()
    report.write_table([answer(rows=many, facts=(Fact("c", "", "", ABSENT),))], out)
    assert "and 70 more" in out.getvalue()
    report.write_csv([answer(rows=many)], whole)
    assert len(whole.getvalue().splitlines()) == 1 + 1 + 101 and "nan" not in whole.getvalue()
    assert "<details>" in page([answer(rows=many)], "")


STUDY = SessionsStudy(
    "small", "A <small> study", "CT Fig. 1", "It claims", lambda *_: [], "It differs", figures={("a", "gain"): "0.19"},
    plots=(StudyPlot("way", "update", "distance", log_x=True),),
)  # fmt: skip
WORLDS = [
    [Point("a", "gain", 0.1 + world), Point("b", "gain", 0.3), Point("a", "other", 7.0),
     *(Point("a", "way", 1.0 / x + world, x) for x in (1.0, 10.0, 100.0))]
    for world in (0.0, 0.1)
]  # fmt: skip


def numbers(tensor: str) -> StudyNumbers:
    return StudyNumbers(STUDY, tensor, tensor == "analytic", summed(STUDY, WORLDS))


def test_the_paper_stands_beside_ours() -> None:
    text = worlds_page([numbers("analytic")], "Seeds 1, 2.")
    assert "A &lt;small&gt; study" in text and "Seeds 1, 2." in text and "It differs" in text
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', text)
    assert heads == ["", "gain", "paper: gain", "other"]
    cells = re.findall(r'<td class="(\w+)">(.*?)</td>', text)
    assert cells[:3] == [("num", "0.150"), ("interval", "-0.485 to 0.785"), ("paper", "<b>0.19</b>")]
    assert cells[5:9] == [("num", "0.300"), ("interval", "0.300 to 0.300"), ("paper", "<b></b>"), ("num", "–")]
    assert text.count("<svg") == 1 and "<script" not in text
    assert "arguments of the formula" in text
    measured = worlds_page([numbers("hotcloud")], "Seeds 1, 2.")
    assert "tensors that were measured" in measured and "formula" not in measured


def test_each_of_several_tensors_has_a_section() -> None:
    text = worlds_page([numbers("analytic"), numbers("hotcloud")], "Seeds 1, 2.")
    assert "arguments of the formula" in text and "tensors that were measured" in text
    links = re.findall(r'<a href="#([^"]*)">([^<]*)</a>', text)
    assert links == [("small-analytic", "small on analytic"), ("small-hotcloud", "small on hotcloud")]
    assert all(f'<h2 id="{name}">' in text for name, _ in links)
    assert text.count("A &lt;small&gt; study on hotcloud") == 1


def test_a_column_has_the_same_decimals() -> None:
    column = [Measured(0.0641, 0.06, 0.07), Measured(0.0, -0.00001, 0.0), Measured(np.nan, np.nan, np.nan)]
    assert [number(one, digits_of(column)) for one in column] == [
        ("0.0641", "0.0600 to 0.0700"), ("0.0000", "0.0000 to 0.0000"), ("–", ""),
    ]  # fmt: skip
    large = [Measured(27408.4, 21111.0, np.inf), Measured(5.0, np.nan, np.nan)]
    assert [number(one, digits_of(large))[0] for one in large] == ["27408", "5"]
    assert digits_of([]) == 2 and digits_of([Measured(0.0, 0.0, 0.0)]) == 0


def test_a_wide_interval_does_not_flatten_the_curves() -> None:
    svg = fromstring(written(curves([Series("a", [(1.0, 0.2, -30.0, 40.0), (2.0, 0.4, 0.3, 0.5)])], "x", "y")))
    (_, first), (_, last) = polyline(svg)
    assert first - last > 50 and "long whiskers end at the edge" in svg.get("aria-label", "")
    lines = svg.findall("line")
    ends = [float(one.get(key, "")) for one in lines if "whisker" in one.get("class", "") for key in ("y1", "y2")]
    frame = [float(one.get("y1", "")) for one in lines if one.get("class") == "grid"]
    assert min(ends) <= min(frame) and max(ends) <= max(frame) + 0.1
    assert "edge" not in written(curves([Series("a", [(1.0, 0.2, 0.1, 0.3), (2.0, 0.4, 0.3, 0.5)])], "x", "y"))


def polyline(svg: Element) -> list[tuple[float, ...]]:
    (line,) = svg.findall("polyline")
    return [tuple(map(float, pair.split(","))) for pair in line.get("points", "").split()]


def test_a_curve_shows_its_numbers() -> None:
    drawing = curves([Series("a", [(1, 0.5, 0.4, 0.6), (10, 0.25, np.nan, np.nan), (100, 0.0, 0.0, 0.1)])], "x", "y",
                     log_x=True)  # fmt: skip
    svg = fromstring(written(drawing))
    across, up = zip(*polyline(svg), strict=True)
    assert across[1] - across[0] == pytest.approx(across[2] - across[1], abs=0.2)
    assert up[0] < up[1] < up[2] and up[2] - up[1] == pytest.approx(up[1] - up[0], abs=0.2)
    assert len([one for one in svg.findall("line") if "whisker" in one.get("class", "")]) == 2
    assert "0.5 at 1, 0.25 at 10" in svg.get("aria-label", "")
    many = fromstring(written(curves([Series(f"s{n}", [(0.0, n, n, n)]) for n in range(14)], "x", "y")))
    looks = {(line.get("class"), line.get("stroke-dasharray")) for line in many.findall("polyline")}
    assert len(looks) == 14, "many series stay apart"


def test_shortened_output_is_marked() -> None:
    series = [Series("a", [(0.0, -9.0, -9.0, -9.0), (1.0, 1.0, 1.0, 1.0)])]
    whole, cut = (fromstring(written(curves(series, "x", "y", least=least))) for least in (None, -1.0))
    assert polyline(whole) == polyline(cut) and "cut off at -1" in written(curves(series, "x", "y", least=-1.0))
    axes = [[one for one in svg.findall("line") if one.get("class") == "axis"] for svg in (whole, cut)]
    assert float(axes[0][0].get("y1", "")) < float(axes[1][0].get("y1", ""))
    assert "cut" not in written(curves(series, "x", "y", least=-10.0))


def test_a_studys_next_lot_of_parts_has_a_time_left_of_its_own() -> None:
    """18 of 24 were there; three take 10 s each; then another lot, of which none was there."""
    now, err = [0.0], StringIO()
    with Steps("study", err, color=False, clock=lambda: now[0]) as steps:
        for now[0], done, parts in (
            (0.0, 18, 24), (10.0, 19, 24), (20.0, 20, 24), (60.0, 24, 24), (60.0, 0, 8), (70.0, 1, 8), (70.0, 24, 24),
        ):  # fmt: skip
            steps.step(done, parts)
    left = [line.partition("parts, ")[2].removesuffix(" left") for line in err.getvalue().splitlines()]
    assert left == ["time left unknown", "50 s", "40 s", "0 s", "time left unknown", "70 s", "0 s"]
