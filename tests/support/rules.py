# SPDX-License-Identifier: MIT
"""One test a rule: a rule is tried on every row, and the test lists the rows that break it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def offenders(rule: Callable[[T], None], rows: Iterable[T], name: Callable[[T], str] = str) -> dict[str, str]:
    """Return {name of the row: what the rule's assertion found}; other errors pass through. Errors: no row at all."""
    found, listed = {}, list(rows)
    assert listed, "a rule without rows shows nothing"
    for row in listed:
        try:
            rule(row)
        except AssertionError as error:
            found[name(row)] = str(error) or "broken"
    return found
