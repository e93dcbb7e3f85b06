# SPDX-License-Identifier: MIT
"""Tables as plain text, wrapped to the width of the terminal; not wrapped in files and pipes."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from typing import TextIO

# Between two columns; before the second line of a row.
GAP, INDENT = "  ", "    "
# A caption's width where there is no terminal.
CAPTION = 110
# Before and after a header on a terminal.
BOLD, PLAIN = "\x1b[1m", "\x1b[m"
# Longest word that is never broken; a longer one (a path, a list of settings) may be.
WHOLE_WORD = 24


def width_of(out: TextIO) -> int | None:
    """Return the width of a terminal in columns; None for a file or pipe, in which tables are not wrapped."""
    if not out.isatty():
        return None
    # Few results go to a terminal, and `shutil` loads four compressors.
    import shutil

    return shutil.get_terminal_size().columns


def table_lines(
    rows: Sequence[Sequence[str]], width: int | None = None, *, right: Sequence[bool] = (), second: int = 0
) -> list[str]:
    """Return the lines of a table whose first row is its header; right: which columns are right-aligned.

    In a table wider than `width`, cells are wrapped at spaces. If their longest words do not fit side by side, print
    each row as a paragraph: `name  value` for each cell that is not empty. `second`: no cell is wrapped, each row of a
    table too wide has a second line from that column on, and a further one where even this is too wide.
    """
    aligned = right or [False] * len(rows[0])
    longest = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if width is None or _total(longest) <= width:
        return _rows_of(rows, longest, aligned)
    if second:
        return _several_lines(rows, longest, aligned, second, width)
    words = [[len(word) for row in rows for word in row[n].split()] for n in range(len(rows[0]))]
    least = [min(max(sizes, default=0), WHOLE_WORD) for sizes in words]
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


class Sheet:
    """A table for people: columns, rows, a title above, and a caption below; columns that are empty are left out.

    right   columns that are right-aligned
    second  the column that the second line of rows begins with, where they are too wide; "": cells are wrapped
    whole   empty columns stay
    """

    def __init__(self, *columns: str, right: Collection[str] = (), second: str = "", whole: bool = False) -> None:
        self.rows: list[Sequence[str]] = [columns]
        self.title = self.caption = ""
        self._right, self._second, self._whole = right, second, whole

    def add_row(self, *cells: str) -> None:
        """Add a row."""
        self.rows.append(cells)

    def write(self, out: TextIO, *, color: bool = True) -> None:
        """Write it and an empty line; the header is bold on a terminal that wants colours."""
        width, (head, *body) = width_of(out), self.rows
        kept = [n for n in range(len(head)) if self._whole or not body or any(row[n] for row in body)]
        rows = [[row[n] for n in kept] for row in self.rows]
        second = rows[0].index(self._second) if self._second in rows[0] else 0
        right = [name in self._right for name in rows[0]]
        lines = table_lines(rows, width, right=right, second=second)
        if color and width:
            tall = len(table_lines([rows[0], *rows], width, right=right, second=second)) - len(lines)
            lines[:tall] = [f"{BOLD}{line}{PLAIN}" for line in lines[:tall]]
        caption = [part for text in self.caption.splitlines() for part in _wrapped(text, width or CAPTION)]
        out.writelines(f"{line}\n" for line in (*filter(None, [self.title]), *lines, *caption, ""))


def share_out(least: Sequence[int], longest: Sequence[int], room: int) -> list[int]:
    """Return the columns' widths: the least width of each, and an even share of the room to those that need more."""
    widths = list(least)
    wants = [most - few for most, few in zip(longest, least, strict=True)]
    for n, place in enumerate(sorted(range(len(widths)), key=wants.__getitem__)):
        more = min(wants[place], room // (len(widths) - n))
        widths[place] += more
        room -= more
    return widths


def _rows_of(rows: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    template = GAP.join(f"{{:{'>' if flush else '<'}{wide}}}" for wide, flush in zip(widths, right, strict=True))
    return [template.format(*row).rstrip() for row in rows]


def _several_lines(
    rows: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool], second: int, width: int
) -> list[str]:
    def edges(second: int) -> list[int]:
        found = [0]
        for n in range(1, len(widths)):
            if n == second or len(INDENT) * (found[-1] > 0) + _total(widths[found[-1] : n + 1]) > width:
                found.append(n)
        return found

    # Where a line can be saved, the second one begins elsewhere.
    begins = min(edges(second), edges(0), key=len)
    parts = [slice(*pair) for pair in zip(begins, [*begins[1:], len(widths)], strict=True)]
    found = [_rows_of([row[part] for row in rows], widths[part], right[part]) for part in parts]
    lines = [(n, line) for several in zip(*found, strict=True) for n, line in enumerate(several)]
    return [f"{INDENT if n else ''}{line}" for n, line in lines if line or not n]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


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
