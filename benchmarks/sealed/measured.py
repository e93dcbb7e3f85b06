# SPDX-License-Identifier: MIT
"""Measure the suite's own tensor in the lab: 4 congestion controls x 2 versions of HTTP, 256 network conditions.

    python -m benchmarks.sealed.measured FILE.npz [WORK_FOLDER [FIRST LAST]]     as root; needs what the lab needs

Bandwidth x round trip x loss x buffer, each of four values, two sites of different size, three loads a cell: enough for
a simulated world, too few to know a median to a tenth (docs/studies.md). A cell whose loads failed stays
without a median. FIRST and LAST select a slice of the conditions, for a trial.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

from configtron.lab.testbed.studies import STUDIES, MeasurementStudy, grid_of
from configtron.model.errors import DONE, INTERRUPTED
from configtron.model.repeats import StoppingRule
from configtron.report.cells import write_table
from configtron.service.learning.measured import show_cells
from configtron.service.learning.measuring import STOPPED, MeasureOptions, MeasureProgress, fill
from configtron.service.progress import Event

NAME = "versions"
MBIT, RTT_MS, LOSS_PERCENT = (1, 5, 20, 80), (20, 60, 150, 300), (0, 0.3, 1, 3)
# Buffers in shares of the bandwidth-delay product, and what the smallest links have at least, in packets.
BUFFERS = ((0.25, 3), (0.5, 6), (1, 12), (4, 48))
PACKET_BITS = 1514 * 8
GRID = {"tcp_congestion_control": ("cubic", "reno", "vegas", "bbr"), "http_version": ("http/1.1", "h2")}
SITES, LOADS, SEED = ("bank", "blog"), 3, 4021


def conditions() -> tuple[str, ...]:
    """The networks, as `learn measure --condition` names them."""
    names = []
    for mbit, rtt_ms, loss, (share, least) in product(MBIT, RTT_MS, LOSS_PERCENT, BUFFERS):
        packets = max(least, round(share * mbit * 1e3 * rtt_ms / PACKET_BITS))
        names.append(f"emulated:{mbit}/{rtt_ms / 2:g}/{loss}/{packets}")
    return tuple(names)


def main(words: list[str]) -> int:
    """Measure; return the exit code."""
    folder = Path(words[1]) if len(words) > 1 else Path(words[0]).parent
    some = conditions()[slice(*map(int, words[2:4]))] if len(words) > 2 else conditions()
    study = MeasurementStudy(
        NAME, "congestion controls and versions of HTTP", some, grid_of(GRID), SITES, StoppingRule((LOADS,))
    )
    assert isinstance(STUDIES, dict)
    STUDIES[NAME] = study
    found = fill(MeasureOptions(folder / "measured.db", NAME, seed=SEED, server="nginx", argv=tuple(words)), show)
    with (folder / "measured.txt").open("w") as out:
        _, lines = show_cells(folder / "measured.db", found, lambda cells: write_table(cells, out), Path(words[0]))
    print(*lines, sep="\n", file=sys.stderr)
    return INTERRUPTED if found.status == STOPPED else DONE


def show(event: Event) -> None:
    """Print notices; of steps, how many cells are done."""
    step = isinstance(event, MeasureProgress)
    print(f"{event.what}: {event.done}/{event.total} cells" if step else event.what, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
