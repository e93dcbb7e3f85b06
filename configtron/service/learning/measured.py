# SPDX-License-Identifier: MIT
"""A measurement that has ended: its cells counted, its tensor written, its exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from configtron.db.measuring import Measuring, ShardRow
from configtron.lab.testbed.layout import Layout, tensor_of
from configtron.model.errors import CONDITION, DONE, NOTHING, PARTIAL
from configtron.model.records import canonical
from configtron.model.repeats import FEW, WIDE
from configtron.model.samples import Kept
from configtron.model.tensor import write


class CellTally:
    """Cells by flag, counted while they pass by: the exit code is made from them."""

    def __init__(self) -> None:
        self.flags: Counter[str] = Counter()

    def passing(self, cells: Iterable[Kept]) -> Iterator[Kept]:
        """Yield the same cells, and count them."""
        for cell in cells:
            # a median that is there and not known well is one thing, no median another
            self.flags[cell.verdict.flag if cell.verdict.median_ms is not None else "none"] += 1
            yield cell

    def code(self, cells: int, *, fail_on_unknown: bool) -> int:
        """Return the exit code of a measurement that should have so many cells."""
        medians = self.flags[""] + self.flags[FEW] + self.flags[WIDE]
        if not medians:
            return NOTHING
        if fail_on_unknown and self.flags[""] < cells:
            return CONDITION
        return DONE if medians == cells else PARTIAL


def write_tensor(
    store: Measuring, number: int, layout: Layout, paths: list[Path], tally: CellTally, shards: tuple[ShardRow, ...]
) -> None:
    """Write a measurement's tensor to each of these files."""
    provenance = {
        "study": layout.study,
        "seed": str(layout.seed),
        "server": layout.server,
        "looks": ",".join(map(str, layout.rule.looks)),
        "known": f"{tally.flags['']} of {layout.cells} medians",
        "software": software_of(shards),
    }
    features = {shard.condition: shard.features for shard in shards}
    tensor = tensor_of(layout, store.cells(number), tuple(sorted(provenance.items())), features)
    for path in paths:
        with path.open("wb") as file:
            write(tensor, file)


def software_of(shards: Iterable[ShardRow]) -> str:
    """Return the software that shards ran on, one after another where that changed between them."""
    return " | ".join(softwares(shards))


def softwares(shards: Iterable[ShardRow]) -> list[str]:
    """Return the softwares that shards ran on, as JSON texts."""
    return sorted({canonical(dict(shard.software)) for shard in shards})
