# SPDX-License-Identifier: MIT
"""A value of the configuration file against the option it sets: TOML's type, then the option's range or choice."""

from __future__ import annotations

from math import isfinite
from typing import Any

import click

from configtron.model.errors import BadInput

# Characters of a wrong value that are shown.
SHOWN = 60
# Whether these exist is asked when their command runs, not when another one reads the file.
FILES = (click.Path, click.File)


def checked(value: object, option: click.Option, ctx: click.Context, where: str) -> object:
    """The value in the shape in which Click takes a default. `where`: file, table and key. Errors: `BadInput`."""
    several = option.multiple or option.nargs != 1
    wanted = f"{where}: {_expected(option.type, several=several)} is expected here"
    found = [_one(item, option, ctx, wanted) for item in (value if several and isinstance(value, list) else [value])]
    return found if several else found[0]


def _one(value: object, option: click.Option, ctx: click.Context, wanted: str) -> object:
    if not _fits(value, option.type):
        raise BadInput(f"{wanted}, not {_shown(value)}")
    if isinstance(option.type, FILES):
        return value
    try:
        return option.type.convert(value, option, ctx)
    except click.BadParameter as error:
        raise BadInput(f"{wanted}: {error.message}") from error


def _fits(value: object, kind: click.ParamType[Any]) -> bool:
    if isinstance(kind, click.types.BoolParamType) or isinstance(value, bool):
        return isinstance(kind, click.types.BoolParamType) and isinstance(value, bool)
    if isinstance(kind, click.types.FloatParamType):
        try:
            return isinstance(value, int | float) and isfinite(value)
        except OverflowError:
            return False
    if isinstance(kind, click.types.IntParamType):
        return isinstance(value, int)
    # Everything else is a word on the command line: paths, choices, names.
    return isinstance(value, str) and "\0" not in value


def _expected(kind: click.ParamType[Any], *, several: bool) -> str:
    """Return what an option takes, in words."""
    if isinstance(kind, click.types.BoolParamType):
        return "a list of true and false" if several else "true or false"
    if isinstance(kind, click.Choice):
        names = ", ".join(f'"{choice}"' for choice in kind.choices)
        return f"a list of {names}" if several else f"one of {names}"
    is_number = isinstance(kind, click.types.IntParamType | click.types.FloatParamType)
    word = "path" if isinstance(kind, FILES) else "string"
    if is_number:
        word = "whole number" if isinstance(kind, click.types.IntParamType) else "number"
    describe = getattr(kind, "_describe_range", None)
    end = "" if not is_number else f" ({describe()})" if describe is not None else ""
    return (f"a list of {word}s" if several else f"a {word}") + (end if is_number else " in quotes")


def _shown(value: Any) -> str:
    """Return a value about as the file has it."""
    text = str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)
    text = text.encode("unicode_escape").decode()
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
