# SPDX-License-Identifier: MIT
"""The table of a capture's connections, worst first, below it a line of sums; and one connection in whole.

Method     Only the rows that are shown are formatted: of each batch those that may be among the first. Where rows are
           wider than the terminal, each takes a second line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from typing import TextIO

import numpy as np

from configtron.fingerprint.passive.columns import FILE_SHIFT, FRAME_MASK
from configtron.fingerprint.passive.connection_report import ConnectionReport, ConnectionReports, numbers_of
from configtron.fingerprint.passive.summary import SIDES
from configtron.model.nouns import Observation
from configtron.model.records import Json, canonical
from configtron.report.campaign_cost import size
from configtron.report.connection_choice import REPEATS, ConnectionChoice, Key, named, summed
from configtron.report.connection_json import form
from configtron.report.connection_rows import tls_names
from configtron.report.files import visible
from configtron.report.folding import Sheet
from configtron.report.rendering import MOST_ROWS
from configtron.report.slow_because import slow_because
from configtron.report.tables import cell, shown

TABLE = ("frame", "client", "server", "s", "rtt ms", "up", "sent again", "down", "sent again", "shut", "icw",
         "end", "tls", "http", "slow because")  # fmt: skip
# The column that a second line begins with.
SECOND = "up"
RIGHT = frozenset(("frame", "s", "rtt ms", "up", "down"))
CAPTION = (
    "up: what the client sent, down: the server; sent again: after a timeout/as a tail probe/fast/otherwise, and the "
    "share lost; shut: windows that client/server closed; behind icw its grade; slow because: what most of the time "
    "was spent on; --connection FRAME shows one in whole"
)
# Sums of the last line, by the columns that they are made of.
SUMS = {"bytes": ("bytes",), "data": ("data",), "again": ("rto", "fast", "other"), "timeouts": ("rto",),
        "zero windows": ("zero_windows",), "resets": ("resets",)}  # fmt: skip


def write_table(
    batches: Iterable[ConnectionReports], files: Sequence[str], out: TextIO, choice: ConnectionChoice, *, color: bool
) -> None:
    """Write the first connections in the order that was chosen, then sums of all that were."""
    most = None if choice.every else MOST_ROWS
    rows, sums = list[tuple[Key, list[str]]](), Counter[str]()
    for reports in batches:
        sums.update({name: int(summed(reports, *columns).sum()) for name, columns in SUMS.items()})
        sums["connections"] += len(reports)
        keys = zip(choice.keys(reports, files), range(len(reports)), strict=True)
        first = sorted(keys) if most is None else nsmallest(most, keys)
        rows = sorted([*rows, *((key, row_cells(reports, row, len(files) > 1)) for key, row in first)])[:most]
    if not rows:
        return
    sheet = Sheet(*TABLE, right=RIGHT, second=SECOND)
    for _, cells in rows:
        sheet.add_row(*cells)
    sheet.caption = CAPTION
    sheet.write(out, color=color)
    out.write(f"{_summary(sums, len(rows))}\n")


def write_one(one: ConnectionReport, files: list[str], out: TextIO) -> None:
    """Write all that is known of a connection: its numbers, those of both sides, each verdict with its frames."""
    sides, found = Sheet("", *SIDES, right=SIDES), form(one, files)
    found |= {f"handshake {name}": value for name, value in _object(found.pop("handshake")).items()}
    ends = [_object(found.pop(side)) for side in SIDES]
    for name in dict.fromkeys((*ends[0], *ends[1])):
        sides.add_row(name, *(_text(end.get(name)) for end in ends))
    del found["observations"]
    about, verdicts = Sheet("connection", ""), Sheet("parameter", "value", "unit", "grade", "read from", "frames")
    for name, value in found.items():
        about.add_row(name, _text(value))
    for seen in one.observations:
        verdicts.add_row(seen.knob, shown(seen), seen.unit, seen.grade, seen.method, " ".join(map(str, seen.evidence)))
    for sheet in (about, sides, verdicts):
        sheet.write(out, color=False)


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str:
    return "-" if value is None else visible(value if isinstance(value, str) else canonical(value))


def row_cells(reports: ConnectionReports, row: int, several: bool) -> list[str]:
    """Return the cells of a connection, as `TABLE` names them; several: files, whose numbers stand before frames."""
    numbers = {name: numbers_of(name, column[row : row + 1])[0] or 0 for name, column in reports.columns.items()}
    observations, hellos = reports.read(row)
    verdicts = {one.knob: one for one in observations}
    frame, rtt, span, end = int(numbers["frame"]), numbers["rtt"], reports.durations[row], str(reports.endings[row])
    tls, alpn, _ = tls_names(*hellos)
    spoken = next((verdicts[k].text for k in ("http_version", "http_clear") if k in verdicts), alpn)
    by = "".join(f"{side} " for side in SIDES if end == "reset" and numbers[f"{side}_resets"])
    shut = [str(numbers[f"{side}_zero_windows"]) for side in SIDES]
    return [
        f"{(frame >> FILE_SHIFT) + 1}:{frame & FRAME_MASK}" if several else str(frame & FRAME_MASK),
        *map(named, reports.ends[row]), "-" if span != span else f"{span:.3f}",
        f"{rtt * 1e3:.{1 if rtt >= 1e-3 else 3}f}" if rtt else "-",
        *(text for side in SIDES for text in _sent(reports, numbers, row, side)),
        "/".join(shut) if any(map(int, shut)) else "", _window(verdicts.get("icw")), f"{by}{end}",
        visible(tls), visible(spoken), slow_because(numbers),
    ]  # fmt: skip


def _window(icw: Observation | None) -> str:
    """Return it with its grade; why it is not known is for those who ask for the connection."""
    return "-" if icw is None or icw.value is None else cell(icw)


def _sent(reports: ConnectionReports, numbers: dict[str, float], row: int, side: str) -> Iterator[str]:
    """Yield what a side sent, and what of it again."""
    rto, tlp, fast, *others = (numbers[f"{side}_{cause}"] for cause in REPEATS)
    yield size(int(numbers[f"{side}_bytes"]))
    repeated = rto or tlp or fast or any(others)
    share = 100 * float(np.nan_to_num(reports.loss[side][row]))
    yield f"{rto}/{tlp}/{fast}/{sum(others)} {share:.{int(share < 10)}f} %" if repeated else ""


def _summary(sums: Counter[str], shown: int) -> str:
    count = sums["connections"]
    rest = f" ({shown} shown; --all shows every one)" if shown < count else ""
    lost = f"; {100 * sums['again'] / sums['data']:.2g} % sent again" if sums["data"] else ""
    troubles = "".join(f"; {sums[name]} {name}" for name in ("timeouts", "zero windows", "resets"))
    return f"{count} connections{rest}; {size(sums['bytes'])}{lost}{troubles}"
