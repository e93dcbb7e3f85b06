# SPDX-License-Identifier: MIT
"""The page and the forms of a study's answer: every number is there, strangers' words stay words."""

from __future__ import annotations

import io
from math import nan
from pathlib import Path

import pytest

from configtron.report.page.markup import written
from configtron.studies.output import result_lines as report
from configtron.studies.output.axes import Axes
from configtron.studies.output.claims_page import WORDS, page
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


def test_what_is_sent_again_stands_out() -> None:
    text = written(drawn(SEQUENCES))
    assert text.count('class="again"') == 1 + 1, "the legend's, and one segment"
    assert text.count('class="s0"') == 2 and text.count('class="s1"') == 1


def test_panels_share_their_axes() -> None:
    """The same second is as far from the left in both panels."""
    text = written(drawn(SEQUENCES._replace(panels=[("a", MARKS[:1], 2.0), ("b", MARKS[:1], 1.0)])))
    starts = [float(part.split()[0]) for part in text.split('d="M')[1:]]
    assert starts[1] - starts[0] == pytest.approx(380 + 84, abs=0.2)


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
