# SPDX-License-Identifier: MIT
"""The boundary of the Python interface: what its functions take is checked, and what they raise is of one kind.

A file that is not there or may not be opened raises `OSError` in the middle of a verb. Callers of
`configtron.service` are to catch one class, `ConfigtronError`; commands print one line of either. So the packages hand
their functions out behind `bounded`. What a caller's own callback raises passes as it is, unless it is an `OSError`
that names a file.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from inspect import isfunction, isgeneratorfunction
from pathlib import Path
from typing import Any

from configtron.model.bounds import check_text, texts_in
from configtron.model.errors import CANNOT_WRITE, ConfigtronError, Unwritten

# Characters of a fault's message that are shown.
FAULT_LENGTH = 200


def fault(error: Exception) -> str:
    """Return a fault of this program in words: where it is, and what it says."""
    at = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" at {Path(one.filename).name}:{one.lineno}" for one in at)
    what = " ".join(f"{type(error).__name__}: {error}".split())[:FAULT_LENGTH]
    return f"a fault of this program{where} ({what})"


def bounded(found: Any) -> Any:
    """Return a function whose arguments are checked and whose errors are `ConfigtronError`; all else as it is."""
    if not isfunction(found):
        return found
    if isgeneratorfunction(getattr(found, "__wrapped__", None)):
        return _bounded_context(found)
    return _bounded_generator(found) if isgeneratorfunction(found) else _bounded_call(found)


def _bounded_call(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        with errors_of(arguments, named):
            return function(*arguments, **named)

    return call


def _bounded_generator(function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @wraps(function)
    def items(*arguments: Any, **named: Any) -> Iterator[Any]:
        with errors_of(arguments, named):
            yield from function(*arguments, **named)

    return items


def _bounded_context(function: Callable[..., AbstractContextManager[Any]]) -> Callable[..., Any]:
    @wraps(function)
    def context(*arguments: Any, **named: Any) -> _Context:
        return _Context(function(*arguments, **named), arguments, named)

    return context


class _Context(AbstractContextManager[Any]):
    """A context whose entering is bounded; what the caller raises within it passes."""

    def __init__(self, inner: AbstractContextManager[Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._inner, self._arguments, self._named = inner, arguments, named

    def __enter__(self) -> Any:
        with errors_of(self._arguments, self._named):
            return self._inner.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        return self._inner.__exit__(*error)


@contextmanager
def errors_of(arguments: tuple[Any, ...], named: dict[str, Any]) -> Iterator[None]:
    """Check texts and paths; turn an `OSError` that names a file into one line, `BadInput` of several lines too."""
    for name, value in (*((str(at), value) for at, value in enumerate(arguments, 1)), *named.items()):
        check_text(f"argument {name}", value)
    try:
        yield
    except ConfigtronError as error:
        if len(error.args) == 1:
            error.args = (_one_line(str(error), (*arguments, *named.values())),)
        raise
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.filename is None:
            raise
        kind = Unwritten if error.errno in CANNOT_WRITE else ConfigtronError
        raise kind(repr(str(error.filename))[1:-1] + f": {error.strerror or error}") from error


def _one_line(message: str, arguments: tuple[Any, ...]) -> str:
    """Return the message, in which a line's end of an argument is written \\n."""
    for argument in arguments:
        for text in (text for text in texts_in(argument) if "\n" in text):
            message = message.replace(text, text.replace("\n", "\\n"))
    return message
