# SPDX-License-Identifier: MIT
"""Elements of HTML and SVG, escaped because they are built as a tree and never as text.

Rules for this file: any text of a server may stand in a page, and stays text there. Characters that do not print
(control characters, marks that turn the direction of writing) are shown by their number, so that no name can pose as
another.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from xml.etree.ElementTree import Element

from configtron.model.wording import visible

Child = Element | str | None
# The browser, too, keeps a page from loading or running anything.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = Path(__file__).with_name("style.css")
# Elements without content; and those whose text is ours and not escaped.
VOID, SHEET, SCRIPT = {"meta", "br", "input", "wbr"}, "style", "script"
# Longer texts of strangers are cut here, for the reader's eye; JSON has them whole.
LONGEST = 120
# Rows of a table that become cards on a telephone; more are a list to scroll.
MOST_CARDS = 100
# Classes of tables that hold numbers alone, which a reader compares down a column.
NUMBERS = ("matrix", "figures")


def el(name: str, /, *children: Child, **attributes: object) -> Element:
    """Return an element. `class_` is the attribute class, `stroke_width` stroke-width; None leaves an attribute out."""
    made = Element(name)
    for key, value in attributes.items():
        if value is not None:
            word = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
            made.set(key.removesuffix("_").replace("_", "-"), visible(word))
    return add(made, *children)


def add(parent: Element, *children: Child) -> Element:
    """Add children at the end of the parent; return it."""
    for child in children:
        if isinstance(child, str):
            last = parent[-1] if len(parent) else None
            if last is None:
                parent.text = (parent.text or "") + visible(child)
            else:
                last.tail = (last.tail or "") + visible(child)
        elif child is not None:
            parent.append(child)
    return parent


def short(text: str, longest: int = LONGEST) -> str:
    """Return the text, cut if it is too long for the eye."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def picture(width: float, height: float, words: str) -> Element:
    """Return a drawing of so many pixels, which the page never scales: its letters stay as large as the page's."""
    box = f"0 0 {width:.0f} {height:.0f}"
    return el("svg", role="img", viewBox=box, width=f"{width:.0f}", height=f"{height:.0f}", aria_label=words)


def stretched(height: float, words: str) -> Element:
    """Return a drawing as wide as its place: in it x is a `percent`, y are pixels, and letters keep their size."""
    return el("svg", role="img", width="100%", height=f"{height:.0f}", aria_label=words)


def percent(x: float) -> str:
    """Return a place or a length across a stretched drawing, of 0 to 100."""
    return f"{x:.2f}%"


def scrolled(inner: Element, label: str, class_: str = "wide") -> Element:
    """Wrap an element that may be wider than the screen in a frame that the keyboard can scroll.

    A table of at most `MOST_CARDS` rows becomes a card a row on a telephone, unless it is one of `NUMBERS`.
    """
    if inner.tag == "table" and inner.get("class") not in NUMBERS:
        _name_cells(inner)
    return el("div", inner, class_=class_, tabindex=0, role="region", aria_label=label)


def _name_cells(table: Element) -> None:
    """Give each cell the head of its column, which stands before it on a card."""
    rows = table.findall("tbody/tr")
    if len(rows) > MOST_CARDS:
        return
    table.set("class", f"rows {table.get('class', '')}".rstrip())
    heads = [head.text for head in table.findall("thead/tr/th") for _ in range(int(head.get("colspan", "1")))]
    for row in rows:
        for head, cell in zip(heads, row, strict=False):
            if head and cell.tag == "td":
                cell.set("data-head", head)


def document(title: str, body: Sequence[Element], *, refresh_s: int = 0, rules: str = "", script: str = "") -> str:
    """Return a whole page. refresh_s: after so long a browser asks for it again; 0: it does not.

    rules, script   more rules for the style sheet, and a script, written as they are: our own words and numbers, no
                    text of a stranger; the browser runs no other script
    """
    again = [el("meta", http_equiv="refresh", content=str(refresh_s))] if refresh_s else []
    sheet, ours = Element(SHEET), Element(SCRIPT)
    sheet.text, ours.text = rules, script
    hash_ = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"{POLICY}; script-src 'sha256-{hash_}'" if script else POLICY
    head = el(
        "head",
        el("meta", charset="utf-8"),
        *again,
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", title),
        sheet,
    )
    page = el("html", head, el("body", *body, ours if script else None), lang="en")
    return f"<!DOCTYPE html>\n{written(page)}\n"


def written(element: Element) -> str:
    """Return the element as HTML; every word is escaped, but for style sheet and script, which are ours."""
    if element.tag == SHEET:
        return f"<style>\n{STYLE.read_text(encoding='utf-8')}{element.text or ''}</style>"
    if element.tag == SCRIPT:
        return f"<script>{element.text}</script>"
    attributes = "".join(f' {name}="{escape(value)}"' for name, value in element.items())
    if element.tag in VOID:
        return f"<{element.tag}{attributes}>"
    inner = escape(element.text or "") + "".join(written(each) + escape(each.tail or "") for each in element)
    return f"<{element.tag}{attributes}>{inner}</{element.tag}>"


def reading_section(rows: Sequence[tuple[str, str]]) -> Element:
    """Return the section that explains the words of a page."""
    body = el("tbody", *(el("tr", el("th", word, scope="row"), el("td", text)) for word, text in rows))
    return el("section", el("h2", "How to read this", id="reading"), el("div", el("table", body), class_="card"))


def parts_of(head: Element, sections: Sequence[Element | None]) -> list[Element]:
    """Return the head of a page, with links to its sections, and the sections."""
    shown = [section for section in sections if section is not None]
    nav = el("nav", aria_label="Sections")
    for heading in (section[0] for section in shown):
        add(nav, el("a", heading.text or "", href=f"#{heading.get('id')}"))
    return [add(head, nav), el("main", *shown)]
