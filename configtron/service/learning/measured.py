# SPDX-License-Identifier: MIT
"""A measurement that has ended: its cells counted and shown, its tensor written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from configtron.db.measuring import Measuring, ShardRow
from configtron.lab.testbed.layout import Layout, tensor_of
from configtron.model.errors import CONDITION, DONE, NOTHING, PARTIAL
from configtron.model.records import canonical
from configtron.model.repeats import FEW, WIDE
from configtron.model.samples import Kept
from configtron.model.tensor import write
from configtron.service.learning.measuring import Measurement

TENSOR = "tensor.npz"


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

    @property
    def known(self) -> int:
        """Return how many medians are known as well as they should be."""
        return self.flags[""]

    @property
    def medians(self) -> int:
        """Return how many cells have a median."""
        return self.flags[""] + self.flags[FEW] + self.flags[WIDE]

    def code(self, cells: int, *, fail_on_unknown: bool) -> int:
        """Return the exit code of a measurement that should have so many cells."""
        if not self.medians:
            return NOTHING
        if fail_on_unknown and self.known < cells:
            return CONDITION
        return DONE if self.medians == cells else PARTIAL


def show_cells(
    db: Path, found: Measurement, write_cells: Callable[[Iterable[Kept]], None], tensor: Path | None = None
) -> tuple[CellTally, list[str]]:
    """Hand the cells of a measurement to a writer, then write its tensor into its folder, and to `tensor` too.

    Returns the count of cells by flag, and closing lines for people.
    """
    tally = CellTally()
    with Measuring(db) as store:
        write_cells(tally.passing(store.cells(found.number)))
        shards = store.shards(found.number)
        paths = [found.folder / TENSOR, *([tensor] if tensor else [])]
        _write_tensor(store, found.number, found.layout, paths, tally, shards)
    return tally, [*_closing_lines(found, tally, shards), f"tensor: {tensor or found.folder / TENSOR}"]


def _closing_lines(found: Measurement, tally: CellTally, shards: tuple[ShardRow, ...]) -> Iterator[str]:
    wall, virtual = sum(shard.wall_s for shard in shards), sum(shard.virtual_s for shard in shards)
    flags = ", ".join(f"{count} {flag}" for flag, count in tally.flags.most_common() if flag)
    known = f"{tally.known} of {found.layout.cells} medians known" + (f" ({flags})" if flags else "")
    took = f"{sum(shard.loads for shard in shards)} loads, {virtual:.0f} virtual s in {wall:.0f} guest s"
    yield f"measurement {found.number}: {known}; {took}"
    if len(ran := softwares(shards)) > 1:
        words = "the provenance of a cell names its own; for one alone, measure anew"
        yield f"measurement {found.number}: its shards ran on {len(ran)} different softwares; {words}"


def _write_tensor(
    store: Measuring, number: int, layout: Layout, paths: list[Path], tally: CellTally, shards: tuple[ShardRow, ...]
) -> None:
    """Write a measurement's tensor to each of these files."""
    provenance = {
        "study": layout.study,
        "seed": str(layout.seed),
        "server": layout.server,
        "looks": ",".join(map(str, layout.rule.looks)),
        "known": f"{tally.known} of {layout.cells} medians",
        "loads": str(sum(shard.loads for shard in shards)),
        "virtual_s": f"{sum(shard.virtual_s for shard in shards):.0f}",
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
