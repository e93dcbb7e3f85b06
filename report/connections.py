# SPDX-License-Identifier: MIT
"""Connections of a capture as text: a table, JSON Lines, CSV; and servers, with the verdicts of all their connections.

A number that the capture does not show is left out (JSON), empty (CSV) or "-" (table); it is never 0.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TextIO

from rich.table import Table

from configtron.fingerprint.merge import merge_all
from configtron.fingerprint.passive.connection_report import (
    SECONDS,
    ConnectionReport,
    address,
    ended,
    goodput_kbps,
    loss,
)
from configtron.fingerprint.passive.summary import CONNECTION, SIDE, SIDES
from configtron.model.nouns import Fingerprint, Observation, Target, Vantage
from configtron.model.records import Json, Result, canonical, observation_form
from configtron.report import lines, tables
from configtron.report.tables import _table as plain_table
from configtron.report.tables import cell, text
from configtron.report.target_results import TargetResult

SCHEMA = "configtron.connection/1"
# Columns of SIDE that are only there to compute others.
INNER = ("first_data", "last_data")
# Parameters that have a column of their own in the CSV and the table.
SHOWN = ("icw", "synack_rto", "http_version", "http_clear")
# What each of them has a column for.
VERDICT = ("", "_grade", "_reason")
# Rows that are written together.
TOGETHER = 1000
TABLE = ("frame", "client", "server", "s", "rtt\n[ms]", "icw\n[segments]", "kB", "loss", "rto/tlp/fast", "order",
         "tls", "alpn or http", "end")  # fmt: skip
SPARE = ("order", "tls", "frame", "s", "kB", "end", "alpn or http")


def form(connection: ConnectionReport, files: list[str]) -> dict[str, Json]:
    """A connection as a JSON object."""
    numbers = connection.numbers
    handshake = {name: numbers[name] for name in ("rtt", "rtt_server", "rtt_client", "syns", "synacks")}
    agreed: dict[str, Json] = {
        name: None if numbers[name] is None else bool(numbers[name]) for name in ("sack", "stamps")
    }
    return _without_none(
        {
            "schema": SCHEMA,
            "file": files[connection.file],
            "frame": connection.frame,
            "started_at": round(connection.started_ns / 1e9, 9),
            "duration": round(connection.duration_s, 9),
            "packets": _plain(numbers["packets"]),
            "copies": _plain(numbers["copies"] or None),
            "ended": ended(connection),
            "captured_at": connection.place or None,
            "merged": connection.merged or None,
            "incomplete": connection.incomplete or None,
            "options_cut": bool(numbers["options_cut"]) or None,
            "handshake": _without_none({**{name: _plain(value) for name, value in handshake.items()}, **agreed}),
            **{side: _side(connection, side) for side in SIDES},
            "tls": _tls(connection),
            "observations": {o.knob: _reading(o) for o in connection.observations},
        }
    )


def _side(connection: ConnectionReport, side: str) -> Json:
    end = connection.client if side == "client" else connection.server
    numbers = {name: _plain(connection.numbers[f"{side}_{name}"]) for name in SIDE if name not in INNER}
    goodput, lost = goodput_kbps(connection, side), loss(connection, side)
    derived = {
        "goodput_kbps": None if goodput is None else round(goodput, 3),
        "loss": None if lost is None else round(lost, 6),
    }
    return _without_none({"address": address(end), "port": end.port, **numbers, **derived})


def _tls(connection: ConnectionReport) -> Json:
    asked, answered = connection.hellos
    if asked is None and answered is None:
        return None
    found: dict[str, Json] = {}
    if asked is not None:
        found |= {"server_name": asked.server_name or None, "offered": list(asked.versions),
                  "alpn_offered": list(asked.alpn) or None}  # fmt: skip
    if answered is not None:
        found |= {"version": next(iter(answered.versions), None), "alpn": next(iter(answered.alpn), None)}
    return _without_none(found)


def _reading(observation: Observation) -> Json:
    found = observation_form(observation)
    for name in ("knob", "trace_id"):
        found.pop(name, None)
    return found


def _plain(value: float | None) -> Json:
    return None if value is None else int(value) if float(value).is_integer() else round(value, 9)


def _without_none(form: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in form.items() if value is not None}


def write_jsonl(connections: Iterable[ConnectionReport], files: list[str], out: TextIO) -> int:
    """A line a connection; how many."""
    count = 0
    for one in connections:
        out.write(canonical(form(one, files)) + "\n")
        count += 1
    return count


def columns() -> list[str]:
    """The CSV's header."""
    times = ["file", "frame", "started_at", "duration", "ended", "captured_at"]
    plain = [name for name in CONNECTION if name not in ("frame", "started", "ended")]
    sides = [f"{side}_{name}" for side in SIDES for name in (*SIDE, "goodput_kbps", "loss") if name not in INNER]
    ends = [f"{side}_{name}" for side in SIDES for name in ("address", "port")]
    verdicts = [f"{knob}{suffix}" for knob in SHOWN for suffix in VERDICT]
    return [*times, *ends, *plain, *sides, "tls", "alpn", "server_name", *verdicts]


