# SPDX-License-Identifier: MIT
"""`replay study` on the command line, over the shipped tensor and with a study of no guests."""

from __future__ import annotations

import csv
import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.lab.testbed import measure as measuring
from configtron.model.errors import CONDITION, DONE, NOTHING, PARTIAL, USAGE
from configtron.studies import lessons
from configtron.studies.output.results import ABSENT, HOLDS, Evaluated, Fact, Table
from configtron.studies.registry import listing
from configtron.studies.registry.kinds import Arguments, PartsProgress
from tests.support import ROOT
from tests.support.lab import pretended_guest as pretend

Spoken = pytest.CaptureFixture[str]
TENSOR = str(ROOT / "fixtures" / "tensor" / "smoke.npz")


@pytest.fixture(autouse=True)
def alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))


def study(*words: str) -> int:
    return run(["replay", "study", *words])


@pytest.mark.proof
@pytest.mark.slow
def test_the_shipped_tensor_in_every_form(tmp_path: Path, capsys: Spoken) -> None:
    page = tmp_path / "x.html"
    assert study("hotcloud", "--tensor", TENSOR, "-f", "jsonl", "--html", str(page)) == DONE
    message = capsys.readouterr()
    lines = [json.loads(line) for line in message.out.splitlines()]
    assert {line["schema"] for line in lines} == {"configtron.evaluated/1"}
    facts = [line for line in lines if line["kind"] == "fact"]
    assert len(facts) == 13 and all(fact["paper"] and fact["ours"] and fact["words"] for fact in facts)
    cells = [line["row"] for line in lines if line.get("table") == "cells"]
    assert len(cells) == 12 * 3 and all(cell["gain, %"] >= 0 for cell in cells)
    assert "hotcloud: 4/4 parts" in message.err and "Warning" not in message.err
    text = page.read_text()
    assert text.count("<svg") == 5 and "<script" not in text and "http-equiv" in text
    assert all(fact["claim"].replace(">", "&gt;") in text for fact in facts)

    assert study("hotcloud", "--tensor", TENSOR, "-f", "csv") == DONE
    blocks = [list(csv.reader(block.splitlines())) for block in capsys.readouterr().out.split("\n\n")]
    assert len(blocks) == 8 and all(len({len(row) for row in block}) == 1 for block in blocks)
    assert study("hotcloud", "--tensor", TENSOR, "-f", "csv", "-o", str(tmp_path)) == DONE
    capsys.readouterr()
    files = sorted(path.name for path in tmp_path.glob("*.csv"))
    assert "hotcloud-facts.csv" in files and "hotcloud-cells.csv" in files and len(files) == 8
    assert list(csv.reader((tmp_path / "hotcloud-cells.csv").open())) in blocks

    assert study("hotcloud", "--tensor", TENSOR) == DONE
    assert "paper: 10 %" in capsys.readouterr().out
    assert study("hotcloud", "--tensor", TENSOR, "--fail-on-absent") == CONDITION


def test_a_file_that_is_called_as_a_shipped_tensor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Spoken
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hotcloud").write_text("none")
    assert study("hotcloud", "--tensor", "./hotcloud") == USAGE
    assert "hotcloud: no PLT-tensor" in capsys.readouterr().err


