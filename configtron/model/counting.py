# SPDX-License-Identifier: MIT
"""Counts in lines for people."""

from __future__ import annotations


def count_of(number: int, noun: str) -> str:
    """Return a count with its noun, which takes -s or -es: "1 outcome", "0 outcomes", "2 prefixes", "2 classes"."""
    plural = "es" if noun.endswith(("s", "x")) else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"


def count_are(number: int, noun: str) -> str:
    """Return a count as a subject with its verb: "1 outcome is", "2 prefixes are"."""
    return f"{count_of(number, noun)} {'is' if number == 1 else 'are'}"
