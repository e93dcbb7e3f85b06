# SPDX-License-Identifier: MIT
"""Pages, their models and their bodies: the same bytes for every server and client."""

from __future__ import annotations

import re
import struct
from dataclasses import replace

import pytest

from configtron.lab.testbed import bodies, model, plan
from configtron.lab.testbed.pages import KINDS, PageModel, PageObject
from configtron.model.errors import BadInput

SHIPPED = model.shipped()
EACH = [pytest.param(page, id=name) for name, page in SHIPPED.items()]
# A document that names a script, which names an image.
SMALL = PageModel(
    "small",
    ("a.example", "b.example"),
    (
        PageObject("/small/index.html", 9000, "html", area=1),
        PageObject("/small/run.js", 4000, "script", 0, 0, 2000),
        PageObject("/small/seen.bmp", 5000, "image", 1, 1, 4000, delay_ms=3),
    ),
)


def test_the_shipped_sites() -> None:
    assert len(SHIPPED) >= 12
    assert min(len(page.objects) for page in SHIPPED.values()) == 1
    news, yardstick = SHIPPED["news"], SHIPPED["yardstick"]
    assert len(news.objects) == 150 and len(news.origins) >= 4
    assert (len(yardstick.objects), yardstick.size) == (40, 1_200_000)
    assert sum(bool(page.gaps_ms) for page in SHIPPED.values()) == 2
    assert {thing.kind for page in SHIPPED.values() for thing in page.objects} == set(KINDS)


@pytest.mark.parametrize("page", EACH)
def test_json_keeps_a_page(page: PageModel) -> None:
    assert PageModel.from_json(page.to_json()) == page


@pytest.mark.parametrize("text", ["", "[]", '{"name": 1}', SMALL.to_json().replace('"size"', '"length"')])
def test_what_is_no_page_is_reported(text: str) -> None:
    with pytest.raises(BadInput):
        PageModel.from_json(text)


@pytest.mark.parametrize("page", EACH)
def test_bodies_have_their_length_and_name_what_they_must(page: PageModel) -> None:
    for i, thing in enumerate(page.objects):
        made = bodies.body(page, i)
        assert len(made) == thing.size
        for child in page.children(i):
            place = bodies.url(page, child).encode()
            assert made.count(b'"' + place + b'"') + made.count(b"(" + place + b")") == 1
            # the tag's last byte is the offset's: not one byte earlier, not one later
            if thing.kind == "html":
                before = made[: page.objects[child].offset]
                assert place in before and before.endswith(b">")


def test_scripts_ask_after_their_delay() -> None:
    asked = re.search(r'setTimeout\(function\(\)\{N\("image","([^"]+)"\)\},3\)', bodies.body(SMALL, 1).decode())
    assert asked and asked[1] == "https://b.example/small/seen.bmp"


def test_pictures_are_bitmaps() -> None:
    made = bodies.body(SMALL, 2)
    size, head, width, height = struct.unpack_from("<2xI4xI4xii", made)
    assert (made[:2], size) == (b"BM", 5000) and head + width * 3 * height <= 5000


def changed(number: int, **fields: object) -> PageModel:
    things = list(SMALL.objects)
    things[number] = replace(things[number], **fields)  # type: ignore[arg-type]
    return replace(SMALL, objects=tuple(things))


@pytest.mark.parametrize(
    ("number", "fields", "fault"),
    [
        (0, {"kind": "image"}, "first object"), (0, {"size": 900, "path": "/x"}, "too few|does not fit"),
        (1, {"kind": "film"}, "kind"), (1, {"path": "small"}, "path"), (1, {"path": "/../etc/passwd"}, "path"),
        (1, {"path": "/small/index.html"}, "one address"), (1, {"parent": 1}, "stand before"),
        (1, {"offset": 9001}, "does not fit"), (1, {"wave": 1}, "no gap"), (2, {"offset": 3999}, "does not fit"),
        (2, {"origin": 2}, "no such origin"), (2, {"delay_ms": -1.0}, "negative"),
        (1, {"kind": "image"}, "names nothing"),
    ],
)  # fmt: skip
def test_faults_are_named(number: int, fields: dict[str, object], fault: str) -> None:
    with pytest.raises(BadInput, match=fault):
        changed(number, **fields)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"name": "Small page"}, "name"), ({"origins": ("a.example",)}, "no such origin"),
        ({"origins": ("a.example", "a.example")}, "each once"),
        ({"origins": ("a.example", "b;example")}, "host name"), ({"gaps_ms": (0.0,)}, "longer than nothing"),
    ],
)  # fmt: skip
def test_faults_of_the_whole_are_named(fields: dict[str, object], fault: str) -> None:
    with pytest.raises(BadInput, match=fault):
        replace(SMALL, **fields)  # type: ignore[arg-type]


