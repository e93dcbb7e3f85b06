# SPDX-License-Identifier: MIT
"""`configtron learn initial`: from records to windows and hits; exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.model.errors import DONE, NOTHING, USAGE
from tests.support.end_state_records import rows, written


def learn(folder: Path, *words: str) -> int:
    return run(["--db", str(folder / "x.db"), "learn", "initial", *words])


def test_records_become_windows_and_hits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learn(tmp_path, "train", str(written(tmp_path / "r.jsonl", rows()))) == DONE
    assert "learned from 200 of 200 connections" in capsys.readouterr().err
    assert learn(tmp_path, "predict", "10.2.0.9", "--at", "1.7e9", "-f", "jsonl") == DONE
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    windows = {row["name"]: row["value"] for row in found if row["kind"] == "strategy"}
    assert windows == {"null": 10, "fixed": 50, "pred-low": 100, "pred-high": 100, "pred-round": 100}
    assert learn(tmp_path, "evaluate", "-f", "csv") == DONE
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.startswith("target,model,rounding,judged,hits") and len(lines) == 20


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learn(tmp_path, "train") == NOTHING
    assert learn(tmp_path, "predict", "10.2.0.9") == USAGE
    assert learn(tmp_path, "evaluate") == USAGE
    assert learn(tmp_path, "train", str(tmp_path / "absent")) == USAGE
    errors = capsys.readouterr().err
    assert "configtron --db" in errors and "learn initial train FILE" in errors and "Traceback" not in errors
