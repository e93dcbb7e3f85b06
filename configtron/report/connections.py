# SPDX-License-Identifier: MIT
"""Connections of a capture as text: a table, JSON Lines, CSV; and servers, with the verdicts of all their connections.

A number that the capture does not show is left out (JSON), empty (CSV) or "-" (table); it is never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import merge
from itertools import chain
from typing import TextIO

from configtron.fingerprint.merge import balanced, judge_knob, merge_all
from configtron.fingerprint.passive.connection_report import ConnectionReports
from configtron.fingerprint.passive.readings import replaced
from configtron.fingerprint.passive.traces import address_text
from configtron.fingerprint.verdict import over
from configtron.model.nouns import Fingerprint, Observation, Target, Vantage
from configtron.model.records import Result
from configtron.model.wording import count_of
from configtron.report.connection_choice import ConnectionChoice, Key, site
from configtron.report.connection_json import json_rows
from configtron.report.connection_rows import SHOWN_KNOBS, columns, csv_rows
from configtron.report.connection_table import write_one, write_table
from configtron.report.folding import Sheet
from configtron.report.printed import cell
from configtron.report.target_results import TargetResult

BALANCED = "load_balancing"
# What a server's routes set by client (`initcwnd`).
ROUTED = frozenset(("icw", "icw_tls"))
EVERY = ConnectionChoice()
Seen = tuple[str, Sequence[Observation]]
RowsOf = Callable[[ConnectionReports, list[str]], Iterator[str]]
ROWS: dict[str, RowsOf] = {"jsonl": json_rows, "csv": csv_rows}
# Parameters in the table of servers, before the MSS and the signature.
SERVER_KNOBS = ("icw", "icw_tls", "cwnd_at_request", "synack_rto", "data_rto", "rwin", "rwin_ts", "http_clear",
                "http_version", "load_balancing", "wscale")  # fmt: skip


class Servers:
    """Observations by server, so that several connections make one verdict: three that agree are an A."""

    def __init__(self, *, every: bool = False) -> None:
        """every: each trial has its trace id; else only where unlike ones are compared."""
        # Trace ids and observations of each server, by what its client asked (`ConnectionReports.asked`), and by the
        # client's address.
        self._seen: dict[tuple[str, int], dict[tuple[object, ...], dict[bytes, list[Seen]]]] = {}
        self._names: dict[tuple[str, int], str] = {}
        self._every, self._same = every, dict[Observation, Observation]()
        # Verdicts by the readings, objects of `_same`.
        self._judged: dict[tuple[int, ...], tuple[Observation, Sequence[Observation]]] = {}

    def take(self, reports: ConnectionReports) -> None:
        """Remember."""
        every = zip(reports.ends, reports.asked(), reports.without_frames(self._same), strict=True)
        for (client, server), asked, (name, observations, hellos) in every:
            key = (address_text(server.address), server.port)
            clients = self._seen.setdefault(key, {}).setdefault(asked, {})
            clients.setdefault(client.address, []).append((name, observations))
            if hellos[0] is not None and hellos[0].server_name:
                self._names.setdefault(key, hellos[0].server_name)

    def found(self) -> Iterator[TargetResult]:
        """Verdicts, server by server."""
        for key in sorted(self._seen):
            host = self._names.get(key, key[0])
            target = Target(host, *key)
            alike = self._alike(key, self._every)
            every = tuple(chain.from_iterable(chain.from_iterable(alike)))
            verdicts = merge_all(every, judge=judge_knob if self._every else self._judge)
            if BALANCED in verdicts:
                if not self._every and (len(alike) > 1 or verdicts[BALANCED].value == "mixed"):
                    # Trials of one connection are told from those of others.
                    alike = self._alike(key, True)
                    named = chain.from_iterable(chain.from_iterable(alike))
                    verdicts[BALANCED] = balanced(named) or verdicts[BALANCED]
                verdicts[BALANCED] = _balanced(verdicts[BALANCED], alike)
            result = Result("", "capture", target, "", observations=every)
            yield TargetResult(site(host, key[1]), Fingerprint(target, "capture", verdicts), (result,))

    def _alike(self, key: tuple[str, int], named: bool) -> list[list[list[Observation]]]:
        """Return a server's trials, by what its clients asked, and by client; named: with trace ids."""
        return [
            [[replaced(one, name, ()) if named else one for name, ones in seen for one in ones] for seen in by.values()]
            for by in self._seen[key].values()
        ]

    def _judge(self, trials: Sequence[Observation]) -> tuple[Observation, Sequence[Observation]]:
        key = tuple(map(id, trials))
        if key not in self._judged:
            self._judged[key] = judge_knob(trials)
        return self._judged[key]


