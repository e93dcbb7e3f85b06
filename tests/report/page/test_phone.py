# SPDX-License-Identifier: MIT
"""Pages in real Chromium, on a telephone and on a large screen: nothing is cut or too wide, letters have one size."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element

import pytest

from configtron.report.page.charts import BarPart, Rate, heterogeneity, shares
from configtron.report.page.forest import ForestRow, forest
from configtron.report.page.markup import add, document, el, picture, scrolled, stretched
from tests.support.headless import HeadlessPage, looked_at

WORDS = "so many words that a narrow column of them is taller than the screen " * 8


def table(cells: int, rows: int = 1) -> Element:
    heads = el("thead", el("tr", *(el("th", f"head {n}") for n in range(cells))))
    return el("table", heads, el("tbody", *(el("tr", *(el("td", WORDS) for _ in range(cells))) for _ in range(rows))))


def wrong(tmp_path: Path, width: int, *body: Element) -> list[str]:
    (tmp_path / "p.html").write_text(document("page", body))
    with HeadlessPage(tmp_path / "p.html", width) as page:
        return looked_at(page, width)


@pytest.mark.parametrize("width", [390, 1400])
def test_drawings_and_tables_fit_every_screen(tmp_path: Path, width: int) -> None:
    rate = Rate(2, 3, 0.2, 0.94)
    body = (
        scrolled(table(9), "table", "card wide"),
        heterogeneity(["anywhere", "Europe"], [("Initial congestion window", [rate, rate])]),
        shares([("na", [BarPart(0, "10", 3), BarPart(1, "24", 1)])]),
        forest("p95", [ForestRow("all clients", "-9.5 % [-18.1 %, -1.0 %]", -0.1, -0.2, -0.01)]),
        scrolled(add(picture(900, 40, "wide"), el("text", "a", y=20)), "wide"),
    )
    assert wrong(tmp_path, width, *body) == []


def test_what_a_telephone_cannot_show_is_seen(tmp_path: Path) -> None:
    too_wide, *others = wrong(tmp_path, 390, table(9))
    assert too_wide.endswith("pixels wide") and others == ["1 are cut", "9 are tall"]
    scaled = el("svg", el("text", "a", y=20), viewBox="0 0 1200 40", width="100%")
    assert wrong(tmp_path, 390, scaled) == ["letters of 3.7 pixels"]
    assert wrong(tmp_path, 390, add(stretched(40, "a"), el("text", "a", y=20))) == []


def test_a_long_table_is_scrolled(tmp_path: Path) -> None:
    numbers = scrolled(el("table", el("tbody", *(el("tr", el("td", "1")) for _ in range(101)))), "numbers")
    assert numbers[0].get("class") is None and wrong(tmp_path, 390, numbers) == []
