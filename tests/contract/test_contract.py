# SPDX-License-Identifier: MIT
"""What users and their programs rely on, against the texts in `golden/`.

A change of one of them breaks their programs: it needs a release and a news fragment. To write the texts anew:

    CONFIGTRON_CONTRACT=write .venv/bin/python -m pytest tests/contract

and commit the difference. Not here: recordings (`make golden`), pages of HTML.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from configtron.cli.manual import contexts
from configtron.cli.outermost import run
from configtron.model.errors import NOTHING
from configtron.service.lease import watchdog_process
from tests.support import ROOT
from tests.support.contract_commands import VERBS, answers_of, shape
from tests.support.contract_interfaces import CONTRACTS
from tests.support.memory_stack import Stack, stack

__all__ = ["stack"]
GOLDEN = Path(__file__).parent / "golden"
# Columns of a terminal.
WIDTH = 80


def check(name: str, text: str) -> None:
    """Compare with the golden text of this name."""
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("CONFIGTRON_CONTRACT") == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


def test_help() -> None:
    pages: dict[str, list[str]] = {}
    for ctx in contexts():
        ctx.terminal_width = ctx.max_content_width = WIDTH
        verb = (*ctx.command_path.split(), "root")[1]
        pages.setdefault(verb, []).append(f"$ {ctx.command_path} --help\n{ctx.get_help()}\n")
    assert sum(map(len, pages.values())) > 70
    for verb, texts in pages.items():
        check(f"help/{verb}", "\n".join(texts))


@pytest.mark.parametrize("verb", VERBS)
def test_answers(verb: str, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                 capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr(watchdog_process, "start", lambda context, act: "")
    monkeypatch.chdir(tmp_path)

    def typed(*words: str) -> tuple[int, str]:
        code = run(["--db", "x.db", *words])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err, printed.err
        return code, printed.out

    check(f"answers/{verb}", answers_of(verb, typed))


@pytest.mark.parametrize("name", CONTRACTS)
def test_interfaces(name: str, tmp_path: Path) -> None:
    check(name, CONTRACTS[name](tmp_path))


@pytest.mark.root
@pytest.mark.slow
def test_what_a_run_leaves(tmp_path: Path) -> None:
    """A run against a closed port of a network namespace of its own: files, and shapes of those in JSON."""
    program = [sys.executable, "-m", "configtron", "--db", "x.db", "-q", "probe", "127.0.0.1:9", "--allow", "127.0.0.1"]
    words = ["--tests", "rwin", "--profile", "quick", "--metadata-file", "metadata.json", "-o", "table.txt"]
    script = 'ip link set lo up; exec "$@"'
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(tmp_path)}
    command = ["unshare", "--net", "sh", "-c", script, "sh", *program, *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == NOTHING, done.stderr
    lines = []
    for file in sorted(path for path in tmp_path.rglob("*") if path.is_file() and "x.db-" not in path.name):
        rows = file.read_text().splitlines() if file.suffix in (".json", ".jsonl") else []
        name = file.relative_to(tmp_path)
        lines.append(f"{name}: {shape([json.loads(row) for row in rows])}\n" if rows else f"{name}\n")
    check("run_folder", "".join(lines))
