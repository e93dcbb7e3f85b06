# SPDX-License-Identifier: MIT
"""`--help`, man pages, completion, and commands that are shown to be typed next, as people read them."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from configtron.cli.advanced import LongCommand
from configtron.cli.manual import contexts, write_pages
from configtron.cli.outermost import run
from configtron.cli.root import root
from configtron.cli.settings import Settings, hint
from configtron.db.store import Store
from configtron.linux.xdg import default_db
from configtron.model.errors import USAGE
from configtron.report.command_pages import COMPLETIONS
from tests.support import ROOT
from tests.support.rules import offenders
from tests.support.sources import parsed

# Columns of a narrow terminal, such as one half of a laptop's screen.
NARROW = 60
LONG = ("probe run", "learn run", "learn serve", "replay sessions", "replay study")


def pages() -> dict[str, click.Context]:
    """Return a context for every command, by its words after `configtron`."""
    return {" ".join(ctx.command_path.split()[1:]): ctx for ctx in contexts()}


def test_no_page_is_wider_than_a_narrow_terminal() -> None:
    wide = []
    for path, ctx in pages().items():
        ctx.terminal_width = NARROW
        wide += [f"{path}: {line}" for line in ctx.get_help().splitlines() if len(line) > NARROW]
    assert wide == []


def test_every_help_is_shown() -> None:
    assert {path: code for path in pages() if (code := run([*path.split(), "--help"]))} == {}


@pytest.mark.slow
@pytest.mark.parametrize("file", [
    str(file.relative_to(ROOT)) for file in sorted((ROOT / "benchmarks").rglob("*.py"))
    if 'if __name__ == "__main__"' in file.read_text()
])  # fmt: skip
def test_every_benchmark_says_what_it_is(file: str) -> None:
    """Those without options of their own took `--help` for a number or a file."""
    module = file.removesuffix(".py").replace("/", ".").removesuffix(".__main__")
    done = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "") and len(done.stdout) > 40


def test_each_command_of_learn_is_in_one_section() -> None:
    learn = pages()["learn"].command
    listed = [name for names in learn.sections.values() for name in names]  # type: ignore[attr-defined]
    assert sorted(listed) == sorted(learn.rows) and len(learn.sections) == 4  # type: ignore[attr-defined]
    text = pages()["learn"].get_help()
    headings = [f"\n{name}:\n" for name in learn.sections]  # type: ignore[attr-defined]
    assert [text.index(one) for one in headings] == sorted(text.index(one) for one in headings)


@pytest.mark.parametrize("path", LONG)
def test_rare_options_stand_last_and_each_option_once(path: str) -> None:
    ctx = pages()[path]
    assert isinstance(ctx.command, LongCommand)
    common, rare = ctx.get_help().split("\nAdvanced:\n")
    for param in ctx.command.params:
        if isinstance(param, click.Option) and not param.hidden:
            within, without = (rare, common) if param.name in ctx.command.advanced else (common, rare)
            head = f"\n  {', '.join(sorted(param.opts, key=len))}"
            assert head in f"\n{within}" and f"{head} " not in without, param.opts
    assert "--help" in common


def test_an_interface_that_is_no_text_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["fingerprint", "live"], ["probe", "192.0.2.1"], ["tune", "plan"]):
        assert run([*words, "--interface=\udcff x"]) == USAGE
        _, err = capsys.readouterr()
        assert err == "configtron: --interface: no interface is called '\\udcff x'; `ip link` lists them\n"


def test_pages_need_no_package_but_click_and_have_every_option(tmp_path: Path) -> None:
    """A wheel is built where nothing else is installed (pyproject.toml)."""
    code = (
        "import sys; from configtron.cli.manual import write_pages; write_pages(sys.argv[1])\n"
        "files = {name: getattr(module, '__file__', '') or '' for name, module in sys.modules.items()}\n"
        "own = {name.split('.')[0] for name, file in files.items() if 'site-packages' in file}\n"
        "print(*sorted(name for name in own if not name.startswith('_')))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["click"]
    page = (tmp_path / "man" / "configtron-probe-run.1").read_text()
    for word in ("\\-\\-fail\\-on EXPR", "\\-\\-shards", "alexa\\-top1k"):
        assert word in page


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("man") is None, reason="needs man-db")
def test_man_has_no_complaint(tmp_path: Path) -> None:
    write_pages(str(tmp_path))
    for page in (tmp_path / "man").iterdir():
        command = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(page)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.stderr == "", page.name


def test_completion_completes() -> None:
    asked = {"_CONFIGTRON_COMPLETE": "bash_complete", "COMP_WORDS": "configtron probe sh", "COMP_CWORD": "2"}
    command = [sys.executable, "-m", "configtron"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | asked)
    assert done.stdout == "plain,show\n"
    assert set(COMPLETIONS) == {"bash", "zsh", "fish"}


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
