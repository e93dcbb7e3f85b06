# SPDX-License-Identifier: MIT
"""Bounds of numbers that a caller of the package sets in options; the command line checks its flags by itself."""

from __future__ import annotations

import math

from configtron.model.errors import BadInput

# Characters of a strange value that is shown.
SHOWN = 60


def check_number(
    name: str, value: object, least: float, most: float = math.inf, *, whole: bool = False, beside: str = ""
) -> None:
    """Check an option's number against its bounds, both included; `whole` allows integers alone.

    beside  what may stand there instead, for the message

    Errors: `BadInput`, which names the option, the value and its range.
    """
    kinds = int if whole else int | float
    # NaN is within no bounds, infinity within none that a caller means.
    fits = isinstance(value, kinds) and not isinstance(value, bool) and least <= value <= most
    if fits and math.isfinite(value):  # type: ignore[arg-type]
        return
    span = f"from {least:g} to {most:g}" if most < math.inf else f"from {least:g}"
    kind = "whole number" if whole else "number"
    raise BadInput(f"{name}: {repr(value)[:SHOWN]} is no {kind} {span}{beside}")
