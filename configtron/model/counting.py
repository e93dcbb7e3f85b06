# SPDX-License-Identifier: MIT
"""Counts in lines for people."""

from __future__ import annotations


def count_of(number: int, noun: str) -> str:
    """Return a count with its noun, which takes an -s: "1 outcome", "0 outcomes", "2 outcomes"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
