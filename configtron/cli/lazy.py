# SPDX-License-Identifier: MIT
"""A Click group that imports a command only when it is called, and may have a command for "none of these".

`--help` lists commands from a literal table, so it costs no import; each command takes its line of help from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from configtron.cli.options import options_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


NONE: Mapping[str, Any] = MappingProxyType({})


class LazyGroup(click.Group):
    """Commands from a table, then those that the group's own module adds.

    package  where the commands are, each in the module of its name; homes: module of others -> their names
    rows     name of a command -> its help in one line
    sections heading of `--help` -> the rows below it, instead of `rows`
    default  the command meant when the first word is none
    """

    def __init__(
        self,
        *args: Any, package: str = "", rows: Mapping[str, str] = NONE, sections: Mapping[str, Mapping[str, str]] = NONE,
        homes: Mapping[str, str] = NONE, default: str = "", **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(*args, **kwargs)
        self.package, self.default = package, default
        self.rows = {name: text for part in (rows, *sections.values()) for name, text in part.items()}
        self.sections = sections or {"Commands": self.rows}
        self.homes = {name: module for module, names in homes.items() for name in names.split()}

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command of the group's own module."""
        super().add_command(cmd, name)
        self.rows[str(name or cmd.name)] = str(cmd.short_help)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return names, in the table's order."""
        return list(self.rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now."""
        if cmd_name not in self.rows:
            return None
        command = self.commands.get(cmd_name)
        if command is None:
            held = vars(import_module(f"{self.package}.{self.homes.get(cmd_name, cmd_name)}")).values()
            command = next(one for one in held if isinstance(one, click.Command) and one.name == cmd_name)
            command.short_help = self.rows[cmd_name]
        if ctx.auto_envvar_prefix is not None:
            for option, param in options_of(command).items():  # Click would name variables after parameters
                param.envvar = f"{ctx.auto_envvar_prefix}_{cmd_name}_{option}".replace("-", "_").upper()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lists of `--help`, without importing anything."""
        for heading, rows in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl(list(rows.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]
                        ) -> tuple[str | None, click.Command | None, list[str]]:  # fmt: skip
        """Resolve as Click does; name the nearest command of a misspelt one."""
        if args and args[0][:1] != "-" and args[0] not in self.rows and not ctx.resilient_parsing:
            from difflib import get_close_matches

            meant = get_close_matches(args[0], self.rows, n=1)
            hint = f"Did you mean {meant[0]!r}?" if meant else f"There is: {', '.join(self.rows)}."
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete as Click does, and what the default command takes."""
        found = super().shell_complete(ctx, incomplete)
        command = self.get_command(ctx, self.default) if self.default else None
        if command is None:
            return found
        inner = click.Context(command, parent=ctx, info_name=self.default, resilient_parsing=True)
        known = {item.value for item in found}
        target = next(param for param in command.params if isinstance(param, click.Argument))
        of = command if incomplete.startswith("-") else target
        return found + [item for item in of.shell_complete(inner, incomplete) if item.value not in known]

    def _refuse_misspelt(self, word: str, ctx: click.Context) -> None:
        """Refuse a first word that is almost a command: as a target it would be looked up and probed."""
        if not word.isalpha():
            return
        from difflib import get_close_matches

        for meant in get_close_matches(word, self.rows, n=1, cutoff=0.75):
            hint = f"Did you mean {meant!r}? A target of that name: {ctx.command_path} {self.default} -- {word}"
            raise click.UsageError(f"No such command {word!r}. {hint}", ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give a first word that is neither a command nor --help to the default command."""
        if self.default and args and args[0] not in self.rows and args[0] not in ("-h", "--help"):
            self._refuse_misspelt(args[0], ctx)
            args = [self.default, *args]
        return super().parse_args(ctx, args)
