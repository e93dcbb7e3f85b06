# SPDX-License-Identifier: MIT
"""What the product refuses, as text."""

from __future__ import annotations

from collections.abc import Callable

from configtron.model.errors import ConfigtronError


def refused(act: Callable[[], object]) -> str:
    """Return the kind of the error and its words, "" without one."""
    try:
        act()
    except ConfigtronError as error:
        return f"{type(error).__name__}: {error}"
    return ""
