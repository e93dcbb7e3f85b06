# SPDX-License-Identifier: MIT
"""Whatever a server sent is text in the page."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.report.files import visible
from configtron.report.page.markup import document, el, short

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


@pytest.mark.parametrize(("stated", "shown"), [("a\x00b", "a\\u0000b"), ("\u202egpj", "\\u202egpj"), ("höst", "höst")])
def test_what_does_not_print_is_shown_by_number(stated: str, shown: str) -> None:
    assert visible(stated) == shown


def test_long_words_are_cut() -> None:
    assert short("x" * 500) == "x" * 119 + "…" and short("x") == "x"
