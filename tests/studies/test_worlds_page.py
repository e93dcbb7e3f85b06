# SPDX-License-Identifier: MIT
"""The page of studies: the paper's figures in columns of their own, curves that show what their words say."""

from __future__ import annotations

import re
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest

from configtron.report.page.markup import written
from configtron.studies.output.curves import Series, curves
from configtron.studies.output.worlds_page import digits_of, number, page
from configtron.studies.sim.metrics import Measured
from configtron.studies.simulated.points import Plot, Point, SessionsStudy, StudyNumbers, summed

STUDY = SessionsStudy(
    "small", "A <small> study", "CT Fig. 1", "It claims", lambda *_: [], "It differs", figures={("a", "gain"): "0.19"},
    plots=(Plot("way", "update", "distance", log_x=True),),
)  # fmt: skip
WORLDS = [
    [Point("a", "gain", 0.1 + world), Point("b", "gain", 0.3), Point("a", "other", 7.0),
     *(Point("a", "way", 1.0 / x + world, x) for x in (1.0, 10.0, 100.0))]
    for world in (0.0, 0.1)
]  # fmt: skip


def numbers(tensor: str) -> StudyNumbers:
    return StudyNumbers(STUDY, tensor, tensor == "analytic", summed(STUDY, WORLDS))


def test_the_paper_stands_beside_ours() -> None:
    text = page([numbers("analytic")], "Seeds 1, 2.")
    assert "A &lt;small&gt; study" in text and "Seeds 1, 2." in text and "It differs" in text
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', text)
    assert heads == ["", "gain", "paper: gain", "other"]
    cells = re.findall(r'<td class="(\w+)">(.*?)</td>', text)
    assert cells[:3] == [("num", "0.150"), ("interval", "-0.485 to 0.785"), ("paper", "<b>0.19</b>")]
    assert cells[5:9] == [("num", "0.300"), ("interval", "0.300 to 0.300"), ("paper", "<b></b>"), ("num", "–")]
    assert text.count("<svg") == 1 and "<script" not in text
    assert "arguments of the formula" in text
    measured = page([numbers("hotcloud")], "Seeds 1, 2.")
    assert "tensors that were measured" in measured and "formula" not in measured


def test_each_of_several_tensors_has_a_section() -> None:
    text = page([numbers("analytic"), numbers("hotcloud")], "Seeds 1, 2.")
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
    drawing = curves([Series("a", [(1.0, 0.2, -30.0, 40.0), (2.0, 0.4, 0.3, 0.5)])], "x", "y")
    svg = fromstring(written(drawing))
    (line,) = svg.findall("polyline")
    first, last = (float(pair.split(",")[1]) for pair in line.get("points", "").split())
    assert first - last > 50 and "long whiskers end at the edge" in svg.get("aria-label", "")
    whiskers = [one for one in svg.findall("line") if "whisker" in one.get("class", "")]
    ends = [float(one.get(key, "")) for one in whiskers for key in ("y1", "y2")]
    frame = [float(one.get("y1", "")) for one in svg.findall("line") if one.get("class") == "grid"]
    assert min(ends) <= min(frame) and max(ends) <= max(frame) + 0.1
    assert "edge" not in written(curves([Series("a", [(1.0, 0.2, 0.1, 0.3), (2.0, 0.4, 0.3, 0.5)])], "x", "y"))


def test_a_curve_shows_its_numbers() -> None:
    drawing = curves([Series("a", [(1, 0.5, 0.4, 0.6), (10, 0.25, np.nan, np.nan), (100, 0.0, 0.0, 0.1)])], "x", "y",
                     log_x=True)  # fmt: skip
    svg = fromstring(written(drawing))
    (line,) = svg.findall("polyline")
    points = [tuple(map(float, pair.split(","))) for pair in line.get("points", "").split()]
    across, up = zip(*points, strict=True)
    assert across[1] - across[0] == pytest.approx(across[2] - across[1], abs=0.2)
    assert up[0] < up[1] < up[2] and up[2] - up[1] == pytest.approx(up[1] - up[0], abs=0.2)
    assert len([one for one in svg.findall("line") if "whisker" in one.get("class", "")]) == 2
    assert "0.5 at 1, 0.25 at 10" in svg.get("aria-label", "")


def test_shortened_output_is_marked() -> None:
    series = [Series("a", [(0.0, -9.0, -9.0, -9.0), (1.0, 1.0, 1.0, 1.0)])]
    whole, cut = (fromstring(written(curves(series, "x", "y", least=least))) for least in (None, -1.0))
    heights = []
    for svg in (whole, cut):
        (line,) = svg.findall("polyline")
        heights.append([float(pair.split(",")[1]) for pair in line.get("points", "").split()])
    assert heights[0] == heights[1] and "cut off at -1" in written(curves(series, "x", "y", least=-1.0))
    zero = [
        float(next(one.get("y1", "") for one in svg.findall("line") if one.get("class") == "axis"))
        for svg in (whole, cut)
    ]
    assert zero[0] < zero[1] and "cut" not in written(curves(series, "x", "y", least=-10.0))


def test_many_series_stay_apart() -> None:
    drawing = fromstring(written(curves([Series(f"s{n}", [(0.0, n, n, n)]) for n in range(14)], "x", "y")))
    looks = {(line.get("class"), line.get("stroke-dasharray")) for line in drawing.findall("polyline")}
    assert len(looks) == 14
