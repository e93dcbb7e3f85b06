# SPDX-License-Identifier: MIT
"""A value of the configuration file against the option it sets: TOML's type, then the option's range or choice."""

from __future__ import annotations

from collections.abc import Callable
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
    if option.multiple or option.nargs != 1:
        return [_one(item, option, ctx, where, many=True) for item in (value if isinstance(value, list) else [value])]
    return _one(value, option, ctx, where, many=False)


def expected(option: click.Option) -> str:
    """Return what an option takes, in words."""
    one, several = _words(option.type)
    return several if option.multiple or option.nargs != 1 else one


def _one(value: object, option: click.Option, ctx: click.Context, where: str, *, many: bool) -> object:
    if not _fits(value, option.type):
        raise BadInput(f"{where}: {expected(option)} is expected here, not {_shown(value)}")
    if isinstance(option.type, FILES):
        return value
    try:
        return option.type.convert(value, option, ctx)
    except click.BadParameter as error:
        raise BadInput(f"{where}: {expected(option)} is expected here: {error.message}") from error


def _fits(value: object, kind: click.ParamType[Any]) -> bool:
    if isinstance(kind, click.types.BoolParamType):
        return isinstance(value, bool)
    if isinstance(kind, click.types.FloatParamType):
        return isinstance(value, int | float) and not isinstance(value, bool) and _finite(value)
    if isinstance(kind, click.types.IntParamType):
        return isinstance(value, int) and not isinstance(value, bool)
    # Everything else is a word on the command line: paths, choices, names.
    return isinstance(value, str) and "\0" not in value


def _finite(number: float) -> bool:
    try:
        return isfinite(number)
    except OverflowError:
        return False


def _words(kind: click.ParamType[Any]) -> tuple[str, str]:
    """Of one value, and of a list."""
    if isinstance(kind, click.types.BoolParamType):
        return "true or false", "a list of true and false"
    if isinstance(kind, click.types.IntParamType):
        return f"a whole number{_range(kind)}", f"a list of whole numbers{_range(kind)}"
    if isinstance(kind, click.types.FloatParamType):
        return f"a number{_range(kind)}", f"a list of numbers{_range(kind)}"
    if isinstance(kind, click.Choice):
        names = ", ".join(f'"{choice}"' for choice in kind.choices)
        return f"one of {names}", f"a list of {names}"
    named = "path" if isinstance(kind, FILES) else "string"
    return f"a {named} in quotes", f"a list of {named}s in quotes"


def _range(kind: click.ParamType[Any]) -> str:
    describe: Callable[[], str] | None = getattr(kind, "_describe_range", None)
    return f" ({describe()})" if describe is not None else ""


def _shown(value: Any) -> str:
    """Return a value about as the file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    text = text.encode("unicode_escape").decode()
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
