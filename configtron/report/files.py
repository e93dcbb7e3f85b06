# SPDX-License-Identifier: MIT
"""Open output files. Imports little, since every command that writes a file loads it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from configtron.model.errors import CANNOT_WRITE, cannot_write


@contextmanager
def opened(path: str) -> Iterator[TextIO]:
    """Yield a file to write, or stdout for "-". Errors: `BadInput`, `Unwritten`."""
    if path == "-":
        with _named("standard output"):
            yield sys.stdout
            sys.stdout.flush()
        return
    try:
        file = Path(path).open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise cannot_write(path, error) from error
    with _named(path), file:
        yield file


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Name the file when the disk is full: an error of `write` and `flush` has no name."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in CANNOT_WRITE:
            error.filename = path
        raise


def can_be_written(*files: str | Path | None) -> None:
    """Check, before the work, that results can be written to these files; create those that do not exist.

    None and "-" (stdout) are not checked. Errors: `BadInput`.
    """
    for file in files:
        if file is not None and str(file) != "-":
            try:
                Path(file).open("ab").close()
            except OSError as error:
                raise cannot_write(file, error, "; name a file that can be written") from error
