# SPDX-License-Identifier: MIT
"""`tune evaluate` as people type it, over the shipped tensor and with a study of no guests."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.cli.tune.evaluate import STUDIES
from configtron.lab.testbed import measure as measuring
from configtron.model.errors import CONDITION, DONE, NOTHING, PARTIAL, USAGE
from configtron.studies import study
from configtron.studies.results import ABSENT, HOLDS, Evaluated, Fact, Table
from configtron.studies.study import Given, Step
from rigs import ROOT
from tests.support.lab import pretended_guest as pretend

Spoken = pytest.CaptureFixture[str]
TENSOR = str(ROOT / "fixtures" / "tensor" / "smoke.npz")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of whoever runs the tests."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


def evaluate(*words: str) -> int:
    return run(["tune", "evaluate", *words])


def test_names_are_those_that_the_lab_knows() -> None:
    assert tuple(study.STUDIES) == STUDIES


def test_each_study_is_a_module_that_runs() -> None:
    for name, row in study.STUDIES.items():
        file = ROOT / "studies" / f"{row.module}.py"
        assert re.search(r"^def run\(", file.read_text(), re.M), name


def test_the_shipped_tensor_in_every_form(tmp_path: Path, capsys: Spoken) -> None:
    page = tmp_path / "x.html"
    assert evaluate("--study", "hotcloud", "--tensor", TENSOR, "-f", "jsonl", "--html", str(page)) == DONE
    told = capsys.readouterr()
    lines = [json.loads(line) for line in told.out.splitlines()]
    assert {line["schema"] for line in lines} == {"configtron.evaluated/1"}
    facts = [line for line in lines if line["kind"] == "fact"]
    assert len(facts) == 12 and all(fact["paper"] and fact["ours"] and fact["words"] for fact in facts)
    cells = [line["row"] for line in lines if line.get("table") == "cells"]
    assert len(cells) == 12 * 3 and all(cell["gain, %"] >= 0 for cell in cells)
    assert "hotcloud: 4/4 parts" in told.err and "Warning" not in told.err
    text = page.read_text()
    assert text.count("<svg") == 5 and "<script" not in text and "http-equiv" in text
    assert all(fact["claim"].replace(">", "&gt;") in text for fact in facts)

    assert evaluate("--study", "hotcloud", "--tensor", TENSOR, "-f", "csv") == DONE
    blocks = [list(csv.reader(block.splitlines())) for block in capsys.readouterr().out.split("\n\n")]
    assert len(blocks) == 8 and all(len({len(row) for row in block}) == 1 for block in blocks)
    assert evaluate("--study", "hotcloud", "--tensor", TENSOR, "-f", "csv", "-o", str(tmp_path)) == DONE
    capsys.readouterr()
    files = sorted(path.name for path in tmp_path.glob("*.csv"))
    assert "hotcloud-facts.csv" in files and "hotcloud-cells.csv" in files and len(files) == 8
    assert list(csv.reader((tmp_path / "hotcloud-cells.csv").open())) in blocks

    assert evaluate("--study", "hotcloud", "--tensor", TENSOR) == DONE
    assert "paper: 10 %" in capsys.readouterr().out
    assert evaluate("--study", "hotcloud", "--tensor", TENSOR, "--fail-on-absent") == CONDITION


def test_a_measurement_that_is_under_way(tmp_path: Path, capsys: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is whole is evaluated, what is not is named; with nothing whole it says what to do."""
    monkeypatch.setattr(measuring, "guests", lambda *_: pretend.guests())
    db = str(tmp_path / "x.db")
    words = ["--smoke", "--condition", "hotcloud:1/50/0", "--condition", "hotcloud:5/150/5", "--looks", "6"]
    assert run(["--db", db, "learn", "measure", *words]) == DONE
    capsys.readouterr()
    assert run(["--db", db, "tune", "evaluate", "--study", "hotcloud", "-f", "jsonl"]) == DONE
    about = json.loads(capsys.readouterr().out.splitlines()[0])
    assert not about["missing"] and about["ground"]["software"] == '{"configtron":"pretended"}'
    for left, code in ((1, PARTIAL), (0, USAGE)):
        with sqlite3.connect(db) as connection:
            for table in ("load", "cell", "stack"):
                connection.execute(f"DELETE FROM {table} WHERE shard > ?", (left,))
            connection.execute("DELETE FROM shard WHERE id > ?", (left,))
        assert run(["--db", db, "tune", "evaluate", "--study", "hotcloud"]) == code
        told = capsys.readouterr()
        assert ("1 of 2 conditions are not measured yet" in told.out) == bool(left)
        assert ("no condition is measured yet" in told.err) == (not left)


