# SPDX-License-Identifier: MIT
import io
from dataclasses import replace

import pytest
from rich.table import Table

from configtron.model.nouns import Observation
from configtron.report import tables
from configtron.report.rendering import render
from configtron.report.target_results import found_in, rows_of
from tests.support.sample_results import VANTAGES, reading, result, run


def printed(table: Table) -> str:
    out = io.StringIO()
    tables.console(out).print(table)
    return out.getvalue()


def test_overview_shows_bounds_with_their_sign_and_reasons() -> None:
    text = printed(tables.overview(list(found_in(run()))))
    assert "10 B" in text and ">= 3 L" in text and "- too-short" in text and "1.03 B" in text
    assert "\x1b" not in text


def test_a_closed_port_is_explained_where_one_was_met() -> None:
    closed = reading("http_version", "!refused")
    met = found_in([result("a.example", "eu", 1, reading("icw", 10), closed)])
    words = " ".join(printed(tables.overview(list(met))).split())
    assert "refused: that port is closed (http_version, h2: port 443 unless you name another)" in words
    assert "port is closed" not in printed(tables.overview(list(found_in(run()))))


@pytest.mark.parametrize(("proof", "is_short"), [("response-ended", True), ("unverified", False)])
def test_a_page_too_short_for_the_window_is_explained(proof: str, is_short: bool) -> None:
    read = replace(reading("icw", 3), grade="L", details=(("proof", proof),))
    (item,) = found_in([result("a.example", "eu", 1, read)])
    for table in (tables.overview([item]), tables.details(item)):
        assert (
            "too short to fill the window: name a longer one by --path" in " ".join(printed(table).split())
        ) == is_short


@pytest.mark.parametrize("complete", [True, False])
def test_an_interrupted_run_claims_no_count_of_targets(complete: bool) -> None:
    out = io.StringIO()
    render(found_in(run()), VANTAGES, "table", out, complete=complete)
    assert ("targets x vantages, " in out.getvalue()) == complete


def test_details_name_file_and_frames() -> None:
    text = printed(tables.details(next(found_in(run()))))
    assert "eu/a.example/icw.2" in text and "eu.pcapng: 22 23" in text


def test_details_show_what_trials_do_not_share() -> None:
    readings = (result("a.example", "eu", n, reading("icw", value)) for n, value in ((1, 10), (2, 4)))
    assert "seen: 10, 4" in printed(tables.details(next(found_in(readings))))


def test_summary_is_like_table_2() -> None:
    text = printed(tables.summary(rows_of(list(found_in(run())), ["icw", "synack_rto"], "na")))
    assert "top values in na" in text
    assert "10 100.0 %" in text and "a.example: na 10, eu 4" in text and "20.7-100.0 %" in text
    assert "undet." in text and "mixed" in text
    assert "1 100.0 %" in text


def test_measured_times_are_printed_without_noise() -> None:
    assert tables.shown(Observation("rto", 1.0312345, grade="C")) == "1.03"
    assert tables.shown(Observation("rto", 1.0312345, grade="L")) == ">= 1.03"
    assert tables.shown(Observation("icw", 1000000, grade="C")) == "1000000"


def test_what_servers_say_moves_no_cursor() -> None:
    raw = "\x1b[2J\r\u202eEvil"
    assert tables.shown(Observation("provider", raw, grade="C")) == "\\u001b[2J\\u000d\\u202eEvil" == tables.text(raw)


def test_names_with_brackets_are_no_markup() -> None:
    table = tables.overview([])
    table.add_row("[bold]x[/bold]", *[""] * 7)
    assert "[bold]x[/bold]" in printed(table)
