# SPDX-License-Identifier: MIT
"""Standard streams of this process: closed ones (`>&-`), full ones, and readers that left."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress


def open_standard_streams() -> None:
    """Open standard streams that were closed (`>&-`), so that no file of ours takes their numbers. Writing to a closed
    standard output is an error, as for every other program; writing to a closed standard error goes nowhere. Standard
    output gets UTF-8.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:
                os.dup2(os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR), number)
                os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))
    # Pages and tables are UTF-8, as in files: the locale's charset may lack their characters.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors=sys.stdout.errors)


def place_of(error: OSError) -> str:
    """Return the file of an error, as the line's beginning: standard output where that is full or closed (`>&-`)."""
    if error.filename:
        return f"{error.filename}: "
    with suppress(OSError):
        sys.stdout.flush()
        return "standard output: " if error.errno == errno.EBADF else ""
    return "standard output: "


def drop_stdout() -> None:
    """Drop unwritten output, or Python would report the error again at exit."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
