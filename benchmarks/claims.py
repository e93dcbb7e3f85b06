# SPDX-License-Identifier: MIT
"""Claims that a command makes, judged by the figures that it has just printed; a missed one is its exit code 1."""

from __future__ import annotations


class Claims:
    """What was promised, and how much of it was missed. What could not be measured, a NaN, holds nothing."""

    def __init__(self) -> None:
        self.missed = 0

    @property
    def exit_code(self) -> int:
        """0 if every claim was kept, else 1."""
        return int(self.missed > 0)

    def hold(self, what: str, value: float, most: float, form: str = ".3f") -> None:
        """Print one that is kept at or below `most`."""
        print(f"  {what:34s}{value:>10{form}}  {self.at_most(value, most, form)}", flush=True)

    def at_most(self, value: float, most: float, form: str = "g") -> str:
        """One that is kept at or below `most`, in words for the end of a line."""
        return self._judged(value <= most, f"<= {most:{form}}")

    def at_least(self, value: float, least: float, form: str = "g") -> str:
        """One that is kept at or above `least`, in words for the end of a line."""
        return self._judged(value >= least, f">= {least:{form}}")

    def _judged(self, kept: bool, bound: str) -> str:
        self.missed += not kept
        return f"claim {bound}: {'holds' if kept else 'MISSED'}"