def write_csv(connections: Iterable[ConnectionReport], files: list[str], out: TextIO, *, header: bool = True) -> int:
    """A row a connection, under a header; how many."""
    writer = csv.writer(out, lineterminator="\n")
    names = columns()
    if header:
        writer.writerow(names)
    count = 0
    for some in _together(connections):
        cells = _cells(some, files)
        writer.writerows(zip(*(cells[name] for name in names), strict=True))
        count += len(some)
    return count


def _together(connections: Iterable[ConnectionReport]) -> Iterator[list[ConnectionReport]]:
    """Yield connections by the thousand; before an error, those that were read until then."""
    more = iter(connections)
    while True:
        some: list[ConnectionReport] = []
        failure: BaseException | None = None
        try:
            for one in islice(more, TOGETHER):
                some.append(one)
        except BaseException as error:
            failure = error
        if some:
            yield some
        if failure is not None:
            raise failure
        if len(some) < TOGETHER:
            return


def _cells(some: list[ConnectionReport], files: list[str]) -> Mapping[str, Sequence[object]]:
    """Return the CSV's columns of these connections."""
    numbers = zip(*(one.numbers.values() for one in some), strict=True)
    cells: dict[str, Sequence[object]] = {
        name: _number_cells(name, column) for name, column in zip(some[0].numbers, numbers, strict=True)
    }
    cells |= {
        "file": [files[one.file] for one in some],
        "frame": [one.frame for one in some],
        "started_at": [f"{one.started_ns / 1e9:.9f}" for one in some],
        "duration": [f"{one.duration_s:.6f}" for one in some],
        "ended": [ended(one) for one in some],
        "captured_at": [one.place for one in some],
    }
    for side in SIDES:
        ends = [one.client if side == "client" else one.server for one in some]
        cells |= {f"{side}_address": [address(end) for end in ends], f"{side}_port": [end.port for end in ends]}
        cells[f"{side}_goodput_kbps"] = [_rounded(goodput_kbps(one, side), 3) for one in some]
        cells[f"{side}_loss"] = [_rounded(loss(one, side), 6) for one in some]
    spoken = [_names(one) for one in some]
    cells |= {name: [one[name] for one in spoken] for name in ("tls", "alpn", "server_name")}
    return cells | _verdict_cells(some)


def _verdict_cells(some: list[ConnectionReport]) -> dict[str, Sequence[object]]:
    """Return value, grade and reason of each parameter shown; of several observations of one, the last."""
    cells: dict[str, list[object]] = {f"{knob}{part}": [""] * len(some) for knob in SHOWN for part in VERDICT}
    for row, one in enumerate(some):
        for observation in one.observations:
            knob = observation.knob
            if knob in SHOWN:
                value = "" if observation.value is None else text(observation.value)
                cells[knob][row] = f">= {value}" if observation.grade == "L" else value
                cells[f"{knob}_grade"][row] = observation.grade
                cells[f"{knob}_reason"][row] = observation.reason or ""
    return dict(cells)


def _rounded(value: float | None, digits: int) -> object:
    return "" if value is None else round(value, digits)


def _number_cells(name: str, column: Sequence[float | None]) -> list[object]:
    if name in SECONDS:
        return ["" if value is None else _plain(value) for value in column]
    return ["" if value is None else value for value in column]


def _names(connection: ConnectionReport) -> dict[str, str]:
    asked, answered = connection.hellos
    return {
        "tls": next(iter(answered.versions), "") if answered else "",
        "alpn": next(iter(answered.alpn), "") if answered else "",
        "server_name": asked.server_name if asked else "",
    }