def test_a_tensor_of_few_published_networks_names_what_it_lacks(capsys: Spoken) -> None:
    assert evaluate("--study", "realism", "--tensor", TENSOR, "-f", "jsonl") == PARTIAL
    about, *lines = map(json.loads, capsys.readouterr().out.splitlines())
    assert about["missing"] == "not in the tensor: 44 of 46 conditions, site reference, site shop"
    assert {line["row"]["condition"] for line in lines if line.get("table") == "conditions"} == {
        "hotcloud:1/150/2.5", "hotcloud:5/150/2.5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--study", "cat"], "'cat'"),
        ([], "--study"),
        (["--study", "hotcloud"], "no measurement; configtron learn measure makes one"),
        (["--study", "hotcloud", "--tensor", "/nowhere.npz"], "/nowhere.npz: No such file"),
        (["--study", "hotcloud", "--tensor", str(ROOT / "README.md")], "no PLT-tensor"),
        (["--study", "hotcloud", "--tensor", TENSOR, "--measurement", "1"], "leave --measurement out"),
        (["--study", "lessons", "--tensor", TENSOR], "for hotcloud and realism"),
        (["--study", "hotcloud", "--tensor", TENSOR, "--html", "/nowhere/x.html"], "/nowhere/x.html: No such file"),
        (["--study", "hotcloud", "--tensor", TENSOR, "-o", "/nowhere/x"], "/nowhere/x: No such file"),
    ],
)
def test_mistakes_are_one_line(words: list[str], complaint: str, capsys: Spoken) -> None:
    assert evaluate(*words) == USAGE
    out, err = capsys.readouterr()
    assert out == "" and complaint in err.splitlines()[-1] and "Traceback" not in err


def pretended(given: Given, facts: tuple[Fact, ...], missing: str = "") -> Evaluated:
    given.tell(Step(1, 2, "one"))
    (given.folder / "kept").write_text("x")
    rows = [(given.seed, given.jobs, given.smoke, None)] if facts else []
    for software in ((("kernel", "1"),), (("kernel", "2"),))[: 1 + bool(facts)]:
        given.used(software)
    tables = [Table("t", "T", ("seed", "jobs", "smoke", "none"), rows)]
    return Evaluated("lessons", "Lessons", "p", "m", tables, [], facts, "d", (("seed", "1"),), missing)


@pytest.mark.parametrize(
    ("facts", "missing", "words", "code"),
    [
        ((Fact("c", "p", "o", HOLDS),), "", [], DONE),
        ((Fact("c", "p", "o", ABSENT),), "", [], DONE),
        ((Fact("c", "p", "o", ABSENT),), "", ["--fail-on-absent"], CONDITION),
        ((Fact("c", "p", "o", HOLDS),), "a part", [], PARTIAL),
        ((), "all", [], NOTHING),
    ],
)
def test_exit_codes(
    facts: tuple[Fact, ...],
    missing: str,
    words: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Spoken,
) -> None:
    seen: list[Given] = []

    def ran(name: str, given: Given) -> Evaluated:
        seen.append(given)
        return pretended(given, facts, missing)

    monkeypatch.setattr("configtron.cli.replay.evaluating.run", ran)
    folder = tmp_path / "kept"
    assert evaluate("--study", "lessons", "--smoke", "--seed", "9", "-j", "3", "--folder", str(folder), *words) == code
    (given,) = seen
    assert (given.seed, given.jobs, given.smoke) == (9, 3, True)
    assert given.folder == folder / "lessons" / "smoke" and (given.folder / "kept").exists()
    assert ("2 different softwares" in capsys.readouterr().err) == bool(facts)
