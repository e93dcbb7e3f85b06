# SPDX-License-Identifier: MIT
"""Words of lines for people: counts with their nouns, and text of strangers that does not print."""

from __future__ import annotations


def count_of(number: int, noun: str) -> str:
    """Return a count with its noun, which takes -s or -es: "1 outcome", "0 outcomes", "2 prefixes", "2 classes"."""
    plural = "es" if noun.endswith(("s", "x")) else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"


def count_are(number: int, noun: str) -> str:
    """Return a count as a subject with its verb: "1 outcome is", "2 prefixes are"."""
    return f"{count_of(number, noun)} {'is' if number == 1 else 'are'}"


def visible(text: str) -> str:
    """Return the text with each character that does not print as its number, so that it moves no cursor."""
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