def table(connections: Iterable[ConnectionReport]) -> Table:
    """A row a connection: what one looks for first. Of loss and repeats, the server's."""
    made = plain_table(*TABLE, spare=SPARE)
    made.caption = "kB, loss, repeats and order (overtaken segments) of what the server sent; behind icw its grade"
    for one in connections:
        numbers, verdicts = one.numbers, {o.knob: o for o in one.observations}
        names, lost = _names(one), loss(one, "server")
        rtt = numbers["rtt"]
        repeats = "/".join(str(int(numbers[f"server_{cause}"] or 0)) for cause in ("rto", "tlp", "fast"))
        spoken = next((verdicts[k].text for k in ("http_version", "http_clear") if k in verdicts), names["alpn"])
        made.add_row(
            str(one.frame), _name(one, "client"), _name(one, "server"), f"{one.duration_s:.3f}",
            "-" if not rtt else f"{rtt * 1e3:.{1 if rtt >= 1e-3 else 3}f}", cell(verdicts.get("icw")),
            f"{(numbers['server_bytes'] or 0) / 1e3:.1f}", "-" if lost is None else f"{100 * lost:.1f} %",
            repeats, str(int(numbers["server_reordered"] or 0)), names["tls"], spoken, ended(one),
        )  # fmt: skip
    return made


def _name(connection: ConnectionReport, side: str) -> str:
    end = connection.client if side == "client" else connection.server
    return _site(address(end), end.port)


def _site(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Servers:
    """Observations by server, so that several connections make one verdict: three that agree are an A."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], list[Observation]] = {}
        self._names: dict[tuple[str, int], str] = {}

    def take(self, connections: Iterable[ConnectionReport]) -> int:
        """Remember; how many connections."""
        count = 0
        for one in connections:
            key = (one.target.address, one.target.port)
            self._seen.setdefault(key, []).extend(one.observations)
            asked = one.hellos[0]
            if asked is not None and asked.server_name:
                self._names.setdefault(key, asked.server_name)
            count += 1
        return count

    def found(self) -> Iterator[TargetResult]:
        """Verdicts, server by server."""
        for key in sorted(self._seen):
            host = self._names.get(key, key[0])
            target = Target(host, *key)
            site = _site(host, key[1])
            verdicts = merge_all(self._seen[key])
            result = Result("", "capture", target, "", observations=tuple(self._seen[key]))
            yield TargetResult(site, Fingerprint(target, "capture", verdicts), (result,))


def knobs_in(form: str) -> frozenset[str] | None:
    """Return the knobs that connections show in that form; None: all."""
    return None if form == "jsonl" else frozenset(SHOWN)


def write_connections(
    found: Iterable[ConnectionReport], files: list[str], form: str, out: TextIO, *, color: bool = True
) -> None:
    """Write connections in that form: table, jsonl or csv."""
    if form == "jsonl":
        write_jsonl(found, files, out)
    elif form == "csv":
        write_csv(found, files, out)
    else:
        made = table(found)
        if made.row_count:
            tables.console(out, color=color).print(made)


def write_servers(found: Iterable[ConnectionReport], form: str, out: TextIO, *, color: bool = True) -> None:
    """Write a row a server, of all its connections together, in that form: table, jsonl or csv."""
    servers = Servers()
    servers.take(found)
    verdicts = list(servers.found())
    vantages = {"capture": Vantage("capture", "capture")}
    if form == "jsonl":
        lines.write_jsonl(verdicts, vantages, out)
    elif form == "csv":
        lines.write_csv(verdicts, vantages, out)
    elif verdicts:
        tables.console(out, color=color).print(tables.overview(verdicts))


class ConnectionLines:
    """Write connections as they are reported, in the form jsonl or csv."""

    def __init__(self, form: str, source: str) -> None:
        self._form, self._files, self._headed = form, [source], False

    def write(self, found: list[ConnectionReport], out: TextIO) -> None:
        """Write a line each, seen at once by the reader."""
        if self._form == "jsonl":
            write_jsonl(found, self._files, out)
        else:
            write_csv(found, self._files, out, header=not self._headed)
        self._headed = True
        out.flush()


def counted(counts: Mapping[str, int]) -> str:
    """Return in a line the counts of frames read and not read."""
    first = [f"{counts.get(name, 0)} {name}" for name in ("frames", "tcp", "connections")]
    rest = [f"{value} {name}" for name, value in sorted(counts.items()) if value and name not in _TOTALS]
    return ", ".join(first) + (f"; {', '.join(rest)}" if rest else "")


_TOTALS = ("frames", "tcp", "connections")
