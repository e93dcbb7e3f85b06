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

from configtron.fingerprint.passive.columns import FILE_SHIFT, FRAME_MASK
from configtron.fingerprint.passive.connection_report import ConnectionReport, ConnectionReports, numbers_of
from configtron.fingerprint.passive.summary import SIDES
from configtron.model.records import Json, canonical
from configtron.report.campaign_cost import size
from configtron.report.connection_choice import REPEATS, ConnectionChoice, Key, named, summed
from configtron.report.connection_json import form
from configtron.report.connection_rows import tls_names
from configtron.report.files import visible
from configtron.report.folding import Sheet
from configtron.report.rendering import MOST_ROWS
from configtron.report.tables import cell, shown

TABLE = ("frame", "client", "server", "s", "rtt ms", "icw", "end", "up", "sent again", "down", "sent again",
         "zero windows", "tls", "http")  # fmt: skip
# The column that a second line begins with.
SECOND = "end"
RIGHT = frozenset(("frame", "s", "rtt ms", "up", "down"))
CAPTION = (
    "up: what the client sent; down: the server; behind icw its grade; sent again: after a timeout/as a tail probe/"
    "fast/otherwise, and the share of segments lost; --connection FRAME shows one in whole"
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
        rows = sorted([*rows, *((key, _cells(reports, row, len(files) > 1)) for key, row in first)])[:most]
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


def _cells(reports: ConnectionReports, row: int, several: bool) -> list[str]:
    numbers = {name: numbers_of(name, column[row : row + 1])[0] or 0 for name, column in reports.columns.items()}
    observations, hellos = reports.read(row)
    verdicts = {one.knob: one for one in observations}
    frame, rtt, span, end = int(numbers["frame"]), numbers["rtt"], reports.durations[row], str(reports.endings[row])
    tls, alpn, _ = tls_names(*hellos)
    spoken = next((verdicts[k].text for k in ("http_version", "http_clear") if k in verdicts), alpn)
    by = " and ".join(side for side in SIDES if end == "reset" and numbers[f"{side}_resets"])
    closed = [f"{side} {numbers[f'{side}_zero_windows']}" for side in SIDES if numbers[f"{side}_zero_windows"]]
    return [
        f"{(frame >> FILE_SHIFT) + 1}:{frame & FRAME_MASK}" if several else str(frame & FRAME_MASK),
        *map(named, reports.ends[row]), "-" if span != span else f"{span:.3f}",
        f"{rtt * 1e3:.{1 if rtt >= 1e-3 else 3}f}" if rtt else "-", cell(verdicts.get("icw")),
        f"{end} by {by}" if by else end, *(text for side in SIDES for text in _sent(reports, numbers, row, side)),
        ", ".join(closed), visible(tls), visible(spoken),
    ]  # fmt: skip


def _sent(reports: ConnectionReports, numbers: dict[str, float], row: int, side: str) -> Iterator[str]:
    """Yield what a side sent, and what of it again."""
    rto, tlp, fast, *others = (numbers[f"{side}_{cause}"] for cause in REPEATS)
    yield size(int(numbers[f"{side}_bytes"]))
    repeated = rto or tlp or fast or any(others)
    yield f"{rto}/{tlp}/{fast}/{sum(others)} {100 * reports.loss[side][row]:.1f} %" if repeated else ""


def _summary(sums: Counter[str], shown: int) -> str:
    count = sums["connections"]
    rest = f" ({shown} shown; --all shows every one)" if shown < count else ""
    lost = f"; {100 * sums['again'] / sums['data']:.2g} % sent again" if sums["data"] else ""
    troubles = "".join(f"; {sums[name]} {name}" for name in ("timeouts", "zero windows", "resets"))
    return f"{count} connections{rest}; {size(sums['bytes'])}{lost}{troubles}"
