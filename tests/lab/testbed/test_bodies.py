# SPDX-License-Identifier: MIT
"""Bodies as other programs read them, for generated pages."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.lab.testbed import bodies, model
from configtron.lab.testbed.pages import HEAD_BYTES, REFERENCE_BYTES, TAIL_BYTES, PageModel, PageObject

SHIPPED = model.shipped()
# What each kind may name.
NAMED = {
    "html": ("style", "script", "font", "image", "json"),
    "script": ("script", "image", "json"),
    "style": ("image",),
}


class Tags(HTMLParser):
    """Addresses that the tags of a document name, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.opened: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)
        self.found += [value for name, value in attrs if name in ("src", "href") and value and value.startswith("http")]


def read(page: PageModel, index: int) -> Tags:
    tags = Tags()
    tags.feed(bodies.body(page, index).decode())
    tags.close()
    return tags


@pytest.mark.parametrize("name", SHIPPED)
def test_a_reader_of_html_finds_the_tags_in_their_order(name: str) -> None:
    page = SHIPPED[name]
    for i, thing in enumerate(page.objects):
        if thing.kind == "html":
            assert read(page, i).found == [bodies.url(page, child) for child in page.children(i)]


def test_what_holds_up_the_page_stands_before_its_body() -> None:
    opened = read(SHIPPED["reference"], 0).opened
    assert opened.index("link", opened.index("link") + 1) < opened.index("script") < opened.index("body")
    assert opened.index("body") < opened.index("img")


@pytest.mark.skipif(not shutil.which("node"), reason="needs nodejs")
def test_scripts_can_be_parsed(tmp_path: Path) -> None:
    page = SHIPPED["feed"]
    inline = bodies.body(page, 0).decode().split("<script>")[1].split("</script>")[0]
    texts = [inline, *(bodies.body(page, i).decode() for i, thing in enumerate(page.objects) if thing.kind == "script")]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.js").write_text(text)
        done = subprocess.run(["node", "--check", tmp_path / f"{number}.js"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@st.composite
def pages(draw: st.DrawFn) -> PageModel:
    """Trees of a few objects, crowded or not; parents have just the room, or more."""
    kinds, parents = ["html"], [-1]
    for _ in range(draw(st.integers(0, 12))):
        parent = draw(st.sampled_from([i for i, kind in enumerate(kinds) if kind in NAMED]))
        kinds.append(draw(st.sampled_from(NAMED[kinds[parent]])))
        parents.append(parent)
    made: list[PageObject] = []
    for i, (kind, parent) in enumerate(zip(kinds, parents, strict=True)):
        room = HEAD_BYTES + TAIL_BYTES + REFERENCE_BYTES * parents.count(i)
        size = room + draw(st.integers(0, 3000)) if kind in NAMED else draw(st.integers(model.LEAST_BYTES, 5000))
        whole = made[parent].size if parent >= 0 else 0
        offset = draw(st.integers(1, whole)) if parent >= 0 and kinds[parent] == "html" else whole
        delay = draw(st.sampled_from([0.0, 2.5]))
        made.append(PageObject(f"/drawn/{i}", size, kind, draw(st.integers(0, 1)), parent, offset, delay))
    return PageModel(
        "drawn", ("www.drawn.example", "a-rather-long-name-of-a-content-network.example"), model.with_room(made)
    )


@settings(deadline=None)
@given(pages())
def test_any_page_has_bodies(page: PageModel) -> None:
    for i, thing in enumerate(page.objects):
        made = bodies.body(page, i)
        assert len(made) == thing.size
        for child in page.children(i) if thing.kind == "html" else ():
            before = made[: page.objects[child].offset]
            assert before.endswith(b">") and bodies.url(page, child).encode() in before


@given(pages())
def test_any_page_survives_json(page: PageModel) -> None:
    assert PageModel.from_json(page.to_json()) == page
