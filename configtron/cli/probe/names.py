# SPDX-License-Identifier: MIT
"""Names that people write on the command line: runs, parameters, numbers. Light, since `--help` imports it."""

from __future__ import annotations

import math
import re

import click

from configtron.model.knobs import MEASURED

# What a filter may name.
NAMES = ("address", "provider", *(knob.name for knob in MEASURED))


def run_number(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """A run's number; "last" is -1, the one before it -2."""
    if value is None or value == "last":
        return None if value is None else -1
    if not re.fullmatch(r"-?\d{1,9}", value):
        raise click.BadParameter(f"{value!r} is no run; give a number, or last")
    return int(value)


def finite(_ctx: click.Context, _param: click.Parameter, value: float | None) -> float | None:
    """A number that is one: click's ranges let "nan" and "inf" pass."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number")
    return value


def known_knob(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Names of parameters that exist."""
    for name in value:
        if name not in NAMES:
            raise click.BadParameter(f"{name!r}; known are {', '.join(NAMES)}")
    return value
