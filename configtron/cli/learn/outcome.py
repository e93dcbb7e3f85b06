# SPDX-License-Identifier: MIT
"""What a measurement shows when it has ended, and the exit code it earned."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from configtron.cli.settings import settings
from configtron.db.measuring import Measuring, Shard
from configtron.lab.bed.layout import Layout, tensor_of
from configtron.model.errors import CONDITION, DONE, NOTHING, PARTIAL
from configtron.model.records import canonical
from configtron.model.repeats import FEW, WIDE
from configtron.model.samples import Kept
from configtron.model.tensor import write
from configtron.report import cells as report
from configtron.report.lines import opened

TENSOR = "tensor.npz"
WRITERS = {"jsonl": report.write_jsonl, "csv": report.write_csv}


@dataclass(frozen=True)
class Wanted:
    """Options that are today's, not the measurement's: how it is done and what is shown."""

    jobs: int | None = None
    dask: str = ""
    fail_on_unknown: bool = False
    tensor: Path | None = None
    status_updates_file: Path | None = None
    form: str = "table"
    output_file: str = "-"


class _Tally:
    """What the exit code is made from, counted while the cells pass by."""

    def __init__(self) -> None:
        self.flags: Counter[str] = Counter()

    def passing(self, cells: Iterable[Kept]) -> Iterator[Kept]:
        """The same, counted."""
        for cell in cells:
            # a median that is there and not known well is one thing, no median another
            self.flags[cell.verdict.flag if cell.verdict.median_ms is not None else "none"] += 1
            yield cell

    def code(self, cells: int, *, fail_on_unknown: bool) -> int:
        """The exit code of a measurement that should have so many cells."""
        medians = self.flags[""] + self.flags[FEW] + self.flags[WIDE]
        if not medians:
            return NOTHING
        if fail_on_unknown and self.flags[""] < cells:
            return CONDITION
        return DONE if medians == cells else PARTIAL


def show(store: Measuring, number: int, layout: Layout, folder: Path, wanted: Wanted) -> int:
    """Print the cells as asked, write the tensor; the exit code."""
    tally = _Tally()
    with opened(wanted.output_file) as out:
        cells = tally.passing(store.cells(number))
        if wanted.form in WRITERS:
            WRITERS[wanted.form](cells, out)
        else:
            report.write_table(cells, out)
    shards = store.shards(number)
    _write_tensor(store, number, layout, [folder / TENSOR, *([wanted.tensor] if wanted.tensor else [])], tally, shards)
    if settings().loudness >= 0:
        _say(number, layout, tally, shards, wanted.tensor or folder / TENSOR)
    return tally.code(layout.cells, fail_on_unknown=wanted.fail_on_unknown)


def _write_tensor(
    store: Measuring, number: int, layout: Layout, paths: list[Path], tally: _Tally, shards: tuple[Shard, ...]
) -> None:
    provenance = {
        "study": layout.study,
        "seed": str(layout.seed),
        "server": layout.server,
        "looks": ",".join(map(str, layout.rule.looks)),
        "known": f"{tally.flags['']} of {layout.cells} medians",
        "software": software_told(shards),
    }
    features = {shard.condition: shard.features for shard in shards}
    tensor = tensor_of(layout, store.cells(number), tuple(sorted(provenance.items())), features)
    for path in paths:
        with path.open("wb") as file:
            write(tensor, file)


def software_told(shards: Iterable[Shard]) -> str:
    """What shards ran on, one after another where that changed between them."""
    return " | ".join(_softwares(shards))


def _softwares(shards: Iterable[Shard]) -> list[str]:
    return sorted({canonical(dict(shard.software)) for shard in shards})


def _say(number: int, layout: Layout, tally: _Tally, shards: tuple[Shard, ...], tensor: Path) -> None:
    wall, virtual = sum(shard.wall_s for shard in shards), sum(shard.virtual_s for shard in shards)
    flags = ", ".join(f"{count} {flag}" for flag, count in tally.flags.most_common() if flag)
    known = f"{tally.flags['']} of {layout.cells} medians known" + (f" ({flags})" if flags else "")
    took = f"{sum(shard.loads for shard in shards)} loads, {virtual:.0f} virtual s in {wall:.0f} guest s"
    print(f"measurement {number}: {known}; {took}", file=sys.stderr)
    if len(found := _softwares(shards)) > 1:
        words = "a cell's provenance tells them apart; for one alone, measure anew"
        print(f"measurement {number}: its shards ran on {len(found)} different softwares; {words}", file=sys.stderr)
    print(f"tensor: {tensor}", file=sys.stderr)
