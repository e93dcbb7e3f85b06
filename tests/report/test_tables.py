# SPDX-License-Identifier: MIT
"""Tables for people, on terminals of any width: nothing is lost, no short word torn, no line too long."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.nouns import Observation
from configtron.report import printed as prints
from configtron.report import tables
from configtron.report.folding import WHOLE_WORD, Sheet, table_lines, width_of
from configtron.report.rendering import render
from configtron.report.target_results import found_in, rows_of
from tests.support.sample_results import VANTAGES, reading, result, run


def printed(table: Sheet) -> str:
    out = io.StringIO()
    table.write(out)
    return out.getvalue()


def words_of(table: Sheet) -> str:
    return " ".join(printed(table).split())


def test_overview_shows_bounds_with_their_sign_and_reasons() -> None:
    text = printed(tables.overview(list(found_in(run()))))
    assert "10 B" in text and ">= 3 L" in text and "- too-short" in text and "1.03 B" in text
    assert "\x1b" not in text and "port is closed" not in text


def test_a_closed_port_is_explained_where_one_was_met() -> None:
    hosts = [*(f"192.0.2.{n}" for n in range(1, 40)), "b.example"]
    shut = found_in(result(host, at, 1, reading("icw", "!refused")) for host in hosts for at in ("eu", "us"))
    dead = found_in([result("c.example", "eu", 1, reading("icw", "!no-synack"))])
    folded = printed(tables.overview([*shut, *dead])).splitlines()[1:]
    alike = [f"192.0.2.1 and 39 more {at} - refused" for at in ("eu", "us")]
    assert [" ".join(line.split()) for line in folded[:3]] == ["c.example eu - no-synack", *alike]
    met = found_in([result("a.example", "eu", 1, reading("icw", 10), reading("http_version", "!refused"))])
    words = words_of(tables.overview(list(met)))
    assert "refused: that port is closed (http_version, h2: port 443 unless you name another)" in words


@pytest.mark.parametrize(("proof", "is_short"), [("response-ended", True), ("unverified", False)])
def test_a_page_too_short_for_the_window_is_explained(proof: str, is_short: bool) -> None:
    read = replace(reading("icw", 3), grade="L", details=(("proof", proof),))
    (item,) = found_in([result("a.example", "eu", 1, read)])
    for table in (tables.overview([item]), tables.details(item)):
        assert ("too short to fill the window: name a longer one by --path" in words_of(table)) == is_short


@pytest.mark.parametrize("complete", [True, False])
def test_an_interrupted_run_claims_no_count_of_targets(complete: bool) -> None:
    out = io.StringIO()
    render(found_in(run()), VANTAGES, "table", out, complete=complete)
    assert ("targets x vantages, " in out.getvalue()) == complete


def test_details_name_file_and_frames_and_show_what_trials_do_not_share() -> None:
    text = printed(tables.details(next(found_in(run()))))
    assert "eu/a.example/icw.2" in text and "eu.pcapng: 22 23" in text
    readings = (result("a.example", "eu", n, reading("icw", value)) for n, value in ((1, 10), (2, 4)))
    assert "seen: 10, 4" in printed(tables.details(next(found_in(readings))))


def test_summary_is_like_table_2() -> None:
    text = printed(tables.summary(rows_of(list(found_in(run())), ["icw", "synack_rto"], "na")))
    for words in ("top values in na", "10 100.0 %", "a.example: na 10, eu 4", "20.7-100.0 %", "undet.", "mixed",
                  "1 100.0 %"):  # fmt: skip
        assert words in text


@pytest.mark.parametrize(("knob", "value", "grade", "text"), [
    # measured times are printed without noise; what servers say moves no cursor
    ("rto", 1.0312345, "C", "1.03"), ("rto", 1.0312345, "L", ">= 1.03"), ("icw", 1000000, "C", "1000000"),
    ("provider", "\x1b[2J\r\u202eEvil", "C", "\\u001b[2J\\u000d\\u202eEvil"),
])  # fmt: skip
def test_values_in_a_cell(knob: str, value: float | str, grade: str, text: str) -> None:
    assert prints.shown(Observation(knob, value, grade=grade)) == text
    assert not isinstance(value, str) or prints.text(value) == text


def test_a_row_too_wide_takes_a_second_line_and_no_word_is_torn() -> None:
    """Columns that are empty are left out; those that a user named are not."""
    rows = [("frame", "client", "server", "sent", "loss"), ("1", "192.0.2.1:40000", "[2001:db8::2]:443", "3 kB", "2 %")]
    assert len(table_lines(rows, 60, second=3)) == 2 == len(table_lines(rows, second=3))
    assert table_lines(rows, 50, second=3)[2:] == ["1      192.0.2.1:40000  [2001:db8::2]:443", "    3 kB  2 %"]
    assert [line.split()[0] for line in table_lines(rows, 24, second=3)[3:]] == ["1", "[2001:db8::2]:443", "3"]
    rows.append(("2", "192.0.2.1:40001", "[2001:db8::2]:443", "", ""))
    assert len(table_lines(rows, 50, second=3)) == 5, "no empty line"
    # with its second line elsewhere this one has two in place of three
    assert [line.split()[0] for line in table_lines(rows[:2], 46, second=1)] == ["frame", "sent", "1", "3"]
    for whole in (False, True):
        sheet = Sheet("a", "b", whole=whole)
        sheet.add_row("1", "")
        assert printed(sheet) == ("a  b\n1\n\n" if whole else "a\n1\n\n")


HEAD = ("driver", "state", "what to do")
ROWS = [HEAD, ("route", "ok", ""), ("kmod", "absent", "load it: " + "word " * 30)]


def test_plain_lines_are_whole_without_a_terminal_and_wrapped_at_blanks_on_one() -> None:
    assert width_of(io.StringIO()) is None
    assert table_lines(ROWS)[2].startswith("kmod    absent  load it: word word")
    assert len(table_lines(ROWS)) == 3 and table_lines(ROWS, 400) == table_lines(ROWS)
    lines = table_lines(ROWS, 40)
    assert max(map(len, lines)) <= 40 and len(lines) > 5
    assert all(line.startswith(" " * 16 + "word") for line in lines[3:])
    assert table_lines([("a", "n"), ("x", "1"), ("y", "22")], right=[False, True]) == ["a   n", "x   1", "y  22"]


def test_rows_are_paragraphs_where_words_do_not_fit_side_by_side() -> None:
    wide = [tuple(f"column{n:02}" for n in range(12)), tuple(f"{n:010}" for n in range(11)) + ("",)]
    lines = table_lines(wide, 80)
    assert lines[:2] == ["column00  0000000000", "column01  0000000001"] and len(lines) == 11


texts = st.text(st.sampled_from("ab ,"), max_size=60)
drawn = st.integers(1, 9).flatmap(
    lambda n: st.lists(st.lists(texts, min_size=n, max_size=n), min_size=1, max_size=5).map(
        lambda rows: [[f"c{at}" for at in range(n)], *rows]
    )
)


@given(drawn, st.integers(40, 200))
def test_no_line_is_too_long_and_no_word_is_lost(rows: list[list[str]], width: int) -> None:
    lines = table_lines(rows, width)
    assert max(map(len, lines), default=0) <= width
    short = {word for row in rows[1:] for cell in row for word in cell.split() if len(word) <= WHOLE_WORD}
    assert not short - set(" ".join(lines).split())
