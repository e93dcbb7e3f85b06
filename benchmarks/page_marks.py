# SPDX-License-Identifier: MIT
"""Tables between the marks of a documentation page."""

from __future__ import annotations

from pathlib import Path

from configtron.model.errors import BadInput


def between(text: str, shown: str, begin: str, end: str, *, page: Path | str) -> str:
    """Return a page's text with lines between its marks. page: its name in errors. Errors: `BadInput` without marks."""
    before, first, rest = text.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise BadInput(f"{page}: there is no {begin} ... {end}")
    return f"{before}{begin}\n{shown}{end}{after}"


def into(page: Path, text: str, begin: str, end: str) -> None:
    """Write tables between the marks of a page, as they were printed. Errors: `BadInput` for a page without them."""
    page.write_text(between(page.read_text(), f"```\n{text}```\n", begin, end, page=page))
