# SPDX-License-Identifier: MIT
"""Site models: small TOML files from which pages are made. The shipped ones lie in pages/.

Question   How can a page of 150 objects be written by hand, read in a minute, and still be the same everywhere?
Method     A row stands for `count` alike objects and gives their bytes together; single sizes are the quantiles of a
           log-normal distribution, dealt in an order that a checksum of the name fixes. Nothing is drawn by chance.
Reads as   name, about (one sentence), origins, gaps_ms, and rows [[objects]]:
             name     of the row; the first row is the document
             kind     html, style, script, font, image, json
             count    how many (1)
             bytes    of all of them together
             origin   one of the origins, or a list that is dealt round (the first)
             parent   a row above; its objects are dealt round (the first row)
             at       HTML parents only: part of the parent that must have arrived, one number or [from, to]
             delay_ms, wave, area   as in pages.py; area is of all of them together
Fails as   BadInput with the file's name and the row.
"""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

from configtron.lab.testbed.pages import HEAD_BYTES, REFERENCE_BYTES, TAIL_BYTES, PageModel, PageObject
from configtron.model.errors import BadInput

FOLDER = Path(__file__).with_name("pages")
SUFFIXES = {"html": "html", "style": "css", "script": "js", "font": "woff2", "image": "bmp", "json": "json"}
# Spread of the sizes of one page's images, as the logarithm's standard deviation; in web archives it is 1 to 1.5.
SIZES_SIGMA = 1.0
# No object is smaller: an image has a header, and a smaller one would be all header on the wire too.
LEAST_BYTES = 120
PAGE_COLUMNS = frozenset("name kind count bytes origin parent at delay_ms wave area".split())


@dataclass(frozen=True, slots=True)
class _Row:
    """A row, checked."""

    name: str
    kind: str
    count: int
    bytes: int
    origins: tuple[int, ...]
    parent: str
    at: tuple[float, float]
    delay_ms: float
    wave: int
    area: float


def shipped() -> dict[str, PageModel]:
    """Return the models that come with configtron, by name."""
    return {path.stem: read(path) for path in sorted(FOLDER.glob("*.toml"))}


def read(path: Path) -> PageModel:
    """Return the page of one model file."""
    try:
        page = from_toml(path.read_text())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except (BadInput, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from error
    if page.name != path.stem:
        raise BadInput(f"{path}: holds the page {page.name!r}; name the file so")
    return page


def from_toml(text: str) -> PageModel:
    """Return the page that such a text describes."""
    model = tomllib.loads(text)
    if unknown := set(model) - {"name", "about", "origins", "gaps_ms", "objects"}:
        raise BadInput(f"no such entry: {', '.join(sorted(unknown))}")
    try:
        name, origins = str(model["name"]), tuple(map(str, model["origins"]))
        rows = [_row(row, origins, i) for i, row in enumerate(model["objects"])]
        gaps = tuple(float(gap) for gap in model.get("gaps_ms", ()))
    except KeyError as error:
        raise BadInput(f"lacks {error}") from error
    except (TypeError, ValueError) as error:
        raise BadInput(str(error)) from error
    return PageModel(name, origins, with_room(_expand(name, rows)), gaps)


def _row(row: Mapping[str, Any], origins: Sequence[str], i: int) -> _Row:
    place = f"row {row.get('name', i + 1)!r}"
    if unknown := set(row) - PAGE_COLUMNS:
        raise BadInput(f"{place}: no such column: {', '.join(sorted(unknown))}")
    try:
        names = row.get("origin", origins[0])
        places = tuple(origins.index(name) for name in ([names] if isinstance(names, str) else names))
        at = row.get("at", 1.0)
        low, high = (at, at) if isinstance(at, int | float) else at
        made = _Row(
            str(row["name"]), str(row["kind"]), int(row.get("count", 1)), int(row["bytes"]), places,
            str(row.get("parent", "")), (float(low), float(high)), float(row.get("delay_ms", 0)),
            int(row.get("wave", 0)), float(row.get("area", 0)),
        )  # fmt: skip
    except KeyError as error:
        raise BadInput(f"{place}: lacks {error}") from error
    except (TypeError, ValueError) as error:
        raise BadInput(f"{place}: {error}") from error
    if made.kind not in SUFFIXES or made.count < 1 or made.bytes < made.count * LEAST_BYTES or not places:
        raise BadInput(f"{place}: a kind of {', '.join(SUFFIXES)}, at least one, each of {LEAST_BYTES} bytes or more")
    if not 0 <= low <= high <= 1:
        raise BadInput(f"{place}: at must be a part between 0 and 1, or [from, to]")
    return made


def _expand(page: str, rows: Sequence[_Row]) -> list[PageObject]:
    made: list[PageObject] = []
    kept: dict[str, list[int]] = {}
    for row in rows:
        if row.name in kept or (made and row.parent and row.parent not in kept):
            raise BadInput(f"row {row.name!r}: named twice, or its parent {row.parent!r} is no row above")
        parents = kept[row.parent] if row.parent else [0] if made else []
        begin = len(made)
        for k, size in enumerate(sizes(f"{page}/{row.name}", row.count, row.bytes)):
            number = str(k + 1) if row.count > 1 else ""
            parent = parents[k % len(parents)] if parents else -1
            share = row.at[0] + (row.at[1] - row.at[0]) * (k + 0.5) / row.count
            offset = _offset(made[parent], share) if parents else 0
            path = f"/{page}/{row.name}{number}.{SUFFIXES[row.kind]}"
            origin = row.origins[k % len(row.origins)]
            area = row.area / row.count
            made.append(PageObject(path, size, row.kind, origin, parent, offset, row.delay_ms, row.wave, area))
        kept[row.name] = list(range(begin, len(made)))
    return made


def _offset(parent: PageObject, share: float) -> int:
    return max(1, round(share * parent.size)) if parent.kind == "html" else parent.size


def sizes(name: str, count: int, total: int) -> list[int]:
    """`count` sizes with that sum, log-normal, in an order of the name's own."""
    normal = NormalDist(0, SIZES_SIGMA)
    weights = [math.exp(normal.inv_cdf((k + 0.5) / count)) for k in range(count)]
    weights.sort(key=lambda weight: hashlib.sha256(f"{name}/{weight:.9f}".encode()).digest())
    spare = total - count * LEAST_BYTES
    made = [LEAST_BYTES + math.floor(spare * weight / sum(weights)) for weight in weights]
    made[-1] += total - sum(made)
    return made


def with_room(things: Sequence[PageObject]) -> tuple[PageObject, ...]:
    """Return the same objects, those named by HTML moved to where there is room for the tag that names them.

    A tag ends at its object's offset; before it stand the document's head and the tags named earlier. Objects whose
    offset lies after the last place that leaves room for those behind them come earlier.
    """
    made = list(things)
    for parent, document in enumerate(things):
        if document.kind != "html":
            continue
        named = sorted((t.offset, i) for i, t in enumerate(things) if t.parent == parent)
        least = HEAD_BYTES
        for k, (offset, i) in enumerate(named):
            behind = len(named) - 1 - k
            last = document.size - TAIL_BYTES - behind * REFERENCE_BYTES
            least = max(least + REFERENCE_BYTES, min(offset, last))
            made[i] = replace(things[i], offset=least)
    return tuple(made)
