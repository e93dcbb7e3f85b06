# SPDX-License-Identifier: MIT
"""Tables between the marks of a documentation page."""

from __future__ import annotations

from pathlib import Path

from configtron.model.errors import BadInput


def into(page: Path, text: str, begin: str, end: str) -> None:
    """Write tables between the marks of a page. Errors: `BadInput` for a page without them."""
    before, first, rest = page.read_text().partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise BadInput(f"{page}: there is no {begin} ... {end}")
    page.write_text(f"{before}{begin}\n```\n{text}```\n{end}{after}")
