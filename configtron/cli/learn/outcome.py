# SPDX-License-Identifier: MIT
"""What a measurement shows when it has ended, and the exit code it earned."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from configtron.cli.settings import settings
from configtron.db.measuring import Measuring, ShardRow
from configtron.lab.testbed.layout import Layout
from configtron.report import cells as report
from configtron.report.lines import opened
from configtron.service.learning.measured import CellTally, softwares, write_tensor

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


def show(store: Measuring, number: int, layout: Layout, folder: Path, wanted: Wanted) -> int:
    """Print the cells as asked, write the tensor; the exit code."""
    tally = CellTally()
    with opened(wanted.output_file) as out:
        cells = tally.passing(store.cells(number))
        if wanted.form in WRITERS:
            WRITERS[wanted.form](cells, out)
        else:
            report.write_table(cells, out)
    shards = store.shards(number)
    write_tensor(store, number, layout, [folder / TENSOR, *([wanted.tensor] if wanted.tensor else [])], tally, shards)
    if settings().loudness >= 0:
        _say(number, layout, tally, shards, wanted.tensor or folder / TENSOR)
    return tally.code(layout.cells, fail_on_unknown=wanted.fail_on_unknown)


def _say(number: int, layout: Layout, tally: CellTally, shards: tuple[ShardRow, ...], tensor: Path) -> None:
    wall, virtual = sum(shard.wall_s for shard in shards), sum(shard.virtual_s for shard in shards)
    flags = ", ".join(f"{count} {flag}" for flag, count in tally.flags.most_common() if flag)
    known = f"{tally.flags['']} of {layout.cells} medians known" + (f" ({flags})" if flags else "")
    took = f"{sum(shard.loads for shard in shards)} loads, {virtual:.0f} virtual s in {wall:.0f} guest s"
    print(f"measurement {number}: {known}; {took}", file=sys.stderr)
    if len(found := softwares(shards)) > 1:
        words = "a cell's provenance tells them apart; for one alone, measure anew"
        print(f"measurement {number}: its shards ran on {len(found)} different softwares; {words}", file=sys.stderr)
    print(f"tensor: {tensor}", file=sys.stderr)
