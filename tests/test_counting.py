# SPDX-License-Identifier: MIT
"""Counts in messages: one of a thing is in the singular, and so is its verb."""

from __future__ import annotations

import re

from configtron.model.counting import count_are, count_of
from tests.support.sources import sources

# A count before a verb in the plural is a subject that may be one; "of 7 outcomes are" has another subject.
PLURAL = re.compile(r"(?<!of )\{[^{}]+\} (outcomes|profiles|prefixes|classes) (are|were|stay)\b")
# What is more than one wherever it is printed: above a limit.
ABOVE_A_LIMIT = "--max-prefixes"
# A reason that JSON Lines carry keeps its words.
DATA = "of the prefixes {min(left)} outcomes are left"


def test_counts() -> None:
    assert [count_of(n, "outcome") for n in (0, 1, 2)] == ["0 outcomes", "1 outcome", "2 outcomes"]
    assert [count_of(2, noun) for noun in ("prefix", "class", "profile")] == ["2 prefixes", "2 classes", "2 profiles"]
    assert [count_are(n, "prefix") for n in (1, 2)] == ["1 prefix is", "2 prefixes are"]


def test_messages_count_by_these() -> None:
    lines = [f"{name}: {line.strip()}" for name, file in sources() for line in file.read_text().splitlines()]
    assert [line for line in lines if PLURAL.search(line) and ABOVE_A_LIMIT not in line and DATA not in line] == []
    assert PLURAL.search('f"{len(left)} prefixes are wanted"')
    assert not PLURAL.search('f"{one} of {many} outcomes are gone"')
