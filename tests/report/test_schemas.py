# SPDX-License-Identifier: MIT
"""Every JSON line that is printed names its schema, and fits the one that is shipped under that name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from configtron import report
from configtron.cli.outermost import run
from configtron.db.store import Store
from configtron.model.errors import DONE
from tests.support.sample_results import run as sample

FOLDER = Path(report.__file__).parent
FIXTURE = Path(__file__).parents[2] / "fixtures" / "icw"
SCHEMAS: dict[str, dict[str, Any]] = {
    form["$id"]: form for form in (json.loads(file.read_text()) for file in FOLDER.glob("*.schema.json"))
}


def fits(lines: str, schema: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in lines.splitlines()]
    assert rows
    for row in rows:
        assert row["schema"] == schema
        Draft202012Validator(SCHEMAS[schema]).validate(row)
    return rows


def test_schemas_are_schemas() -> None:
    for name, schema in SCHEMAS.items():
        Draft202012Validator.check_schema(schema)
        assert schema["properties"]["schema"] == {"const": name}


def test_runs_and_watches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = tmp_path / "x.db"
    with Store(db) as store:
        for status in ("done", "interrupted"):
            number = store.begin_run("{}")
            store.record(number, sample())
            store.finish_run(number, status)
        store.finish_watch(store.begin_watch("socket", "{}"), "done", "{}")
    assert run(["--db", str(db), "probe", "show", "-f", "jsonl"]) == DONE
    assert [row["run"] for row in fits(capsys.readouterr().out, "configtron.runs/1")] == [1, 2]
    assert run(["--db", str(db), "fingerprint", "contexts", "-f", "jsonl"]) == DONE
    fits(capsys.readouterr().out, "configtron.watches/1")
    assert run(["--db", str(db), "probe", "show", "1", "-f", "jsonl"]) == DONE
    fits(capsys.readouterr().out, "configtron.probe/1")


def test_replayed_probes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "packets", str(FIXTURE), "-f", "jsonl", "-j", "1"]) == DONE
    fits(capsys.readouterr().out, "configtron.replayed/1")
