# SPDX-License-Identifier: MIT
"""Ticks of an axis: few round numbers, evenly spaced, with as many digits as distinguish them."""

from __future__ import annotations

from math import ceil, floor, log10

# Most ticks of an axis: more would overlap on a telephone.
MOST = 6
# Round steps, times a power of ten.
STEPS = (1, 2, 5, 10)


def ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return multiples of a round step from low to high, each with its text; low < high."""
    power = 10.0 ** floor(log10((high - low) / (MOST - 1)))
    step = next(power * one for one in STEPS if (high - low) / (power * one) <= MOST - 1 + 1e-9)
    digits = max(0, -floor(log10(step) + 1e-9))
    numbers = [step * n for n in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]
    return [(number, f"{number or 0.0:.{digits}f}") for number in numbers]


def log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return 1, 2 and 5 times each power of ten from low to high; only the powers if these are more than MOST; linear
    ticks if there are fewer than two. 0 < low < high."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    numbers = [one * 10.0**power for power in powers for one in STEPS[:-1]]
    found = [one for one in numbers if low * (1 - 1e-9) <= one <= high * (1 + 1e-9)]
    if len(found) > MOST:
        found = [one for one in found if abs(log10(one) - round(log10(one))) < 1e-9]
    return [(one, f"{one:g}") for one in found] if len(found) > 1 else ticks(low, high)
