# SPDX-License-Identifier: MIT
"""Tables on narrow terminals: no word is torn. Columns that matter least are left out, and the caption names them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Column, Table

from configtron.report.folding import share_out

# Without a terminal there is no width to keep to; wide enough for the widest table here.
PLAIN_WIDTH = 150
# A cell as short as this is one word, blanks or not: "0.0 % of 60", ">= 24 L".
SHORT = 12
# What the box takes at both ends, and between two columns.
ENDS, BETWEEN = 2, 3


class Fitting(Table):
    """A table that, where it is narrower than `PLAIN_WIDTH`, leaves out `spare` columns, the first named first."""

    spare: tuple[str, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As rich does, in columns that fit."""
        if options.max_width < PLAIN_WIDTH:
            yield self._fitted(options.max_width)
        else:
            yield from super().__rich_console__(console, options)

    def _fitted(self, width: int) -> Table:
        kept, gone = list(self.columns), list[str]()
        for name in self.spare:
            if _needed(kept) <= width:
                break
            kept = [column for column in kept if column.header != name]
            gone.append(name.replace("\n", " "))
        room = width - _needed(kept)
        least, longest = [_least(column) for column in kept], [_longest(column) for column in kept]
        widths = share_out(least, longest, room) if room >= 0 else [None] * len(kept)
        caption = [str(self.caption)] if self.caption else []
        caption += [f"for want of width without: {', '.join(gone)}; | less -S shows them"] if gone else []
        made = Table(box=self.box, title=self.title, caption="\n".join(caption) or None, pad_edge=self.pad_edge,
                     title_justify=self.title_justify, caption_justify=self.caption_justify)  # fmt: skip
        for column, wide in zip(kept, widths, strict=True):
            made.add_column(column.header, overflow=column.overflow, width=wide)
        for cells in zip(*(column.cells for column in kept), strict=True):
            made.add_row(*cells)
        return made


def _needed(columns: Sequence[Column]) -> int:
    return ENDS + BETWEEN * (len(columns) - 1) + sum(map(_least, columns))


def _least(column: Column) -> int:
    """The longest that must not be torn."""
    words = [word for line in str(column.header).splitlines() for word in line.split()]
    for cell in map(str, column.cells):
        words += [cell] if len(cell) <= SHORT else cell.split()
    return max(map(cell_len, words), default=1)


def _longest(column: Column) -> int:
    lines = [line for text in (column.header, *column.cells) for line in str(text).splitlines()]
    return max(map(cell_len, lines), default=1)
