# SPDX-License-Identifier: MIT
"""The table of a capture's connections, worst first, with their sums below; and all that is known of one connection.

Method     Of each batch only the rows that may be among the first are formatted. Where rows are wider than the
           terminal, each takes a second line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from typing import TextIO

import numpy as np

from configtron.fingerprint.passive.columns import FILE_SHIFT, FRAME_MASK
from configtron.fingerprint.passive.connection_report import ConnectionReport, ConnectionReports
from configtron.fingerprint.passive.limits import limit_of, limits_of
from configtron.fingerprint.passive.readings import Hellos
from configtron.fingerprint.passive.summary import SIDES
from configtron.model.nouns import Observation
from configtron.model.records import Json, canonical
from configtron.model.wording import count_of, visible
from configtron.report.connection_choice import REPEATS, ConnectionChoice, Key, named, summed
from configtron.report.connection_json import form
from configtron.report.connection_rows import texts_by_kind, tls_names
from configtron.report.folding import Sheet
from configtron.report.printed import MOST_ROWS, cell, shown, size
from configtron.report.slow_because import frame_name, slow_because

TABLE = ("frame", "client", "server", "s", "rtt ms", "up", "up again", "down", "down again", "shut", "icw",
         "end", "tls", "http", "slow because")  # fmt: skip
# The columns that `slow_because` reads.
SAID = ("frame", "client_bytes", "server_bytes", "syns", "synacks", "server_resets", "client_zero_windows",
        "server_zero_windows", "frag_needed", "frag_needed_mtu")  # fmt: skip
# The column that a second line begins with.
SECOND = "up"
RIGHT = frozenset(("frame", "s", "rtt ms", "up", "down"))
CAPTION = (
    "up: what the client sent, down: the server; again: sent again after a timeout/as a tail probe/fast/otherwise, and "
    "the share lost; shut: windows that client/server closed; behind icw its grade; slow because: what most of the "
    "time was spent on; --connection FRAME shows one in whole"
)
# Sums of the last line, and the columns of both sides that each adds up.
SUMS = {"bytes": ("bytes",), "data": ("data",), "again": ("rto", "fast", "other"), "timeout": ("rto",),
        "zero window": ("zero_windows",), "reset": ("resets",)}  # fmt: skip


def write_table(
    batches: Iterable[ConnectionReports], files: Sequence[str], out: TextIO, choice: ConnectionChoice, *, color: bool
) -> None:
    """Write the first connections in the chosen order, then the sums of all chosen connections."""
    most = None if choice.every else MOST_ROWS
    rows, sums = list[tuple[Key, list[str]]](), Counter[str]()
    for reports in batches:
        sums.update({name: int(summed(reports, *columns).sum()) for name, columns in SUMS.items()})
        sums["connections"] += len(reports)
        keys = zip(choice.keys(reports, files), range(len(reports)), strict=True)
        first = sorted(keys) if most is None else nsmallest(most, keys)
        cells = table_rows(reports.only(np.array([row for _, row in first], np.int64)), len(files) > 1)
        rows = sorted([*rows, *zip((key for key, _ in first), cells, strict=True)])[:most]
    if not rows:
        return
    sheet = Sheet(*TABLE, right=RIGHT, second=SECOND)
    for _, row_cells in rows:
        sheet.add_row(*row_cells)
    sheet.caption = f"{_summary(sums, len(rows))}\n{CAPTION}"
    sheet.write(out, color=color)


def write_one(one: ConnectionReport, files: list[str], out: TextIO) -> None:
    """Write all that is known of a connection: its numbers, those of both sides, each verdict with its frames."""
    sides, found = Sheet("", *SIDES, right=SIDES), form(one, files)
    found |= {f"handshake {name}": value for name, value in _object(found.pop("handshake")).items()}
    ends = [_object(found.pop(side)) for side in SIDES]
    for name in dict.fromkeys((*ends[0], *ends[1])):
        sides.add_row(name, *(_text(end.get(name)) for end in ends))
    about, verdicts = Sheet("connection", ""), Sheet("parameter", "value", "unit", "grade", "read from", "frames")
    limited = Sheet("waited for", "share", "s", "times", "grade", "frames", right=("share", "s", "times"))
    total, own = sum(share.ns for share in one.limits), int(one.numbers["frame"] or 0)
    for share in one.limits:
        frames = " ".join(frame_name(frame, own) for frame in share.frames)
        part, seconds = f"{100 * share.ns / total:.1f} %", f"{share.ns / 1e9:.3f}"
        limited.add_row(share.limit, part, seconds, str(share.times), share.grade, frames)
    flights = Sheet("window", "grade", "proof", "after", "s", "frame", right=("window", "s"))
    for flight in one.windows:
        facts = flight.grade, flight.proof, flight.why, f"{(flight.at_ns - one.started_ns) / 1e9:.3f}"
        flights.add_row(str(flight.segments), *facts, frame_name(flight.frames[0], own))
    found["slow because"] = slow_because(one.numbers, one.limits) or None
    for name in [one for one in found if one not in ("observations", "limits", "windows")]:
        about.add_row(name, _text(found[name]))
    for seen in one.observations:
        frames = " ".join(frame_name(frame, own) for frame in seen.evidence)
        verdicts.add_row(seen.knob, shown(seen), seen.unit, seen.grade, seen.method, frames)
    for sheet in (about, sides, *(one for one in (limited, flights) if one.rows[1:]), verdicts):
        sheet.write(out, color=False)


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str:
    return "-" if value is None else visible(value if isinstance(value, str) else canonical(value))


def table_rows(reports: ConnectionReports, several: bool) -> Iterator[list[str]]:
    """Yield the cells of each connection, as `TABLE` names them; `several` files: their numbers stand before frames."""
    if not len(reports):
        return
    frames, trips, endings = reports.columns["frame"], reports.columns["rtt"] / 1e9, reports.endings.tolist()
    spoken = [text for _, texts in texts_by_kind(reports, reports.read, _spoken) for text in texts]
    numbers = zip(*(np.maximum(reports.columns[name], 0).tolist() for name in SAID), strict=True)
    yield from map(
        list,
        zip(
            [f"{(frame >> FILE_SHIFT) + 1}:" * several + str(frame & FRAME_MASK) for frame in frames.tolist()],
            *zip(*(map(named, pair) for pair in reports.ends), strict=True),
            ["-" if span != span else f"{span:.3f}" for span in reports.durations.tolist()],
            [f"{rtt * 1e3:.{1 if rtt >= 1e-3 else 3}f}" if rtt > 0 else "-" for rtt in trips.tolist()],
            *_sent(reports, "client"), *_sent(reports, "server"),
            ["" if shut == (0, 0) else "{}/{}".format(*shut) for shut in _both(reports, "zero_windows")],
            [icw for icw, _, _ in spoken],
            [
                "".join(f"{side} " for side, one in zip(SIDES, by, strict=True) if one and ending == "reset") + ending
                for ending, by in zip(endings, _both(reports, "resets"), strict=True)
            ],
            [tls for _, tls, _ in spoken], [http for _, _, http in spoken],
            [
                slow_because(dict(zip(SAID, row, strict=True)), shares)
                for row, shares in zip(numbers, limits_of(reports.columns, limit_of), strict=True)
            ],
            strict=True,
        ),
    )  # fmt: skip


def _spoken(observations: Sequence[Observation], hellos: Hellos) -> tuple[str, str, str]:
    """Return the texts of the window with its grade, of TLS, of HTTP. `write_one` says why one is unknown."""
    known = {one.knob: one for one in observations if one.value is not None}
    tls, alpn, _ = tls_names(*hellos)
    http = next((known[knob].text for knob in ("http_version", "http_clear") if knob in known), alpn)
    return cell(known["icw"]) if "icw" in known else "-", visible(tls), visible(http)


def _both(reports: ConnectionReports, name: str) -> Iterator[tuple[int, int]]:
    """Yield a column's values of client and server."""
    return zip(*(reports.columns[f"{side}_{name}"].tolist() for side in SIDES), strict=True)


def _sent(reports: ConnectionReports, side: str) -> tuple[list[str], list[str]]:
    """Return the texts of what a side sent, and of its repeats."""
    rto, tlp, fast, *others = (reports.columns[f"{side}_{cause}"] for cause in REPEATS)
    causes = np.stack([rto, tlp, fast, sum(others)], axis=1).tolist()
    shares = (100 * np.nan_to_num(reports.loss[side])).tolist()
    again = [
        "/".join(map(str, cause)) + f" {share:.{int(share < 10)}f} %" if any(cause) else ""
        for cause, share in zip(causes, shares, strict=True)
    ]
    return [size(sent) for sent in reports.columns[f"{side}_bytes"].tolist()], again


def _summary(sums: Counter[str], printed: int) -> str:
    count = sums["connections"]
    rest = f" ({printed} shown; --all shows every one)" if printed < count else ""
    lost = f"; {100 * sums['again'] / sums['data']:.2g} % sent again" if sums["data"] else ""
    troubles = "".join(f"; {count_of(sums[name], name)}" for name in list(SUMS)[3:])
    return f"{count_of(count, 'connection')}{rest}; {size(sums['bytes'])}{lost}{troubles}"
