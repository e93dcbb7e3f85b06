# SPDX-License-Identifier: MIT
"""Local connections as text, one by one: a table, JSON Lines, CSV. Nothing is held back, so memory stays flat.

A feature without a value is left out of JSON and its reason stands under `unknown`; it is empty in CSV and "-" in the
table. A bandwidth that is a lower bound carries its sign.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TextIO

from configtron.fingerprint.features import LOADED, Sighting
from configtron.model.records import Json
from configtron.report.connections import counted
from configtron.report.rows import emit

SCHEMA, WATCH = "configtron.context/1", "configtron.watch/1"
# Heading and width; the widest IPv6 /48 has 18 characters.
TABLE = (
    ("local port", 10), ("client", 18), ("way", 3), ("ended", 6), ("rtt [ms]", 8), ("min [ms]", 8), ("jitter", 8),
    ("loss", 7), ("bandwidth [kbit/s]", 18), ("delivery", 10), ("asn", 6), ("region", 6), ("device", 8),
)  # fmt: skip
# What a narrow terminal does without, the least important first.
SPARE = ("asn", "region", "delivery", "ended", "jitter", "device", "way")
GAP = "  "
ABOUT = ("source", "at", "local", "local_port", "remote", "remote_port", "way", "ended", "age_s", "bytes_out",
         "bytes_in", "bounded")  # fmt: skip
CONTEXT = ("prefix", "asn", "region", "device", "rtt_ms", "min_rtt_ms", "jitter_ms", "loss", "bandwidth_kbps",
           "delivery_kbps", *LOADED)  # fmt: skip


def form(seen: Sighting) -> dict[str, Json]:
    """A sighting as a JSON object."""
    context = {name: value for name, value in asdict(seen.context).items() if value not in (None, "")}
    ends: dict[str, Json] = {"local": {"port": seen.local_port} | ({"address": seen.local} if seen.local else {})}
    if seen.remote:
        ends["remote"] = {"address": seen.remote, "port": seen.remote_port}
    found: dict[str, Json] = {
        "schema": SCHEMA, "source": seen.source, "at": round(seen.at_ns / 1e9, 9), **ends, "way": seen.way,
        "ended": seen.ended, "bytes_out": seen.bytes_out, "bytes_in": seen.bytes_in, "bounded": seen.bounded,
        "context": context, "unknown": dict(seen.unknown),
    }  # fmt: skip
    return found if seen.age_s is None else found | {"age_s": round(seen.age_s, 9)}


def closing(watch: int, source: str, elapsed_s: float, counts: Mapping[str, int]) -> dict[str, Json]:
    """Return the counts of a watch, as the last line of its JSON Lines and in the store."""
    return {
        "schema": WATCH, "watch": watch, "source": source, "elapsed_s": round(elapsed_s, 3),
        "dropped": dropped(counts), "counts": {name: value for name, value in sorted(counts.items()) if value},
    }  # fmt: skip


def dropped(counts: Mapping[str, int]) -> int:
    """Return the counts of losses before reading."""
    return counts.get("dropped-by-capture", 0) + counts.get("endings-lost", 0)


def summed(source: str, counts: Mapping[str, int]) -> str:
    """The same in a line for people."""
    rest = {name: value for name, value in counts.items() if name not in ("dropped-by-capture", "endings-lost")}
    if source == "socket":
        text = f"{counts.get('connections', 0)} connections reported"
    else:
        text = counted(rest)
    return f"{text}; {dropped(counts)} dropped"


class SightingWriter:
    """Writes sightings in one of the forms: "table", "jsonl", "csv". `silent`: others write here, all but the end."""

    def __init__(self, kind: str, out: TextIO, *, silent: bool = False) -> None:
        self._kind, self._out, self._silent = kind, out, silent
        self._headed = False
        self._shown = shown(shutil.get_terminal_size().columns) if out.isatty() else range(len(TABLE))

    def write(self, seen: Iterable[Sighting]) -> None:
        """A line each, seen at once by the reader."""
        if self._silent:
            return
        if self._kind == "table":
            for one in seen:
                if not self._headed:
                    self._headed = True
                    self._out.write(_line([name for name, _ in TABLE], self._shown))
                self._out.write(_line(_cells(one), self._shown))
        else:
            rows = map(_row if self._kind == "csv" else form, seen)
            emit(self._kind, (*ABOUT, *CONTEXT), rows, self._out, schema=SCHEMA, header=not self._headed)
            self._headed = True
        self._out.flush()

    def close(self, last: Mapping[str, Json]) -> None:
        """The last line, where the form has room for one."""
        self.write(())
        if self._kind == "jsonl":
            emit("jsonl", (), [last], self._out, schema=WATCH)
        self._out.flush()


def shown(width: int) -> Sequence[int]:
    """Return which columns of TABLE a terminal of that width has room for."""
    gone: set[str] = set()
    for name in ("", *SPARE):
        gone.add(name)
        kept = [place for place, (name, _) in enumerate(TABLE) if name not in gone]
        if sum(TABLE[place][1] for place in kept) + len(GAP) * (len(kept) - 1) <= width:
            break
    return kept


def _line(cells: list[str], places: Sequence[int]) -> str:
    numbers = range(4, 10)
    padded = [
        cells[place].rjust(TABLE[place][1]) if place in numbers else cells[place].ljust(TABLE[place][1])
        for place in places
    ]
    return GAP.join(padded).rstrip() + "\n"


def _cells(seen: Sighting) -> list[str]:
    kept = seen.context
    bound = ">= " if seen.bounded else ""
    return [
        str(seen.local_port), kept.prefix, seen.way or "-", seen.ended, _fixed(kept.rtt_ms, 3),
        _fixed(kept.min_rtt_ms, 3), _fixed(kept.jitter_ms, 3),
        "-" if kept.loss is None else f"{100 * kept.loss:.2f} %",
        "-" if kept.bandwidth_kbps is None else bound + _fixed(kept.bandwidth_kbps, 0), _fixed(kept.delivery_kbps, 0),
        "-" if kept.asn is None else str(kept.asn), kept.region or "-", kept.device or "-",
    ]  # fmt: skip


def _fixed(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _row(seen: Sighting) -> dict[str, Json]:
    about: dict[str, Json] = {name: getattr(seen, name, "") for name in ABOUT}
    about |= {"at": f"{seen.at_ns // 10**9}.{seen.at_ns % 10**9:09}", "bounded": int(seen.bounded)}
    about["age_s"] = "" if seen.age_s is None else round(seen.age_s, 9)
    if not seen.remote:
        about["remote_port"] = ""
    return about | {name: getattr(seen.context, name) for name in CONTEXT}
