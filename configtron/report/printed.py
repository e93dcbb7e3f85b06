# SPDX-License-Identifier: MIT
"""Verdicts, values and sizes as tables print them. Importing this is cheap."""

from __future__ import annotations

from configtron.model.nouns import Observation, Value
from configtron.model.wording import visible

SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
# More rows than a screen holds are not shown unasked.
MOST_ROWS = 40


def cell(verdict: Observation | None) -> str:
    """A verdict in a few characters."""
    if verdict is None:
        return ""
    return f"- {verdict.reason}" if verdict.value is None else f"{shown(verdict)} {verdict.grade}"


def shown(verdict: Observation) -> str:
    """A verdict as printed: measured times to the millisecond, a lower bound with its sign."""
    if isinstance(verdict.value, float):
        return f"{'>= ' if verdict.grade == 'L' else ''}{text(verdict.value)}"
    return visible(verdict.text)


def text(value: Value) -> str:
    """A value as printed."""
    return f"{value:.3g}" if isinstance(value, float) else visible(str(value))


def size(number: int) -> str:
    """Return bytes in the largest unit of which there is one, with three digits: 1.25 MB."""
    amount, unit = float(number), SIZES[0]
    for unit in SIZES:
        if amount < 1000 or unit == SIZES[-1]:
            break
        amount /= 1000
    return f"{amount:.3g} {unit}" if amount < 1000 else f"{amount:.0f} {unit}"
