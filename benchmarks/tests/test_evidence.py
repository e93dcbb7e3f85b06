# SPDX-License-Identifier: MIT
"""The table of evidence: figures are read from outputs, a command runs once, failures show, all rows are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import evidence
from benchmarks.evidence_rows import LAB, LONG, ROWS, SHORT, PaperRow, cell, found, several, shares
from tests.support import ROOT

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


def test_a_command_runs_once_and_what_fails_is_reported() -> None:
    ran = []

    def how(command: str) -> tuple[str, float]:
        ran.append(command)
        if command == "broken":
            raise LookupError("exit code 2: no such thing")
        return "figure 7", 3.0

    rows = (
        PaperRow("CT 1", "one", "6", "works", found(r"figure (\d)")),
        PaperRow("CT 1", "two", "-", "works", found("moon")),
        PaperRow("CT 2", "three", "-", "broken", found("x")), PaperRow("CT 3", "four", "-", "slow", found("x"), LONG),
    )  # fmt: skip
    lines, missing = evidence.table(rows, lambda row: row.cost == SHORT, how)
    assert ran == ["works", "broken"] and missing == 2
    ours = [line[3] for line in lines]
    assert (ours[0], ours[3]) == ("7", evidence.NOT_RUN)
    assert ours[1].startswith(evidence.FAILED) and "exit code 2" in ours[2]
    text = evidence.page(lines, "abc", "today")
    assert "today at commit abc" in text and text.count("\n| ") == 6


@pytest.mark.slow
def test_a_real_command_gives_its_figure(tmp_path: Path) -> None:
    table = tmp_path / "evidence.md"
    assert evidence.main(["--only", "tests/test_knobs.py", "-o", str(table)]) == 0
    (row,) = [line for line in table.read_text().splitlines() if "| knobs |" in line]
    assert re.search(r"\| \d+ tests pass \|", row) and evidence.NOT_RUN in table.read_text()


def test_a_command_that_fails_is_an_error() -> None:
    with pytest.raises(LookupError, match="exit code 3"):
        evidence.run("exit 3")


def lacking(row: PaperRow) -> list[str]:
    """Return what a row names that does not exist."""
    modules = [f"{one.replace('.', '/')}.py" for one in re.findall(r"python -m (benchmarks\.\w+)", row.command)]
    paths = [*modules, *re.findall(r"tests/\S+\.py", row.command)]
    studies = [name for name in re.findall(r"--study (\w+)", row.command) if name not in EXPERIMENTS]
    return [path for path in paths if not (ROOT / path).exists()] + studies


def test_each_row_names_a_command_that_exists() -> None:
    assert [row for row in ROWS if row.cost not in (SHORT, LONG, LAB) or not (row.paper and row.what)] == []
    assert {f"{row.paper} {row.what}": found for row in ROWS if (found := lacking(row))} == {}
    assert lacking(ROWS[0]._replace(command="python -m benchmarks.none tests/test_none.py")) == [
        "benchmarks/none.py", "tests/test_none.py",
    ]  # fmt: skip


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
