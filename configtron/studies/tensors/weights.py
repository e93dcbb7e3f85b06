# SPDX-License-Identifier: MIT
"""What each knob is worth: how much of the gain is lost when it is left alone, how much it gains alone.

Question   Which knob matters: congestion control, then the initial window, then the HTTP version, then the others?
Method     Hold a knob at its default, choose the best of what is left, and count what that loses of the default's page
           load time, in points; and turn that knob only. Both by halves where there are repeats (`improvement.py`), so
           that a knob with more values does not win by having more lots in the draw.
Reads as   Means over conditions and sites; intervals over conditions; two knobs are distinguished when the interval of
           their difference, condition by condition, does not hold zero.
Differs    from CT's Figure 9, which ranks knobs by what a model makes of them. Where the grid lacks the default
           (HotCloud's windows), the nearest value that it has stands in its place: `rivals.near_default`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.model.nouns import Value
from configtron.studies.tensors.comparison import near_default
from configtron.studies.tensors.improvement import (
    Figure,
    Floats,
    Gain,
    MeasuredCells,
    gain,
    mean,
    over_conditions,
    percentile,
)


class Weight(NamedTuple):
    """A knob's worth in fractions of the default's page load time; lost is (conditions, sites)."""

    knob: str
    held_at: Value
    lost: Floats
    mean: Figure
    tail: Figure
    alone: Figure


class Apart(NamedTuple):
    """Whether one knob's mean loss is above the next one's: the difference and its interval."""

    more: str
    less: str
    difference: Figure

    @property
    def sure(self) -> bool:
        """The interval does not hold zero."""
        return self.difference.low > 0


def weights(cells: MeasuredCells, rng: np.random.Generator) -> list[Weight]:
    """Every knob of the grid that has more than one value, heaviest first."""
    held = near_default(cells)
    codes = {knob.name: knob.values.index(held[knob.name]) for knob in cells.grid.knobs}
    columns = {name: cells.grid.column(name) for name in codes}
    whole = fair(gain(cells))
    untouched = np.logical_and.reduce([columns[name] == code for name, code in codes.items()])
    found = []
    for name, code in codes.items():
        if len(np.unique(columns[name])) < 2:
            continue
        lost = whole - fair(gain(cells, columns[name] == code))
        others = [columns[other] == codes[other] for other in codes if other != name]
        alone = fair(gain(cells, np.logical_and.reduce(others) if others else None)) - fair(gain(cells, untouched))
        found.append(
            Weight(
                name, held[name], lost, over_conditions(lost, mean, rng), over_conditions(lost, percentile(95), rng),
                over_conditions(alone, mean, rng),
            )
        )  # fmt: skip
    return sorted(found, key=lambda one: -one.mean.value)


def fair(one: Gain) -> Floats:
    """By halves where there are any."""
    return one.papers if one.halves is None else one.halves


def apart(found: list[Weight], rng: np.random.Generator) -> list[Apart]:
    """Each knob against the next."""
    pairs = zip(found, found[1:], strict=False)
    return [Apart(a.knob, b.knob, over_conditions(a.lost - b.lost, mean, rng)) for a, b in pairs]
