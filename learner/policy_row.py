# SPDX-License-Identifier: MIT
"""The row by which a policy is listed (`registry.py` gathers them)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from configtron.learner.setting import Setting
from configtron.learner.table_policy import TablePolicy

# Where a policy stands in lists that names no place of its own.
LAST = 1000


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy: its constructor, and a description in a few words.

    oracle: it needs the truth; takes: which of `warm`, `engine`, `evolve`, `by-device` and `budget` make a difference
    to it; place: where it stands in lists, those of the same place by name.
    """

    name: str
    make: Callable[[Setting], TablePolicy]
    help: str
    oracle: bool = False
    takes: tuple[str, ...] = ()
    place: int = LAST
