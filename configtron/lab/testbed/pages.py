# SPDX-License-Identifier: MIT
"""Web pages as data: what must be fetched, from where, and what must have arrived before it can be asked for.

Question   What does a page ask of the network, whatever browser, server or stack carries it?
Method     A page is a list of objects. An object is known once `offset` bytes of its parent's body have arrived, and
           asked for `delay_ms` later (parsing, computing). Objects of wave k wait, besides, until all earlier waves are
           done and the page has then been idle for a while: what a scroll or a timer fetches on kept connections.
Reads as   TOML for people (pages/*.toml: rows that may stand for many objects, model.py), JSON between programs.
Fails as   BadInput, naming the page and the object.
Differs    from a recorded page: bodies are made (bodies.py), of the right length and kind, so that any browser can load
           them; nothing is computed, a script's work is its children's `delay_ms`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from configtron.model.errors import BadInput

# What an object can be; the kind decides its priority (load.c) and its bytes (bodies.py).
KINDS = ("html", "style", "script", "font", "image", "json")
# Only these name other objects. A script or style is read when it is whole; HTML while it comes in.
PARENTS = ("html", "style", "script")
# The longest tag that bodies.py writes to name an object, and what stands before the first one and after the last.
REFERENCE_BYTES, HEAD_BYTES, TAIL_BYTES = 230, 1500, 80
# A page's name is a folder of each of its origins; an origin stands in certificates and configurations.
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
HOST = re.compile(r"(?=.{1,100}$)[a-z0-9_-]+(\.[a-z0-9_-]+)*")


@dataclass(frozen=True, slots=True)
class PageObject:
    """One thing to fetch.

    path      in its origin, begins with "/"
    size      of the body, bytes
    kind      one of KINDS
    origin    index into the page's origins
    parent    index of the object that names it; -1 only for the page's document
    offset    bytes of the parent's body after which this object is known
    delay_ms  from then to the request
    wave      0, or the number of idle gaps before it
    area      its share of the first screen, any unit; 0 is not seen there
    """

    path: str
    size: int
    kind: str
    origin: int = 0
    parent: int = -1
    offset: int = 0
    delay_ms: float = 0.0
    wave: int = 0
    area: float = 0.0


@dataclass(frozen=True, slots=True)
class PageModel:
    """A page; objects[0] is its document, parents come before children.

    origins  host names; each has an address of its own (network.py)
    gaps_ms  idle time before wave 1, 2, ...
    """

    name: str
    origins: tuple[str, ...]
    objects: tuple[PageObject, ...]
    gaps_ms: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if fault := next(faults(self), ""):
            raise BadInput(f"page {self.name}: {fault}")

    @property
    def size(self) -> int:
        """Of all bodies, bytes."""
        return sum(thing.size for thing in self.objects)

    def children(self, parent: int) -> list[int]:
        """Return indices of the objects that this one names, in the order in which it does."""
        named = [i for i, thing in enumerate(self.objects) if thing.parent == parent]
        return sorted(named, key=lambda i: (self.objects[i].offset, i))

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> PageModel:
        try:
            row = json.loads(text)
            things = tuple(PageObject(**thing) for thing in row["objects"])
            return PageModel(row["name"], tuple(row["origins"]), things, tuple(row["gaps_ms"]))
        except (ValueError, TypeError, KeyError) as error:
            raise BadInput(f"not a page: {error}") from error


def faults(page: PageModel) -> Iterator[str]:
    """Return the page's faults, in words."""
    if not NAME.fullmatch(page.name):
        yield "a name has at most 40 small letters, digits and hyphens"
    if wrong := [origin for origin in page.origins if not HOST.fullmatch(origin)]:
        yield f"{wrong[0]!r} is no host name"
    if not page.origins or len(set(page.origins)) < len(page.origins):
        yield "origins must be there, each once"
    if not page.objects or page.objects[0].kind != "html" or page.objects[0].parent != -1:
        yield "the first object must be an html document without a parent"
    places = [(thing.origin, thing.path) for thing in page.objects]
    if len(set(places)) < len(places):
        yield "two objects have one address"
    if any(gap <= 0 for gap in page.gaps_ms):
        yield "an idle gap must be longer than nothing"
    if page.gaps_ms and any(thing.kind == "html" for thing in page.objects[1:]):
        yield "a page with idle gaps has no frames"
    for i, thing in enumerate(page.objects):
        for fault in _faults_of(page, i, thing):
            yield f"object {i} ({thing.path}): {fault}"


def _faults_of(page: PageModel, i: int, thing: PageObject) -> Iterator[str]:
    if thing.kind not in KINDS:
        yield f"kind {thing.kind!r} is none of {', '.join(KINDS)}"
    if not thing.path.startswith("/") or any(c in thing.path for c in " \"'?#\\") or ".." in thing.path:
        yield "a path begins with / and has no space, quote, query nor .."
    if not 0 <= thing.origin < len(page.origins):
        yield "no such origin"
    if not 0 <= thing.wave <= len(page.gaps_ms):
        yield f"wave {thing.wave} has no gap before it"
    if thing.wave and thing.area:
        yield "what comes after an idle gap has no part of the first screen"
    if thing.size < 1 or thing.delay_ms < 0 or thing.area < 0:
        yield "size must be at least 1, delay and area not negative"
    if i and not 0 <= thing.parent < i:
        yield "its parent must stand before it"
    elif i:
        parent = page.objects[thing.parent]
        if parent.kind not in PARENTS:
            yield f"its parent is of kind {parent.kind}, which names nothing"
        if parent.wave > thing.wave:
            yield "its parent comes in a later wave"
        if not 0 < thing.offset <= parent.size or (parent.kind != "html" and thing.offset != parent.size):
            yield f"offset {thing.offset} does not fit its parent ({parent.kind}, {parent.size} bytes)"
    room = HEAD_BYTES + TAIL_BYTES + REFERENCE_BYTES * sum(other.parent == i for other in page.objects)
    if thing.kind in PARENTS and any(other.parent == i for other in page.objects) and thing.size < room:
        yield f"{thing.size} bytes are too few to name its children; {room} would do"
