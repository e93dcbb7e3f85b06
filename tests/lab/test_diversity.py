# SPDX-License-Identifier: MIT
"""Table 2 of a lossy lab run: the figures that the score against the planted differences counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab.test_campaign import configtron

pytestmark = pytest.mark.lab
WORDS = ("probe", "alexa-top1k", "--lab", "--sites", "40", "--seed", "81", "--lab-loss", "5", "--lab-troubles")


def lines(home: Path, *words: str) -> list[dict[str, object]]:
    done = configtron(home, *words, "-f", "jsonl")
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_table_counts_what_the_score_counts(tmp_path: Path) -> None:
    assert configtron(tmp_path, "-q", *WORDS, "-o", str(tmp_path / "found")).returncode in (0, 3)
    scored = {line["knob"]: line for line in lines(tmp_path, "probe", "validate")
              if line["schema"] == "configtron.planted/1"}  # fmt: skip
    rows = {line["knob"]: line for line in lines(tmp_path, "fingerprint", "diversity", "last")}
    assert rows.keys() == scored.keys() and len(rows) == 9
    for knob, row in rows.items():
        differences = row["differences"]
        assert isinstance(differences, list)
        found, false = scored[knob]["found"], scored[knob]["false"]
        assert isinstance(found, int) and isinstance(false, int)
        assert len(differences) == found + false, knob
    assert any(row["differences"] for row in rows.values())
    page = configtron(tmp_path, "fingerprint", "diversity", "last", "-f", "html").stdout.decode()
    assert "No packets to show" not in page and page.count("<svg") > len(rows)