def test_sizes_are_spread_and_add_up() -> None:
    made = model.sizes("page/row", 40, 600_000)
    assert sum(made) == 600_000 and min(made) >= model.LEAST_BYTES
    assert max(made) > 5 * sorted(made)[20] and made != sorted(made)
    assert made == model.sizes("page/row", 40, 600_000)


MODEL = 'name = "m"\norigins = ["m.example"]\n[[objects]]\nname = "index"\nkind = "html"\nbytes = 9000\n'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (MODEL.replace("origins", "origin"), "no such entry"),
        (MODEL.replace("name = ", "names = ", 1), "no such entry"),
        (MODEL + "colour = 1\n", "no such column: colour"), (MODEL.replace("bytes = 9000\n", ""), "lacks 'bytes'"),
        (MODEL.replace("9000", "12"), "or more"), (MODEL + 'at = "early"\n', "at|convert|unpack|values"),
        (MODEL + "at = 2\n", "between 0 and 1"), (MODEL + 'origin = "n.example"\n', "not in"),
        (MODEL + MODEL[MODEL.index("[[") :], "named twice"),
    ],
)  # fmt: skip
def test_faults_of_a_model_are_named(text: str, fault: str) -> None:
    with pytest.raises(BadInput, match=fault):
        model.from_toml(text)


def test_crowded_tags_move_apart() -> None:
    row = '[[objects]]\nname = "i"\nkind = "image"\ncount = 30\nbytes = 9000\nat = '
    for place in ("0", "1", "0.5"):
        page = model.from_toml(MODEL + row + place)
        assert len(bodies.body(page, 0)) == 9000
        offsets = [thing.offset for thing in page.objects[1:]]
        assert offsets == sorted(set(offsets))


def test_what_holds_up_a_page_is_what_stands_before_everything_else() -> None:
    reference = SHIPPED["reference"]
    held = {reference.objects[i].path for i in plan.blocking(reference)}
    assert held == {"/reference/style1.css", "/reference/style2.css", "/reference/start.js"}
    blog = SHIPPED["blog"]
    assert "/blog/counter.js" not in {blog.objects[i].path for i in plan.blocking(blog)}


def test_priorities_are_a_browser_s() -> None:
    first = PageObject("/a", 1, "style")
    assert plan.priority(first, blocks=True) == plan.HIGHEST
    script = replace(first, kind="script")
    assert plan.priority(script, blocks=True) == plan.MEDIUM and plan.priority(script, blocks=False) == plan.LOWEST
    image = replace(first, kind="image")
    assert plan.priority(image, blocks=False) == plan.LOWEST
    assert plan.priority(replace(image, area=1.0), blocks=False) == plan.LOW


def test_fonts_from_elsewhere_have_connections_of_their_own() -> None:
    font = PageObject("/f", 1, "font", origin=2)
    assert plan.pool(font) != plan.pool(replace(font, kind="image"))
    assert plan.pool(replace(font, origin=0)) == plan.pool(replace(font, origin=0, kind="image"))


def test_the_plan_has_a_line_for_everything() -> None:
    feed = SHIPPED["feed"]
    lines = plan.text([feed, SMALL], dict.fromkeys([*feed.origins, *SMALL.origins], "10.0.1.1")).splitlines()
    count = {word: sum(line.startswith(word) for line in lines) for word in ("page ", "origin ", "gap ", "object ")}
    assert count == {"page ": 2, "origin ": 4, "gap ": 2, "object ": len(feed.objects) + 3}
