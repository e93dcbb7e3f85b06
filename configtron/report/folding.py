# SPDX-License-Identifier: MIT
"""Tables as plain text, wrapped to the width of the terminal; not wrapped in files and pipes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TextIO

# Between two columns.
GAP = "  "
# Longest word that is never broken; a longer one (a path, a list of settings) may be.
WHOLE_WORD = 24


def width_of(out: TextIO) -> int | None:
    """Return the width of a terminal in columns; None for a file or pipe, in which tables are not wrapped."""
    if not out.isatty():
        return None
    # Few results go to a terminal, and `shutil` loads four compressors.
    import shutil

    return shutil.get_terminal_size().columns


def table_lines(rows: Sequence[Sequence[str]], width: int | None = None, *, right: Sequence[bool] = ()) -> list[str]:
    """Return the lines of a table whose first row is its header; right: which columns are right-aligned.

    In a table wider than `width`, cells are wrapped at spaces. If their longest words do not fit side by side, print
    each row as a paragraph: `name  value` for each cell that is not empty.
    """
    aligned = right or [False] * len(rows[0])
    longest = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    if width is None or _total(longest) <= width:
        return [_line(row, longest, aligned) for row in rows]
    least = [max(_longest_word(row[n]) for row in rows) for n in range(len(rows[0]))]
    room = width - _total(least)
    if room < 0:
        return _paragraphs(rows, width)
    widths = share_out(least, longest, room)
    lines: list[str] = []
    for row in rows:
        cells = [_wrapped(text, wide) for text, wide in zip(row, widths, strict=True)]
        for n in range(max(map(len, cells))):
            lines.append(_line([cell[n] if n < len(cell) else "" for cell in cells], widths, aligned))
    return lines


def share_out(least: Sequence[int], longest: Sequence[int], room: int) -> list[int]:
    """Return the columns' widths: the least width of each, and an even share of the room to those that need more."""
    widths = list(least)
    wants = [most - few for most, few in zip(longest, least, strict=True)]
    for n, place in enumerate(sorted(range(len(widths)), key=wants.__getitem__)):
        more = min(wants[place], room // (len(widths) - n))
        widths[place] += more
        room -= more
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _longest_word(text: str) -> int:
    return min(max(map(len, text.split()), default=0), WHOLE_WORD)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 1), break_on_hyphens=False) or [""]


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    texts = zip(cells, widths, right, strict=True)
    return GAP.join(text.rjust(wide) if flush else text.ljust(wide) for text, wide, flush in texts).rstrip()


def _paragraphs(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    head, *rest = rows
    names = max(map(len, head))
    lines: list[str] = []
    for row in rest:
        lines += [""] if lines else []
        for name, text in zip(head, row, strict=True):
            for n, part in enumerate(_wrapped(text, width - names - len(GAP)) if text else ()):
                lines.append(f"{'' if n else name:<{names}}{GAP}{part}")
    return lines
