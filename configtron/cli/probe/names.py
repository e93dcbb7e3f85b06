# SPDX-License-Identifier: MIT
"""Checks of values on the command line: runs, parameters, numbers, texts. Light, since `--help` imports it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from ipaddress import ip_network
from pathlib import Path

import click

from configtron.cli.options import FORMATS, format_option, with_options
from configtron.model.choices import TESTS
from configtron.model.errors import BadInput
from configtron.model.knobs import MEASURED

# What a filter may name.
NAMES = ("address", "provider", *(knob.name for knob in MEASURED))


def run_number(_ctx: click.Context, _param: click.Parameter, value: str | None, what: str = "run") -> int | None:
    """Return a number; "last" is -1, of runs the one before it -2."""
    if value is None or value == "last":
        return None if value is None else -1
    if not re.fullmatch(r"-?\d{1,9}" if what == "run" else r"\d{1,9}", value):
        raise click.BadParameter(f"{value!r} is no {what}; give a number, or last")
    return int(value)


def _among(names: Collection[str]) -> Callable[[object, object, str | tuple[str, ...]], tuple[str, ...]]:
    """Return a callback that checks names: of several options, or separated by commas."""

    def known(_ctx: object, _param: object, value: str | tuple[str, ...]) -> tuple[str, ...]:
        words = value if isinstance(value, tuple) else [word.strip() for word in value.split(",") if word.strip()]
        if unknown := [word for word in words if word not in names]:
            raise click.BadParameter(f"{unknown[0]!r}; known are {', '.join(names)}")
        return tuple(dict.fromkeys(words))

    return known


known_knob = known_fields = _among(NAMES)
test_names = _among(TESTS)


def check_fields(form: str, fields: Collection[str]) -> None:
    """Refuse fields that would have no effect. Errors: `BadInput`."""
    if fields and form == "jsonl":
        raise BadInput("--fields chooses the columns of flat, csv and table; a line of jsonl has every field")


def sendable(_ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Check a text of a request: visible ASCII without spaces, so that it ends no line and begins no header."""
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise click.BadParameter("plain ASCII without spaces; write other characters as %XX")
    if param.name == "path" and not value.startswith("/"):
        raise click.BadParameter("a path begins with /")
    return value


def interface_name(_ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the name of a network interface. Errors: `BadInput` for one that is no text, in one line."""
    if value is not None and not value.isprintable():
        raise BadInput(f"{param.opts[-1]}: no interface is called {value!a}; `ip link` lists them")
    return value


def template(_ctx: click.Context, _param: click.Parameter, path: Path | None) -> str:
    """Return the packets of a template file."""
    if path is None:
        return ""
    from configtron.service.campaign import read_template

    return read_template(path)


def address_blocks(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Check addresses and blocks of addresses."""
    for text in value:
        try:
            ip_network(text, strict=False)
        except ValueError as error:
            raise click.BadParameter(f"{error}; name addresses or blocks, such as 127.0.0.1 or 10.0.0.0/24") from error
    return value


# The form of results, as `probe run` and `probe show` take it.
results_form = with_options(
    format_option(*FORMATS, "flat", text="Form of the results; flat: one short JSON object a host."),
    click.option("--fields", default="", callback=known_fields, metavar="KNOB,...",
                 help="Only these parameters, in this order; a CSV then has one line a host."),
)  # fmt: skip