def _balanced(every: Observation, alike: Sequence[Sequence[Sequence[Observation]]]) -> Observation:
    """Return the verdict of the connections that asked alike: other offers, Hosts and paths have other answers.

    alike   by client: what differs by the route alone is compared among connections of one client
    """
    verdicts = list[Observation]()
    unlike = over(BALANCED, every.trials, None, "N", reason="unclear:unlike-offers", details=dict(every.details))
    for clients in alike:
        # Where all asked alike, these are the trials of `every`.
        one = len(alike) == 1
        found = [every if one else balanced(chain.from_iterable(clients))]
        differs = None if found[0] is None else found[0].detail("differs")
        if isinstance(differs, tuple) and ROUTED.issuperset(differs):
            found = [balanced(some) for some in clients]
            unlike = replace(unlike, reason="unclear:few-connections")
        verdicts += [one for one in found if one is not None and one.value is not None]
    return min(verdicts, key=lambda one: (one.value != "mixed", one.grade), default=unlike if every.value else every)


def knobs_in(form: str) -> frozenset[str] | None:
    """Return the knobs that connections show in that form; None: all."""
    return None if form == "jsonl" else frozenset(SHOWN_KNOBS)


def write_connections(
    batches: Iterable[ConnectionReports], files: list[str], form: str, out: TextIO, choice: ConnectionChoice = EVERY, *,
    color: bool = True,
) -> None:  # fmt: skip
    """Write connections in that form: table, jsonl or csv; choice: how many, and in which order."""
    if form == "csv":
        out.write(",".join(columns()) + "\n")
    if form != "table":
        _write_in_order(batches, files, ROWS[form], out, choice)
    elif choice.connection is None:
        write_table(batches, files, out, choice, color=color)
    else:
        for one in chain.from_iterable(batches):
            write_one(one, files, out)


def _write_in_order(
    batches: Iterable[ConnectionReports], files: list[str], rows_of: RowsOf, out: TextIO, choice: ConnectionChoice
) -> None:  # fmt: skip
    """Write a line a connection, by first frame or as chosen: what must stand behind lines to come waits for them."""
    waiting, since = list[tuple[Key, str]](), Key()
    try:
        for reports in batches:
            frames: list[Key] = [(frame,) for frame in reports.columns["frame"].tolist()]
            lines = zip(choice.keys(reports, files) if choice.sort else frames, rows_of(reports, files), strict=True)
            since = Key() if choice.sort else (reports.since,)
            before, waiting = waiting, []
            for key, row in merge(before, sorted(lines) if choice.sort else lines):
                if key < since:
                    out.write(f"{row}\n")
                else:
                    waiting.append((key, row))
            del reports, lines  # their memory is needed for the next
    finally:
        out.writelines(f"{row}\n" for _, row in waiting)


def write_servers(batches: Iterable[ConnectionReports], form: str, out: TextIO, *, color: bool = True) -> None:
    """Write a row a server, of all its connections together, in that form: table, jsonl or csv."""
    # Connections alone are not rendered so.
    from configtron.report.rendering import render

    servers = Servers(every=form == "jsonl")
    for reports in batches:
        servers.take(reports)
    verdicts = list(servers.found())
    vantages = {"capture": Vantage("capture", "capture")}
    if form != "table":
        render(verdicts, vantages, form, out)
    elif verdicts:
        sheet, silent = Sheet("server", *SERVER_KNOBS, "mss", "signature", second="signature"), 0
        for item in verdicts:
            known = {knob: cell(one) for knob, one in item.verdicts.items() if one.value is not None}
            # p0f's raw form has the MSS in its fourth place.
            known["mss"] = known.get("signature", ":::").split(":")[3]
            cells = [known.get(knob, "") for knob in (*SERVER_KNOBS, "mss", "signature")]
            silent += not any(cells)
            if any(cells):
                sheet.add_row(item.site, *cells)
        more = f"; {count_of(silent, 'more server')} without any of these" if silent else ""
        sheet.caption = f"behind each value its grade{more}; -f csv has all, and why some have none"
        sheet.write(out, color=color)


class ConnectionLines:
    """Write connections as they are reported, in the form jsonl or csv."""

    def __init__(self, form: str, source: str) -> None:
        self._rows, self._files = ROWS.get(form, csv_rows), [source]
        self._head = ",".join(columns()) + "\n" if form == "csv" else ""

    def write(self, found: ConnectionReports, out: TextIO) -> None:
        """Write a line each, seen at once by the reader."""
        out.write(self._head)
        self._head = ""
        out.writelines(f"{row}\n" for row in self._rows(found, self._files))
        out.flush()


def counted(counts: Mapping[str, int]) -> str:
    """Return in a line the counts of frames read and not read."""
    frames, tcp, connections = (counts.get(name, 0) for name in _TOTALS)
    rest = [f"{value} {name}" for name, value in sorted(counts.items()) if value and name not in _TOTALS]
    read = f"{count_of(frames, 'frame')}, {tcp} tcp, {count_of(connections, 'connection')}"
    return read + (f"; {', '.join(rest)}" if rest else "")


_TOTALS = ("frames", "tcp", "connections")
