# SPDX-License-Identifier: MIT
"""Tables of plain text on a narrow terminal: nothing is lost, no short word torn, no line too long."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from configtron.report.folding import WHOLE_WORD, table_lines, width_of

HEAD = ("driver", "state", "what to do")
ROWS = [HEAD, ("route", "ok", ""), ("kmod", "absent", "load it: " + "word " * 30)]


def test_without_a_terminal_lines_are_whole() -> None:
    assert width_of(io.StringIO()) is None
    assert table_lines(ROWS)[2].startswith("kmod    absent  load it: word word")
    assert len(table_lines(ROWS)) == 3 and table_lines(ROWS, 400) == table_lines(ROWS)


def test_cells_are_wrapped_at_blanks() -> None:
    lines = table_lines(ROWS, 40)
    assert max(map(len, lines)) <= 40 and len(lines) > 5
    assert all(line.startswith(" " * 16 + "word") for line in lines[3:])


def test_rows_are_paragraphs_where_words_do_not_fit_side_by_side() -> None:
    wide = [tuple(f"column{n:02}" for n in range(12)), tuple(f"{n:010}" for n in range(11)) + ("",)]
    lines = table_lines(wide, 80)
    assert lines[:2] == ["column00  0000000000", "column01  0000000001"] and len(lines) == 11


def test_flush_right() -> None:
    assert table_lines([("a", "n"), ("x", "1"), ("y", "22")], right=[False, True]) == ["a   n", "x   1", "y  22"]


texts = st.text(st.sampled_from("ab ,"), max_size=60)
tables = st.integers(1, 9).flatmap(
    lambda n: st.lists(st.lists(texts, min_size=n, max_size=n), min_size=1, max_size=5).map(
        lambda rows: [[f"c{at}" for at in range(n)], *rows]
    )
)


@given(tables, st.integers(40, 200))
def test_no_line_is_too_long_and_no_word_is_lost(rows: list[list[str]], width: int) -> None:
    lines = table_lines(rows, width)
    assert max(map(len, lines), default=0) <= width
    short = [word for row in rows[1:] for cell in row for word in cell.split() if len(word) <= WHOLE_WORD]
    printed = " ".join(lines).split()
    assert not [word for word in set(short) if word not in printed]
