# SPDX-License-Identifier: MIT
"""Manual pages and shell completions of a Click command and of all commands below it.

One page a command, in man(7); they carry no date, so the same commands give the same bytes. Completion scripts are
Click's.
"""

from __future__ import annotations

from collections.abc import Iterator

import click
from click.shell_completion import get_completion_class

from configtron.report.manual_page import ManualPage

# Shell -> where its completion script lies below the folder; the names are those the shells look for.
COMPLETIONS = {
    "bash": "completion/configtron",
    "zsh": "completion/_configtron",
    "fish": "completion/configtron.fish",
}


def pages_of(root: click.Command, version: str, complete: str) -> dict[str, str]:
    """Return every page and completion script by its file's name; complete: the shells' variable."""
    found = {f"man/{ctx.command_path.replace(' ', '-')}.1": _page(ctx, version) for ctx in contexts_of(root)}
    for shell, name in COMPLETIONS.items():
        made = get_completion_class(shell)
        assert made is not None
        completion = made(root, {}, "configtron", complete)
        found[name] = completion.source_template % completion.source_vars()
    return found


def contexts_of(command: click.Command, parent: click.Context | None = None) -> Iterator[click.Context]:
    """Yield a context for every command, parents first."""
    ctx = click.Context(command, parent, command.name if parent else "configtron", **command.context_settings)
    yield ctx
    for name in names_of(ctx):
        yield from contexts_of(command_of(ctx, name), ctx)


def _page(ctx: click.Context, version: str) -> str:
    """Return the page of a command."""
    command = ctx.command
    records = [param.get_help_record(ctx) for param in command.get_params(ctx) if isinstance(param, click.Option)]
    page = ManualPage(
        ctx.command_path, version, command.get_short_help_str(200), " ".join(command.collect_usage_pieces(ctx)),
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
