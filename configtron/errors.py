"""The few exceptions, each saying what to do next. A failed measurement is not one of them.

That is a reason in a verdict.
"""

from __future__ import annotations

# Exit codes of every verb (README, "Exit codes").
DONE, CONDITION, USAGE, PARTIAL, NOTHING, PRIVILEGE, REFUSED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130


class ConfigtronError(Exception):
    """Something the user can mend; `code` is the process's exit code."""

    code = NOTHING


class BadInput(ConfigtronError):
    """A file, list, option or name that cannot be used: says what, where, and what to do next."""

    code = USAGE


class Missing(ConfigtronError):
    """A privilege, kernel feature or program that is absent: says how to get it."""

    code = PRIVILEGE


class Refused(ConfigtronError):
    """A guard said no (blocklist, rate, isolation)."""

    code = REFUSED


class Diverged(ConfigtronError):
    """A recording that the script does not reproduce: carries what was recorded and what the script did."""

    code = CONDITION


class Mismatch(ConfigtronError):
    """What was written to the host does not read back."""
