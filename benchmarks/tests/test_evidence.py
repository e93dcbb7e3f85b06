# SPDX-License-Identifier: MIT
"""The table of evidence: figures are read from outputs, a command runs once, failures show, all rows are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import evidence
from benchmarks.evidence_rows import LAB, LONG, ROWS, SHORT, Row, cell, found, several, shares
from rigs import ROOT

CSV = "study,row,column,x,value,low,high,worlds,paper\nknobs,initcwnd,p95 excess,,0.186,0,0,2,\nknobs,a,b,3,9,0,0,2,\n"
EXPERIMENTS = (ROOT / "docs" / "experiments.md").read_text()


def alive() -> list[list[str]]:
    """The cells of the rows of docs/experiments.md's table."""
    body = EXPERIMENTS.split("## Alive")[1].split("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in body.splitlines() if line.startswith("| ")]
    return [[one.strip(" |") for one in row] for row in rows[1:]]


def test_figures_are_read_out_of_outputs() -> None:
    assert cell("initcwnd", "p95 excess", "{:.1f} %", 100.0)(CSV) == "18.6 %"
    assert several(("here", found(r"a (\d)")), ("there", found(r"b (\d)")))("a 1 b 2") == "here 1, there 2"
    line = '{"knob":"icw","values":[{"value":10,"share":0.625}],"differing":1,"compared":20}'
    assert shares("icw")(line) == "10 62.5 %; 5.0 % differ"
    for read in (cell("initcwnd", "other"), cell("a", "b"), found("moon")):
        with pytest.raises(LookupError):
            read(CSV)


def test_a_command_runs_once_and_what_fails_is_told() -> None:
    ran = []

    def how(command: str) -> tuple[str, float]:
        ran.append(command)
        if command == "broken":
            raise LookupError("exit code 2: no such thing")
        return "figure 7", 3.0

    rows = (
        Row("CT 1", "one", "6", "works", found(r"figure (\d)")), Row("CT 1", "two", "-", "works", found("moon")),
        Row("CT 2", "three", "-", "broken", found("x")), Row("CT 3", "four", "-", "slow", found("x"), LONG),
    )  # fmt: skip
    lines, missing = evidence.table(rows, lambda row: row.cost == SHORT, how)
    assert ran == ["works", "broken"] and missing == 2
    ours = [line[3] for line in lines]
    assert (ours[0], ours[3]) == ("7", evidence.NOT_RUN)
    assert ours[1].startswith(evidence.FAILED) and "exit code 2" in ours[2]
    text = evidence.page(lines, "abc", "today")
    assert "today at commit abc" in text and text.count("\n| ") == 6


def test_a_real_command_gives_its_figure(tmp_path: Path) -> None:
    table = tmp_path / "evidence.md"
    assert evidence.main(["--only", "tests/test_knobs.py", "-o", str(table)]) == 0
    (row,) = [line for line in table.read_text().splitlines() if "| knobs |" in line]
    assert re.search(r"\| \d+ tests pass \|", row) and evidence.NOT_RUN in table.read_text()


def test_a_command_that_fails_is_an_error() -> None:
    with pytest.raises(LookupError, match="exit code 3"):
        evidence.run("exit 3")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.paper} {row.what}")
def test_each_row_names_a_command_that_exists(row: Row) -> None:
    assert row.cost in (SHORT, LONG, LAB) and row.paper and row.what
    for module in re.findall(r"python -m (benchmarks\.\w+)", row.command):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists()
    for path in re.findall(r"tests/\S+\.py", row.command):
        assert (ROOT / path).exists()
    for name in re.findall(r"--study (\w+)", row.command):
        assert name in EXPERIMENTS


def test_every_row_of_experiments_has_our_figure_or_says_that_it_was_not_run() -> None:
    assert len(alive()) > 45
    for row in alive():
        assert len(row) == 6, row
        assert re.search(r"\d", row[-1]) or "not run" in row[-1], row


def test_benchmarks_that_no_test_runs_are_run_by_make_evidence() -> None:
    """What docs/experiments.md calls alive is run: by a test, or by a row here."""
    named = set(re.findall(r"python -m (benchmarks\.\w+)", " ".join(row[3] for row in alive())))
    run_here = set(re.findall(r"python -m (benchmarks\.\w+)", " ".join(row.command for row in ROWS)))
    files = set((ROOT / "benchmarks" / "tests").glob("test_*.py")) - {Path(__file__)}
    tests = "".join(file.read_text() for file in files)
    missing = {name for name in named - run_here if name.replace("benchmarks.", "") not in tests}
    assert missing == set()


def test_inputs_are_marked_as_such() -> None:
    for words in ("17 % overlap", "implied by the gains"):
        (row,) = [row for row in alive() if words in " ".join(row)]
        assert "put in" in " ".join(row), words
    assert "put in" in (ROOT / "docs" / "sessions.md").read_text()
