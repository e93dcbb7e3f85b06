# SPDX-License-Identifier: MIT
"""Connections of a capture as text: a table, JSON Lines, CSV; and servers, with the verdicts of all their connections.

A number that the capture does not show is left out (JSON), empty (CSV) or "-" (table); it is never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TextIO

from rich.table import Table

from configtron.fingerprint.merge import merge_all
from configtron.fingerprint.passive.connection_report import ConnectionReport, ConnectionReports, address
from configtron.fingerprint.verdict import over
from configtron.model.nouns import Fingerprint, Observation, Target, Vantage
from configtron.model.records import Result
from configtron.report import tables
from configtron.report.connection_json import write_jsonl
from configtron.report.connection_rows import HELLO_COLUMNS, SHOWN_KNOBS, tls_names, write_csv
from configtron.report.rendering import render
from configtron.report.tables import _table as plain_table
from configtron.report.tables import cell
from configtron.report.target_results import TargetResult

TABLE = ("frame", "client", "server", "s", "rtt\n[ms]", "icw\n[segments]", "kB", "loss", "rto/tlp/fast", "order",
         "tls", "alpn or http", "end")  # fmt: skip
BALANCED = "load_balancing"
# What a server's routes set by client (`initcwnd`).
ROUTED = frozenset(("icw", "icw_tls"))
SPARE = ("order", "tls", "frame", "s", "kB", "end", "alpn or http")


def _names(connection: ConnectionReport) -> dict[str, str]:
    return dict(zip(HELLO_COLUMNS, tls_names(*connection.hellos), strict=True))


def table(connections: Iterable[ConnectionReport], files: Sequence[str]) -> Table:
    """A row a connection: what one looks for first. Of loss and repeats, the server's. Of several files, the file's
    number stands before the frame's."""
    made = plain_table(*TABLE, spare=SPARE)
    made.caption = "kB, loss, repeats and order (overtaken segments) of what the server sent; behind icw its grade"
    if len(files) > 1:
        made.caption += "; before frame the number of its file"
    for one in connections:
        numbers, verdicts = one.numbers, {o.knob: o for o in one.observations}
        names, lost = _names(one), one.loss["server"]
        rtt = numbers["rtt"]
        repeats = "/".join(str(int(numbers[f"server_{cause}"] or 0)) for cause in ("rto", "tlp", "fast"))
        spoken = next((verdicts[k].text for k in ("http_version", "http_clear") if k in verdicts), names["alpn"])
        file = f"{one.file + 1}:" if len(files) > 1 else ""
        made.add_row(
            f"{file}{one.frame}", _name(one, "client"), _name(one, "server"),
            "-" if one.duration_s is None else f"{one.duration_s:.3f}",
            "-" if not rtt else f"{rtt * 1e3:.{1 if rtt >= 1e-3 else 3}f}", cell(verdicts.get("icw")),
            f"{(numbers['server_bytes'] or 0) / 1e3:.1f}", "-" if lost is None else f"{100 * lost:.1f} %",
            repeats, str(int(numbers["server_reordered"] or 0)), names["tls"], spoken, one.ending,
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
        # Of each server, by what its client asked (`ConnectionReport.asked`), and by the client's address.
        self._seen: dict[tuple[str, int], dict[tuple[object, ...], dict[bytes, list[Observation]]]] = {}
        self._names: dict[tuple[str, int], str] = {}

    def take(self, connections: Iterable[ConnectionReport]) -> int:
        """Remember; how many connections."""
        count = 0
        for one in connections:
            key = (one.target.address, one.target.port)
            clients = self._seen.setdefault(key, {}).setdefault(one.asked, {})
            clients.setdefault(one.client.address, []).extend(one.observations)
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
            every = tuple(chain.from_iterable(chain.from_iterable(c.values()) for c in self._seen[key].values()))
            verdicts = merge_all(every)
            if BALANCED in verdicts:
                verdicts[BALANCED] = _balanced(verdicts[BALANCED], self._seen[key].values())
            result = Result("", "capture", target, "", observations=every)
            yield TargetResult(site, Fingerprint(target, "capture", verdicts), (result,))


def _balanced(every: Observation, alike: Iterable[Mapping[bytes, list[Observation]]]) -> Observation:
    """Return the verdict of the connections that asked alike: other offers, Hosts and paths have other answers.

    alike   by client's address: what differs by the route alone is compared among connections of one client
    """
    verdicts = list[Observation]()
    unlike = over(BALANCED, every.trials, None, "N", reason="unclear:unlike-offers", details=dict(every.details))
    for clients in alike:
        found = [merge_all(tuple(chain.from_iterable(clients.values()))).get(BALANCED)]
        differs = None if found[0] is None else found[0].detail("differs")
        if isinstance(differs, tuple) and ROUTED.issuperset(differs):
            found = [merge_all(some).get(BALANCED) for some in clients.values()]
            unlike = replace(unlike, reason="unclear:few-connections")
        verdicts += [one for one in found if one is not None and one.value is not None]
    return min(verdicts, key=lambda one: (one.value != "mixed", one.grade), default=unlike if every.value else every)


def knobs_in(form: str) -> frozenset[str] | None:
    """Return the knobs that connections show in that form; None: all."""
    return None if form == "jsonl" else frozenset(SHOWN_KNOBS)


def write_connections(
    batches: Iterable[ConnectionReports], files: list[str], form: str, out: TextIO, *, color: bool = True
) -> None:
    """Write connections in that form: table, jsonl or csv."""
    if form == "csv":
        write_csv(batches, files, out)
    elif form == "jsonl":
        write_jsonl(batches, files, out)
    else:
        made = table(chain.from_iterable(batches), files)
        if made.row_count:
            tables.console(out, color=color).print(made)


def write_servers(found: Iterable[ConnectionReport], form: str, out: TextIO, *, color: bool = True) -> None:
    """Write a row a server, of all its connections together, in that form: table, jsonl or csv."""
    servers = Servers()
    servers.take(found)
    verdicts = list(servers.found())
    vantages = {"capture": Vantage("capture", "capture")}
    if form != "table":
        render(verdicts, vantages, form, out)
    elif verdicts:
        tables.console(out, color=color).print(tables.overview(verdicts))


class ConnectionLines:
    """Write connections as they are reported, in the form jsonl or csv."""

    def __init__(self, form: str, source: str) -> None:
        self._form, self._files, self._headed = form, [source], False

    def write(self, found: ConnectionReports, out: TextIO) -> None:
        """Write a line each, seen at once by the reader."""
        if self._form == "jsonl":
            write_jsonl([found], self._files, out)
        else:
            write_csv([found], self._files, out, header=not self._headed)
        self._headed = True
        out.flush()


def counted(counts: Mapping[str, int]) -> str:
    """Return in a line the counts of frames read and not read."""
    first = [f"{counts.get(name, 0)} {name}" for name in ("frames", "tcp", "connections")]
    rest = [f"{value} {name}" for name, value in sorted(counts.items()) if value and name not in _TOTALS]
    return ", ".join(first) + (f"; {', '.join(rest)}" if rest else "")


_TOTALS = ("frames", "tcp", "connections")
