# SPDX-License-Identifier: MIT
"""Dead knobs: the effect of a change of one knob alone, on the same seed.

Question   Does a knob have any effect here, or does its place in the grid waste half of all loads?
Method     Two guests boot with the same seed and run the same loads, but for one knob. Virtual time makes all else
           equal to the bit, so a knob without effect leaves every time unchanged, and the knob causes any difference.
Reads as   How many cells are identical, how far the others differ at most, and in which cell most.
Fails as   `BadInput` where the two did not measure the same cells.
Differs    from a proof: it holds for the cells tried. A page without idle gaps does not show effects after such gaps,
           so the trial needs cells with gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from configtron.model.errors import BadInput
from configtron.model.nouns import Value


@dataclass(frozen=True, slots=True)
class KnobCertificate:
    """The result for one knob.

    largest   of the relative differences of a cell's last moment, 0.01 is 1 %; where: that cell
    """

    knob: str
    values: tuple[Value, Value]
    cells: int
    identical: int
    largest: float
    where: str

    @property
    def is_dead(self) -> bool:
        """Return whether no cell differed."""
        return self.cells == self.identical

    def __str__(self) -> str:
        first, second = self.values
        differs = "" if self.is_dead else f", others differ by up to {100 * self.largest:.2f} % ({self.where})"
        return f"{self.knob} {first} or {second}: {self.identical} of {self.cells} cells identical{differs}"


Moments = Mapping[str, Sequence[float]]


def certify(knob: str, values: tuple[Value, Value], first: Moments, second: Moments) -> KnobCertificate:
    """Return the certificate of a knob by two guests' moments, by cell. Errors: `BadInput`."""
    if not first or first.keys() != second.keys():
        odd = sorted(first.keys() ^ second.keys())
        raise BadInput(f"{knob}: the two trials have not the same cells: {', '.join(odd[:3]) or 'none at all'}")
    off = {cell: _difference(first[cell], second[cell]) for cell in first if list(first[cell]) != list(second[cell])}
    where = max(off, key=lambda cell: off[cell], default="")
    return KnobCertificate(knob, values, len(first), len(first) - len(off), off.get(where, 0.0), where)


def _difference(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the relative difference of the last times, which are the page load times. Errors: `BadInput`."""
    if not first or not second:
        raise BadInput("a cell without moments cannot be compared")
    return abs(second[-1] / first[-1] - 1)
