# SPDX-License-Identifier: MIT
"""What a browser does with a page, in an order: which objects hold others up, which are fetched first.

Question   Six connections or one: which object does a browser ask for next, and what does it wait for?
Method     Chromium's rules, for pages that make no use of hints. Styles and scripts that stand in a document before
           anything else hold up its scripts, frames and painting; the look-ahead finds all other tags meanwhile.
           Five priorities by kind, as Chromium's network stack knows them.
Reads as   the plan that the client (load/) is started with: one line for each page, origin, gap and object.
Differs    from Chromium: an image's priority does not rise when layout shows it to be visible; it has the higher one
           from the start if its model gives it a part of the first screen. A connection that is not there after 250 ms
           gets no second one beside it, which over HTTP/1.1 and long paths gives Chromium a spare one early.
Source     Chromium: third_party/blink/renderer/platform/loader/fetch/resource_fetcher.cc, net/base/request_priority.h
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from configtron.lab.testbed.pages import PageModel, PageObject

# net::RequestPriority: HIGHEST is 5 there, after THROTTLED and IDLE, which pages do not use.
LOWEST, LOW, MEDIUM, HIGHEST = 2, 3, 4, 5


def blocking(page: PageModel) -> frozenset[int]:
    """Return indices of the styles and scripts that a document names before anything else."""
    found: set[int] = set()
    for parent, document in enumerate(page.objects):
        if document.kind != "html":
            continue
        for child in page.children(parent):
            if page.objects[child].kind not in ("style", "script") or page.objects[child].wave > document.wave:
                break
            found.add(child)
    return frozenset(found)


def priority(thing: PageObject, *, blocks: bool) -> int:
    """Of the request, as Chromium would give it."""
    match thing.kind:
        case "html" | "style" | "font":
            return HIGHEST
        case "json":
            return MEDIUM
        case "script":
            return MEDIUM if blocks else LOWEST
        case _:
            return LOW if thing.area else LOWEST


def pool(thing: PageObject) -> int:
    """Connections are shared by requests of one pool: fonts from elsewhere are asked for without credentials."""
    return 2 * thing.origin + (thing.kind == "font" and thing.origin != 0)


def text(pages: Iterable[PageModel], address: Mapping[str, str]) -> str:
    """Return the plan of these pages; `address` has one for every origin."""
    lines: list[str] = []
    for page in pages:
        lines += [f"page {page.name}", *(f"origin {name} {address[name]}" for name in page.origins)]
        lines += [f"gap {gap:.3f}" for gap in page.gaps_ms]
        blocks = blocking(page)
        for i, thing in enumerate(page.objects):
            first = priority(thing, blocks=i in blocks)
            lines.append(
                f"object {thing.kind} {pool(thing)} {thing.parent} {thing.offset} {thing.delay_ms:.3f} {thing.wave} "
                f"{first} {int(i in blocks)} {thing.area:.6f} {thing.size} {thing.path}"
            )
    return "\n".join([*lines, ""])
