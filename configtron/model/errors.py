# SPDX-License-Identifier: MIT
"""The few exceptions, each with the next step. A failed measurement is not one of them.

That is a reason in a verdict.
"""

from __future__ import annotations

import errno

# Exit codes of every verb (docs/formats.md).
DONE, CONDITION, USAGE, PARTIAL, NOTHING, PRIVILEGE, REFUSED, UNWRITTEN, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 7, 130
# What the system says of a file that is named well and cannot take what is written: no room, quota, too large, a disk
# that fails, a stream that is closed.
CANNOT_WRITE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF))


class ConfigtronError(Exception):
    """Something the user can mend; `code` is the process's exit code."""

    code = NOTHING


class BadInput(ConfigtronError):
    """A file, list, option or name that cannot be used: says what, where, and what to do next."""

    code = USAGE


class Missing(ConfigtronError):
    """A privilege, kernel feature or program that is absent: says how to get it."""

    code = PRIVILEGE


class Unwritten(ConfigtronError):
    """What was found could not be written: a full disk, a closed standard output. What was kept stays kept."""

    code = UNWRITTEN


def cannot_write(path: object, error: OSError, remedy: str = "") -> ConfigtronError:
    """A file that cannot be written, as an error: `Unwritten` for want of room, else `BadInput`."""
    kind = Unwritten if error.errno in CANNOT_WRITE else BadInput
    return kind(f"{path}: {error.strerror or error}{remedy}")


class Refused(ConfigtronError):
    """A guard refused (blocklist, rate, isolation)."""

    code = REFUSED


class Diverged(ConfigtronError):
    """A recording that the script does not reproduce: carries what was recorded and what the script did."""

    code = CONDITION


class Mismatch(ConfigtronError):
    """What was written to the host does not read back."""
