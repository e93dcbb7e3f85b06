# SPDX-License-Identifier: MIT
"""Whatever a server sent is text in the page; its words can be read by day and night; its axes have round numbers."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.wording import visible
from configtron.report.page.charts import COLORS
from configtron.report.page.markup import STYLE, document, el, short
from configtron.report.page.ticks import log_ticks, ticks

HOSTILE = (
    "</style><script>alert(1)</script><img src=x onerror=alert(1)>\" onload='alert(1)' &lt;b&gt; \x00\x1b[31m\u202e"
)


class Reader(HTMLParser):
    """What a browser's first step would see."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: dict[str, str | None] = {}
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "p":
            self.attributes = dict(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text() | st.just(HOSTILE))
def test_text_and_attributes_stay_what_they_are(stated: str) -> None:
    reader = Reader()
    reader.feed(document(stated, [el("p", stated, el("b", stated), stated, title=stated)]))
    assert reader.tags == ["html", "head", "meta", "meta", "meta", "meta", "title", "style", "body", "p", "b"]
    assert set(reader.attributes) == {"title"}
    shown = visible(stated)
    assert reader.attributes["title"] == shown
    # Line ends and the like cannot stand in it: they are shown by number.
    assert reader.text.count(shown) >= (4 if shown else 0)


def test_long_words_are_cut() -> None:
    assert short("x" * 500) == "x" * 119 + "…" and short("x") == "x"


PAIRS = [(word, ground) for word in ("ink", "soft", "mark", "link") for ground in ("paper", "card")]
PAIRS += [(f"t{n}", f"s{n}") for n in range(COLORS)]


def colours(night: bool) -> dict[str, str]:
    day, dark = re.findall(r":root \{(.*?)\}", STYLE.read_text(), re.S)[:2]
    found = dict(re.findall(r"--([\w-]+): #([0-9a-f]{6})\b", day))
    return found | (dict(re.findall(r"--([\w-]+): #([0-9a-f]{6})\b", dark)) if night else {})


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (0, 2, 4)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize(("one", "ratio"), [("000000", 21), ("777777", 4.48)])
def test_contrast_by_hand(one: str, ratio: float) -> None:
    assert contrast(one, "ffffff") == pytest.approx(ratio, 0.01)


@pytest.mark.parametrize("night", [False, True])
@pytest.mark.parametrize(("word", "ground"), PAIRS)
def test_words_stand_out(word: str, ground: str, night: bool) -> None:
    found = colours(night)
    assert contrast(found[word], found[ground]) >= 4.5, "WCAG 2.1, 1.4.3"


@pytest.mark.parametrize(("low", "high", "words"), [
    (0.0, 1.0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]), (0.0, 0.358, ["0.0", "0.1", "0.2", "0.3"]),
    (-10.4, 21.4, ["-10", "0", "10", "20"]), (0.0, 0.12, ["0.00", "0.05", "0.10"]),
    (0.0, 39.6, ["0", "10", "20", "30"]), (0.0, 2.04, ["0.0", "0.5", "1.0", "1.5", "2.0"]),
    (0.0, 12.0, ["0", "5", "10"]), (100.0, 300.0, ["100", "150", "200", "250", "300"]),
])  # fmt: skip
def test_axes_say_round_numbers(low: float, high: float, words: list[str]) -> None:
    assert [word for _, word in ticks(low, high)] == words
    assert all(float(word) == pytest.approx(number) for number, word in ticks(low, high))


def test_logarithmic_axes_say_ones_twos_and_fives() -> None:
    assert [word for _, word in log_ticks(1.0, 7.0)] == ["1", "2", "5"]
    assert [word for _, word in log_ticks(0.8, 2e4)] == ["1", "10", "100", "1000", "10000"]
    assert [word for _, word in log_ticks(6.1, 9.3)] == ["7", "8", "9"]
