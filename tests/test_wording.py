# SPDX-License-Identifier: MIT
"""Words in messages: one of a thing is in the singular, and so is its verb; what does not print is shown."""

from __future__ import annotations

from configtron.model.wording import count_are, count_of, visible


def test_counts() -> None:
    assert [count_of(n, "outcome") for n in (0, 1, 2)] == ["0 outcomes", "1 outcome", "2 outcomes"]
    assert [count_of(2, noun) for noun in ("prefix", "class", "profile")] == ["2 prefixes", "2 classes", "2 profiles"]
    assert [count_are(n, "prefix") for n in (1, 2)] == ["1 prefix is", "2 prefixes are"]


def test_what_does_not_print_moves_no_cursor() -> None:
    assert [visible(text) for text in ("é 7", "a\x1b[2J\n")] == ["é 7", "a\\u001b[2J\\u000a"]
