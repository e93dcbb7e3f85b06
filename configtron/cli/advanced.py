# SPDX-License-Identifier: MIT
"""A command with many options: `--help` lists the rare ones last, under "Advanced"."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import click


class LongCommand(click.Command):
    """advanced: names of the rare options, as the parameters of the command's function."""

    def __init__(self, *args: Any, advanced: Collection[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.advanced = frozenset(advanced)
        assert self.advanced <= {param.name for param in self.params}, self.advanced

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters, the advanced ones last."""
        return sorted(super().get_params(ctx), key=lambda param: param.name in self.advanced)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write two lists: the usual options and the rare ones."""
        for heading, is_advanced in (("Options", False), ("Advanced", True)):
            listed = [param for param in self.get_params(ctx) if (param.name in self.advanced) is is_advanced]
            options = [param for param in listed if isinstance(param, click.Option)]
            records = [record for param in options if (record := param.get_help_record(ctx)) is not None]
            with formatter.section(heading):
                formatter.write_dl(records)
