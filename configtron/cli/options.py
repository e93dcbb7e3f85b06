# SPDX-License-Identifier: MIT
"""Options that commands of several verbs share. Light, since `--help` imports it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from configtron.cli.param_types import Finite, NamedPath
from configtron.model.errors import BadInput

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]
FORMATS = ("table", "jsonl", "csv")
FILE = NamedPath(path_type=Path, dir_okay=False)
INPUT_FILE = NamedPath(path_type=Path, dir_okay=False, exists=True)
# Longer than nothing.
SPAN = Finite(min=0, min_open=True)


def not_empty(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return a text; callback of an option. Errors: `BadInput` for one that was typed and is empty, such as a variable
    that a script has not set: without the option the command would run elsewhere."""
    if value == "" and context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE:
        raise BadInput(f"{parameter.opts[0]} is empty; name something, or leave it out")
    return value


def with_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, in the order of its help."""

    def decorated(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def format_option(*forms: str, text: str = "Form of the answer.") -> Decorator:
    """Return the option -f with these forms; the first is the default."""
    return click.option("-f", "--format", "form", type=click.Choice(forms or FORMATS), default=(forms or FORMATS)[0],
                        show_default=True, help=text)  # fmt: skip


# The file that results go to; the same, and their form.
output_option = click.option("-o", "--output-file", default="-", type=NamedPath(dir_okay=False),
                             help="Write here; - is stdout.")  # fmt: skip
form_options = with_options(format_option(), output_option)
# The same where a page is a form: -f is None if it was not typed.
page_options = with_options(
    click.option("-f", "--format", "form", type=click.Choice((*FORMATS, "html")),
                 help="Form of the answer.  [default: by the output file's ending: html, csv or jsonl; else table]"),
    output_option,
)  # fmt: skip
span_option = click.option("--for", "span_s", type=SPAN, metavar="SECONDS",
                           help="Stop after this time.  [default: at Ctrl-C]")  # fmt: skip
filter_option = click.option("--filter", "expression", default="", metavar="EXPRESSION",
                             help="Only these packets, in tcpdump's words: 'port 443'.")  # fmt: skip
seed_option = click.option("--seed", type=click.IntRange(0), default=1, show_default=True,
                           help="Seed of all random numbers.")  # fmt: skip


def form_of(form: str | None, output_file: str) -> str:
    """Return the form of an answer, by -f or else by the name of its file."""
    ending = Path(output_file).suffix.lower()[1:]
    return form or (ending if ending in ("html", "csv", "jsonl") else "table")


def places_option(text: str, name: str = "places") -> Decorator:
    """Return the option of files that place addresses."""
    return click.option("--mmdb", name, type=INPUT_FILE, multiple=True, help=f"MaxMind-format file{text}")


def budget_option(text: str = " (`learn policies`)") -> Decorator:
    """Return the option of what a policy may spend; text: who has it."""
    return click.option("--budget", type=Finite(0, 1), default=0.01, show_default=True, metavar="SHARE",
                        help="What exploration may cost, as a share of Default's mean page load time"
                             f"{text}.")  # fmt: skip


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return a command's options by their long names, with _ for -."""
    return {
        long[2:].replace("-", "_"): param
        for param in command.params
        if isinstance(param, click.Option)
        for long in param.opts
        if long.startswith("--")
    }


def typed() -> list[str]:
    """Return the parameters that stand on the command line, and not only in a file or the environment."""
    ctx = click.get_current_context()
    names = [str(param.name) for param in ctx.command.params]
    return [name for name in names if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]


def check_alone(beside: Collection[str], why: str, otherwise: str = "") -> None:
    """Refuse options that would have no effect. Errors: `BadInput`."""
    for name in typed():
        if name not in beside:
            raise BadInput(f"{why}; leave {spelt(name)} out{otherwise}")


def spelt(name: str) -> str:
    """Return the long spelling of an option of the command that is running."""
    (param,) = [param for param in click.get_current_context().command.params if param.name == name]
    return max(param.opts, key=len)


def retyped(name: str, value: Any) -> list[str]:
    """Return an option of the command that is running with its value, as it may be typed again."""
    words = [f"{spelt(name)}={one}" for one in (value if isinstance(value, tuple) else (value,))]
    return [spelt(name) if value else spelt(name).replace("--", "--no-", 1)] if isinstance(value, bool) else words
