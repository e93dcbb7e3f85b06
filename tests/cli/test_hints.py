# SPDX-License-Identifier: MIT
"""Commands that are shown to be typed next: with `--db`, where that names the database in use."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import click
import pytest

from configtron.cli.outermost import run
from configtron.cli.root import root
from configtron.cli.settings import Settings, hint
from configtron.db.store import Store
from configtron.linux.xdg import default_db
from configtron.model.errors import USAGE
from tests.support.rules import offenders
from tests.support.sources import parsed

CLI = Path(__file__).parents[2] / "configtron" / "cli"
COMMAND = re.compile(r"\bconfigtron (probe|fingerprint|tune|learn|replay)\b")
# Their lines go through `hint` themselves.
SPEAKERS = frozenset(("hint", "say", "warn", "write_rows"))


def test_a_hint_names_the_database_in_use() -> None:
    text = "run 1: done; see `configtron probe show 1`, or configtron learn measure"
    assert hint(text) == text
    with click.Context(root, obj=Settings(Path("my runs/h.db"))):
        named = "configtron --db 'my runs/h.db'"
        assert hint(text) == f"run 1: done; see `{named} probe show 1`, or {named} learn measure"
    with click.Context(root, obj=Settings(default_db())):
        assert hint(text) == text


def test_errors_name_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "h.db"
    with Store(path):
        pass
    assert run(["--db", str(path), "probe", "show", "7"]) == USAGE
    line = capsys.readouterr().err
    assert f"configtron --db {path} probe show" in line
    (words,) = re.findall(r"`(configtron [^`]*)`", line)
    assert run(shlex.split(words)[1:]) == 0


def has_hints_only(file: Path) -> None:
    """Errors are made hints where they are shown; docstrings and help texts name no database."""
    assert [f"{file.name}:{line}" for line in _bare(parsed(file))] == []


def test_every_line_that_names_a_command_is_a_hint() -> None:
    assert offenders(has_hints_only, sorted(CLI.rglob("*.py")), lambda file: str(file.relative_to(CLI))) == {}


def _bare(tree: ast.Module) -> list[int]:
    fine: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Raise() | ast.Expr(value=ast.Constant()):
                fine |= set(ast.walk(node))
            case ast.Call(func=ast.Name(id=name)) if name in SPEAKERS:
                fine |= set(ast.walk(node))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="click"), attr="option" | "command")):
                fine |= set(ast.walk(node))
            case ast.Assign(targets=[ast.Name(id=name)]) if name.isupper() or name == "none":
                fine |= set(ast.walk(node))  # part of errors' texts, or of `write_rows`
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and COMMAND.search(node.value)
        and node not in fine
    ]  # fmt: skip


def test_a_bare_command_is_found() -> None:
    assert _bare(ast.parse('print(f"see: configtron probe show {n}")')) == [1]
    assert _bare(ast.parse('print(hint(f"see: configtron probe show {n}"))')) == []
