# SPDX-License-Identifier: MIT
"""The few exceptions, each with the next step.

A failed measurement is no exception but a reason in a verdict.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

# Exit codes of every verb (docs/formats.md).
DONE, CONDITION, USAGE, PARTIAL, NOTHING, PRIVILEGE, REFUSED, UNWRITTEN, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 7, 130
# Errors of a write to a file that exists: no room, quota, file too large, failing disk, closed stream.
CANNOT_WRITE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF))


class ConfigtronError(Exception):
    """Something the user can mend; `code` is the process's exit code."""

    code = NOTHING


class BadInput(ConfigtronError):
    """A file, list, option or name is unusable. The message states the fault, its place and the next step."""

    code = USAGE

    def __str__(self) -> str:
        """Return the message as one line, also where it quotes a text of several."""
        return super().__str__().replace("\n", "\\n")


class Busy(BadInput):
    """Another program holds what is needed, a lock or an address: the same command may succeed later."""

    code = NOTHING


class Missing(ConfigtronError):
    """A privilege, kernel feature or program is absent. The message states how to get it."""

    code = PRIVILEGE


class Unwritten(ConfigtronError):
    """Results could not be written: a full disk, a closed standard output. Results stored before remain."""

    code = UNWRITTEN


def no_permission(path: object, error: PermissionError) -> ConfigtronError:
    """Return the error for a file that this user may not use."""
    return Missing(f"{path}: {error.strerror or error}; run this as the owner of the file and its folder, or mend the"
                   " permissions")  # fmt: skip


def cannot_write(path: object, error: OSError, remedy: str = "") -> ConfigtronError:
    """Return the error for an unwritable file: `Unwritten` for an error of `CANNOT_WRITE`, else `BadInput`."""
    kind = Unwritten if error.errno in CANNOT_WRITE else BadInput
    return kind(f"{path}: {error.strerror or error}{remedy}")


@contextmanager
def path_errors(path: object) -> Iterator[None]:
    """Turn the system's errors with one file into `no_permission` and `cannot_write`."""
    try:
        yield
    except PermissionError as error:
        raise no_permission(path, error) from error
    except OSError as error:
        raise cannot_write(path, error) from error


@contextmanager
def file_errors() -> Iterator[None]:
    """Turn an `OSError` that names a file into a `ConfigtronError` of one line and of its code (`code_of`); a broken
    pipe passes."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None:
            raise
        kind = {UNWRITTEN: Unwritten, PRIVILEGE: Missing}.get(code_of(error), ConfigtronError)
        raise kind(repr(str(error.filename))[1:-1] + f": {error.strerror or error}") from error


def code_of(error: OSError) -> int:
    """Return the exit code for the system's own error."""
    if error.errno in CANNOT_WRITE:
        return UNWRITTEN
    return PRIVILEGE if isinstance(error, PermissionError) else NOTHING


class Refused(ConfigtronError):
    """A guard refused (blocklist, rate, isolation)."""

    code = REFUSED


class Diverged(ConfigtronError):
    """The script does not reproduce a recording: the message has the recorded step and the script's step."""

    code = CONDITION


class Mismatch(ConfigtronError):
    """A setting written to the host reads back as another value."""