@pytest.mark.slow
def test_a_measurement_that_is_under_way(tmp_path: Path, capsys: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is whole is evaluated, what is not is named; with nothing whole it says what to do."""
    monkeypatch.setattr(measuring, "guests", lambda *_: pretend.guests())
    db = str(tmp_path / "x.db")
    words = ["--smoke", "--condition", "hotcloud:1/50/0", "--condition", "hotcloud:5/150/5", "--looks", "6"]
    assert run(["--db", db, "learn", "measure", *words]) == DONE
    capsys.readouterr()
    assert run(["--db", db, "replay", "study", "hotcloud", "-f", "jsonl"]) == DONE
    about = json.loads(capsys.readouterr().out.splitlines()[0])
    assert not about["missing"] and about["ground"]["software"] == '{"configtron":"pretended"}'
    for left, code in ((1, PARTIAL), (0, USAGE)):
        with sqlite3.connect(db) as connection:
            for table in ("load", "cell", "stack"):
                connection.execute(f"DELETE FROM {table} WHERE shard > ?", (left,))
            connection.execute("DELETE FROM shard WHERE id > ?", (left,))
        assert run(["--db", db, "replay", "study", "hotcloud"]) == code
        message = capsys.readouterr()
        assert ("1 of 2 conditions are not measured yet" in message.out) == bool(left)
        assert ("no condition is measured yet" in message.err) == (not left)


def pretended(given: Arguments, facts: tuple[Fact, ...], missing: str = "") -> Evaluated:
    given.progress(PartsProgress(1, 2, "one"))
    (given.folder / "kept").write_text("x")
    rows = [(given.seed, given.jobs, given.smoke, None)] if facts else []
    for software in ((("kernel", "1"),), (("kernel", "2"),))[: 1 + bool(facts)]:
        given.used(software)
    tables = [Table("t", "T", ("seed", "jobs", "smoke", "none"), rows)]
    return Evaluated("lessons", "Lessons", "p", "m", tables, [], facts, "d", (("seed", "1"),), missing)


@pytest.mark.parametrize(
    ("facts", "missing", "words", "code"),
    [
        ((Fact("c", "p", "o", HOLDS),), "", [], DONE), ((Fact("c", "p", "o", ABSENT),), "", [], DONE),
        ((Fact("c", "p", "o", ABSENT),), "", ["--fail-on-absent"], CONDITION),
        ((Fact("c", "p", "o", HOLDS),), "a part", [], PARTIAL), ((), "all", [], NOTHING),
    ],
)  # fmt: skip
def test_exit_codes(facts: tuple[Fact, ...], missing: str, words: list[str], code: int, tmp_path: Path,
                    monkeypatch: pytest.MonkeyPatch, capsys: Spoken) -> None:  # fmt: skip
    seen: list[Arguments] = []

    def ran(given: Arguments) -> Evaluated:
        seen.append(given)
        return pretended(given, facts, missing)

    monkeypatch.setattr(lessons, "STUDY", replace(lessons.STUDY, run=ran))
    folder = tmp_path / "kept"
    assert study("lessons", "--smoke", "--seed", "9", "-j", "3", "--folder", str(folder), *words) == code
    (given,) = seen
    assert (given.seed, given.jobs, given.smoke) == (9, 3, True)
    assert given.folder == folder / "lessons" / "smoke" and (given.folder / "kept").exists()
    assert ("2 different softwares" in capsys.readouterr().err) == bool(facts)


def test_the_list_is_a_table_too(capsys: Spoken) -> None:
    assert study("--list") == DONE
    table = capsys.readouterr().out
    assert [name for name in listing.names() if name not in table] == []


def test_interrupted_studies_are_resumed_by_their_own_command(tmp_path: Path, capsys: Spoken) -> None:
    db = ["--db", str(tmp_path / "x.db")]
    how = ["--tensor", TENSOR, "--sessions", "50", "-f", "jsonl"]
    assert run([*db, "replay", "study", "knobs", *how]) == DONE
    out = capsys.readouterr().out
    assert run([*db, "replay", "study", "--resume", "1", "-f", "jsonl"]) == DONE
    assert capsys.readouterr().out == out
    assert run([*db, "replay", "sessions", "--resume", "1"]) == USAGE
    assert "replay study --resume 1" in capsys.readouterr().err
    assert run([*db, "replay", "sessions", "--policy", "default", *how]) == DONE
    assert run([*db, "replay", "study", "--resume", "2"]) == USAGE
    assert "replay sessions --resume 2" in capsys.readouterr().err
