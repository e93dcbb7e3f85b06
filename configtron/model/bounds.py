# SPDX-License-Identifier: MIT
"""Checks of options that a caller of the package passes; the command line checks its own flags."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from configtron.model.errors import BadInput

# Characters of a strange value that is shown.
SHOWN = 60
# The widest integer that a database's column or a C function takes.
WIDEST = 2**63 - 1
# Of a file's name, on every file system of Linux, in bytes.
LONGEST_NAME = 255


def check_number(
    name: str, value: object, least: float, most: float = math.inf, *, whole: bool = False, absent: bool = False,
    beside: str = "",
) -> None:  # fmt: skip
    """Check an option's number against its bounds, both included; `whole` allows integers alone, `absent` None too.

    beside  another allowed value, for the message

    Errors: `BadInput`, which names the option, the value and its range.
    """
    kinds = int if whole else int | float
    # NaN is within no bounds, infinity within none that a caller means.
    fits = isinstance(value, kinds) and not isinstance(value, bool) and least <= value <= min(most, WIDEST)
    if fits or (absent and value is None):
        return
    span = f"from {least:g} to {most:g}" if most < math.inf else f"from {least:g}"
    if isinstance(value, int | float) and WIDEST < value < math.inf:
        span += " below 2^63"
    kind = "whole number" if whole else "number"
    raise BadInput(f"{name}: {repr(value)[:SHOWN]} is no {kind} {span}{beside}")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Check that an option is one of these words. Errors: `BadInput`, which names all of them."""
    if value not in (allowed := list(choices)):
        raise BadInput(f"{name}: {repr(value)[:SHOWN]} is none of {', '.join(allowed)}")


def check_texts(options: Any) -> None:
    """Check the texts and paths in a dataclass's fields: the system takes no NUL, no half of a character, and no
    name of more than 255 bytes in a path. Errors: `BadInput`, which names the field."""
    for field in fields(options):
        check_text(field.name, getattr(options, field.name))


def check_text(name: str, value: object) -> None:
    """Check one text or path, or those in a list, a tuple, a dict or a dataclass; other values pass.

    Errors: `BadInput`.
    """
    for one in _texts_in(value):
        text = str(one)
        if "\0" in text:
            raise BadInput(f"{name}: {text[:SHOWN]!r} has a NUL in it")
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise BadInput(f"{name}: {text[:SHOWN]!r} has half of a character in it; write UTF-8") from error
        if hasattr(one, "__fspath__"):
            check_path(name, text)


def check_path(name: str, path: str) -> None:
    """Check the lengths of the names in a path. Errors: `BadInput`."""
    parts = path.split("/")
    if long := next((part for part in parts if len(part.encode("utf-8", "surrogateescape")) > LONGEST_NAME), ""):
        raise BadInput(f"{name}: {long[:SHOWN]}...: a file's name has at most {LONGEST_NAME} bytes")


def _texts_in(value: object) -> Iterator[object]:
    """Yield a text, a path, or those in a list, a tuple, a dict or a dataclass; nothing of other values."""
    if isinstance(value, str) or hasattr(value, "__fspath__"):
        yield value
    elif isinstance(value, list | tuple | dict):
        for one in value.items() if isinstance(value, dict) else value:
            yield from _texts_in(one)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _texts_in(getattr(value, field.name))
