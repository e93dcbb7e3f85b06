# SPDX-License-Identifier: MIT
"""Compare what a document shows with what its command printed: words and counts exactly, figures by an interval."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

# A number that is no part of a word, address, version, date or range.
NUMBER = r"(?<![\w./-])[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w|[.:/-]\w)"
FIGURE = re.compile(rf"(\[{NUMBER}, {NUMBER}\]|{NUMBER})")


def differences(shown: Sequence[str], printed: Sequence[str], rtol: float = 0.0, counts: float = 0.0) -> list[str]:
    """Return two lines for each line that differs: `- ` what is shown, `+ ` what was printed.

    Without tolerances lines must be equal. `rtol` is the relative error that a figure with a decimal point may have;
    intervals `[low, high]` must overlap; blanks and rules that only align columns are free. `counts` is the relative
    error of numbers without a decimal point, for learned counts; all others must be equal.
    """
    found = []
    for left, right in zip_longest(shown, printed):
        if left is None or right is None or not _alike(left, right, rtol, counts):
            found += [f"{sign} {line}" for sign, line in (("-", left), ("+", right)) if line is not None]
    return found


def _alike(shown: str, printed: str, rtol: float, counts: float) -> bool:
    if not (rtol or counts):
        return shown == printed
    left, right = _parts(shown), _parts(printed)
    return left[::2] == right[::2] and all(
        _near(one, other, rtol, counts) for one, other in zip(left[1::2], right[1::2], strict=True)
    )


def _parts(line: str) -> list[str]:
    """Words and figures in turn, a word first."""
    return FIGURE.split(re.sub(r"[ ─]+", " ", line.strip()))


def _near(one: str, other: str, rtol: float, counts: float) -> bool:
    left, right = ([float(number) for number in re.findall(NUMBER, figure)] for figure in (one, other))
    if len(left) != len(right):
        return False
    if len(left) == 2:
        return left[0] <= right[1] and right[0] <= left[1]
    error = rtol if "." in one + other else counts
    return abs(left[0] - right[0]) <= error * max(abs(left[0]), abs(right[0]))
