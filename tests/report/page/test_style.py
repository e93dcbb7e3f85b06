# SPDX-License-Identifier: MIT
"""Words of the page can be read, by day and by night (WCAG 2.1, 1.4.3: contrast of at least 4.5)."""

from __future__ import annotations

import re

import pytest

from configtron.report.page.charts import COLORS
from configtron.report.page.markup import STYLE

ENOUGH = 4.5
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


def test_contrast_by_hand() -> None:
    assert contrast("000000", "ffffff") == pytest.approx(21) and contrast("777777", "ffffff") == pytest.approx(
        4.48, 0.01
    )


@pytest.mark.parametrize("night", [False, True])
@pytest.mark.parametrize(("word", "ground"), PAIRS)
def test_words_stand_out(word: str, ground: str, night: bool) -> None:
    found = colours(night)
    assert contrast(found[word], found[ground]) >= ENOUGH
