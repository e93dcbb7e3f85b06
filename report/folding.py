# SPDX-License-Identifier: MIT
"""Tables as plain text: in whole lines where there is no terminal, folded to its width where there is one."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import TextIO

# Between two columns.
GAP = "  "
# No word as short as this is torn; a longer one (a path, a list of settings) may be.
WHOLE_WORD = 24


def width_of(out: TextIO) -> int | None:
    """Columns of the terminal that `out` is; None for a file or pipe, which folds nothing."""
    return shutil.get_terminal_size().columns if out.isatty() else None


def table_lines(rows: Sequence[Sequence[str]], width: int | None = None, *, right: Sequence[bool] = ()) -> list[str]:
    """Lines of a table whose first row is its header; `right`: which columns are flush right.

    Cells of a table wider than `width` are wrapped at blanks. Where not even their words fit side by side, each row
    is a paragraph instead, a line or more for each of its cells that is not empty.
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
    """Each column at its least width, and the room that is left to those that want more, evenly."""
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
