# SPDX-License-Identifier: MIT
"""The smoke tensor as people ask for it: 576 cells over real kernels, servers and connections, each with its load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.lab.testbed.studies import STUDIES
from configtron.model.errors import DONE

pytestmark = [pytest.mark.root, pytest.mark.lab]


def test_every_cell_has_a_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    out, db = tmp_path / "cells.jsonl", str(tmp_path / "x.db")
    assert run(["-q", "--db", db, "learn", "measure", "--smoke", "-f", "jsonl", "-o", str(out)]) == DONE
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == STUDIES["smoke"].cells
    assert {(row["loads"], row["flag"]) for row in rows} == {(1, "few-loads")}
    # as asked: what the kernel reported of each cell's stack, but for the version, which the client had agreed to
    for row in rows:
        asked = {knob: str(value) for knob, value in row["settings"].items() if knob != "http_version"}
        assert row["read_back"] == asked and row["median_ms"] > 0
    assert len({row["provenance"] for row in rows}) == len(rows)
