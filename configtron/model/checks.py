# SPDX-License-Identifier: MIT
"""A check of `configtron doctor`: what was examined, what was found, what to type next."""

from __future__ import annotations

from typing import NamedTuple

from configtron.model.records import Json

GREEN, RED, NOT_HERE = "green", "red", "not possible here"
DOCTOR_COLUMNS = ("part", "check", "state", "found", "next")


class Check(NamedTuple):
    """One row. part: `host`, `tune`, `learn`, `probe` or `lab`; next: what to type, never "" where the state is red."""

    part: str
    check: str
    state: str
    found: str
    next: str = ""

    def row(self) -> dict[str, Json]:
        """Return the row of JSON Lines and CSV."""
        return {"kind": "check", **self._asdict()}

    def line(self) -> str:
        """Return what was found and what to type next, for people."""
        return f"{self.found}. Next: {self.next}" if self.next else self.found


def check_of(part: str, check: str, text: str, state: str = RED, then: str = "") -> Check:
    """Return a check from the line of an error. then: the next step; without it, what follows the line's last "; "."""
    found, separator, last = text.rpartition("; ")
    if then or not separator:
        return Check(part, check, state, text, then or ("see docs/tune.md" if state == RED else ""))
    return Check(part, check, state, found, last.removeprefix("run: "))


def red_first(checks: list[Check]) -> list[Check]:
    """Return the checks, red ones first, green ones last."""
    return sorted(checks, key=lambda one: (RED, NOT_HERE, GREEN).index(one.state))
