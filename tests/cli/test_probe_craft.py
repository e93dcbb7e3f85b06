# SPDX-License-Identifier: MIT
"""`probe run --craft`: refusals before anything is sent, and a plan of nothing but the user's packets."""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.model.errors import DONE, PRIVILEGE, USAGE

pytest.importorskip("scapy", reason="templates are written in Scapy's words")


def dry(folder: Path, template: str) -> int:
    (folder / "t.txt").write_text(template)
    words = ["--db", str(folder / "c.db"), "probe", "run", "192.0.2.1", "--craft", str(folder / "t.txt"), "--dry-run"]
    return run(words)


def test_a_dry_run_counts_the_users_packets_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dry(tmp_path, 'TCP(flags="S")\n') == DONE
    assert "about 2 connections each" in capsys.readouterr().err


@pytest.mark.parametrize("template", ["TCP(dst=1)\n", "TCP(\n", "", "IP(src='192.0.2.7')/TCP(flags='S')\n", "\0\n"])
def test_a_bad_template_is_one_line(tmp_path: Path, template: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dry(tmp_path, template) == USAGE
    err = capsys.readouterr().err
    assert "t.txt" in err and err.count("\n") == 1


def test_without_scapy_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "scapy.layers.inet", None)
    assert dry(tmp_path, 'TCP(flags="S")\n') == PRIVILEGE
    assert "pip install 'configtron[" in capsys.readouterr().err
