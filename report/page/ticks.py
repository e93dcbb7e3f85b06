# SPDX-License-Identifier: MIT
"""Round numbers for an axis: few, evenly spaced, with no more digits than distinguish them."""

from __future__ import annotations

from math import ceil, floor, log10

# Ticks that an axis has room for.
MOST = 6
# What people count in, of each power of ten.
STEPS = (1, 2, 5, 10)


def ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return multiples of a round step from low to high, each with its text; low < high."""
    power = 10.0 ** floor(log10((high - low) / (MOST - 1)))
    step = next(power * one for one in STEPS if (high - low) / (power * one) <= MOST - 1 + 1e-9)
    digits = max(0, -floor(log10(step) + 1e-9))
    numbers = [step * n for n in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]
    return [(number, f"{number or 0.0:.{digits}f}") for number in numbers]


def log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return ones, twos and fives of each power of ten from low to high, or powers alone where those are too many;
    multiples of a step where there are hardly any. 0 < low < high."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    numbers = [one * 10.0**power for power in powers for one in STEPS[:-1]]
    inside = [one for one in numbers if low * (1 - 1e-9) <= one <= high * (1 + 1e-9)]
    if len(inside) > MOST:
        inside = [one for one in inside if abs(log10(one) - round(log10(one))) < 1e-9]
    return [(one, f"{one:g}") for one in inside] if len(inside) > 1 else ticks(low, high)
