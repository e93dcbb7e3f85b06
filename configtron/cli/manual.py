# SPDX-License-Identifier: MIT
"""Manual pages, shell completions, capabilities of drivers, grade rules: `python -m configtron.cli.manual docs`.

Made from the commands and drivers themselves. One page a command, in man(7); they carry no date, so the same commands
give the same bytes, and a test finds pages that are out of date. Completion scripts are Click's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from configtron import __version__
from configtron.cli.outermost import COMPLETE
from configtron.cli.root import root
from configtron.fingerprint.grades import printed
from configtron.report.manual_page import ManualPage
from configtron.tune.capabilities import page
from configtron.tune.drivers import tables

# Shell -> where its completion script lies below the folder; the names are those the shells look for.
COMPLETIONS = {
    "bash": "completion/configtron",
    "zsh": "completion/_configtron",
    "fish": "completion/configtron.fish",
}


def pages() -> dict[str, str]:
    """Return every file below docs/, by its name there."""
    found = {f"man/{ctx.command_path.replace(' ', '-')}.1": _page(ctx) for ctx in contexts()}
    for shell, name in COMPLETIONS.items():
        made = get_completion_class(shell)
        assert made is not None
        completion = made(root, {}, "configtron", COMPLETE)
        found[name] = completion.source_template % completion.source_vars()
    return found


def contexts(command: click.Command = root, parent: click.Context | None = None) -> Iterator[click.Context]:
    """Yield a context for every command, parents first."""
    ctx = click.Context(command, parent, command.name if parent else "configtron", **command.context_settings)
    yield ctx
    for name in names_of(ctx):
        yield from contexts(command_of(ctx, name), ctx)


def _page(ctx: click.Context) -> str:
    """Return the page of a command."""
    command = ctx.command
    records = [param.get_help_record(ctx) for param in command.get_params(ctx) if isinstance(param, click.Option)]
    page = ManualPage(
        ctx.command_path, __version__, command.get_short_help_str(200), " ".join(command.collect_usage_pieces(ctx)),
        command.help or "", [record for record in records if record is not None],
        [(name, command_of(ctx, name).get_short_help_str(200)) for name in names_of(ctx)],
    )  # fmt: skip
    return page.text()


def names_of(ctx: click.Context) -> list[str]:
    """Return the names of a group's commands; none of any other command."""
    return ctx.command.list_commands(ctx) if isinstance(ctx.command, click.Group) else []


def command_of(ctx: click.Context, name: str) -> click.Command:
    """Return a group's command."""
    assert isinstance(ctx.command, click.Group)
    found = ctx.command.get_command(ctx, name)
    assert found is not None
    return found


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
