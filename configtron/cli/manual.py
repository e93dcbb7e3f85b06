# SPDX-License-Identifier: MIT
"""Manual pages, shell completions, what each driver can set, grade rules: `python -m configtron.cli.manual docs`.

Made from the commands and drivers themselves. One page a command, in man(7); they carry no date, so the same commands
give the same bytes and a test can tell when they are stale. Completion scripts are Click's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from configtron import __version__
from configtron.cli.outermost import COMPLETE
from configtron.cli.root import root
from configtron.fingerprint.grades import printed
from configtron.tune.capabilities import page
from configtron.tune.drivers import tables

# Shell -> where its completion script lies below the folder; the names are those the shells look for.
COMPLETIONS = {
    "bash": "completion/configtron",
    "zsh": "completion/_configtron",
    "fish": "completion/configtron.fish",
}


def pages() -> dict[str, str]:
    """Every file below docs/, by its name there."""
    found = {f"man/{ctx.command_path.replace(' ', '-')}.1": _page(ctx) for ctx in contexts()}
    for shell, name in COMPLETIONS.items():
        made = get_completion_class(shell)
        assert made is not None
        completion = made(root, {}, "configtron", COMPLETE)
        found[name] = completion.source_template % completion.source_vars()
    return found


def contexts(command: click.Command = root, parent: click.Context | None = None) -> Iterator[click.Context]:
    """A context for every command, parents first."""
    ctx = click.Context(command, parent, command.name if parent else "configtron", **command.context_settings)
    yield ctx
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from contexts(inner, ctx)


def _page(ctx: click.Context) -> str:
    name = ctx.command_path.replace(" ", "-")
    lines = [
        f'.TH "{name.upper()}" "1" "" "configtron {__version__}" "configtron manual"',
        ".SH NAME",
        f"{_roff(name)} \\- {_roff(ctx.command.get_short_help_str(200).rstrip('.'))}",
        ".SH SYNOPSIS",
        f"\\fB{_roff(ctx.command_path)}\\fR {_roff(' '.join(ctx.command.collect_usage_pieces(ctx)))}",
        ".SH DESCRIPTION",
        *_paragraphs(ctx.command.help or ""),
        ".SH OPTIONS",
        *_options(ctx),
        *_commands(ctx),
    ]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in cleandoc(text).split("\n\n"):
        literal = paragraph.startswith("\b\n")
        yield ".PP"
        if literal:
            yield ".nf"
        yield from (_line(line) for line in paragraph.removeprefix("\b\n").split("\n"))
        if literal:
            yield ".fi"


def _options(ctx: click.Context) -> Iterator[str]:
    for param in ctx.command.get_params(ctx):
        record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
        if record is not None:
            names, about = record
            yield from (".TP", f"\\fB{_roff(names)}\\fR", _line(about))


def _commands(ctx: click.Context) -> Iterator[str]:
    if not isinstance(ctx.command, click.Group):
        return
    yield ".SH COMMANDS"
    for name in ctx.command.list_commands(ctx):
        inner = ctx.command.get_command(ctx, name)
        assert inner is not None
        page = f"{ctx.command_path} {name}".replace(" ", "-")
        yield from (".TP", f"\\fB{_roff(name)}\\fR", _line(f"{inner.get_short_help_str(200)} See {page}(1)."))


def _line(text: str) -> str:
    """A line of text: one that begins with a dot or a quote would be a request."""
    escaped = _roff(text)
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def _roff(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")


def write(folder: Path) -> None:
    """Write all of them, the table of docs/grades.md too, and remove pages of commands that are gone."""
    made = pages()
    for old in (folder / "man").glob("*.1"):
        if f"man/{old.name}" not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "capabilities.md").write_text(page(tables()))
    if (grades := folder / "grades.md").exists():
        grades.write_text(printed(grades.read_text()))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
