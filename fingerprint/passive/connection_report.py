# SPDX-License-Identifier: MIT
"""Report each connection of a batch: the numbers of both sides, and observations with grades.

Question   Which values does a recording prove that no probe of ours made?
Method     Everything the inferences read in the connection's traces, but the initial window, which they read only where
           the ACKs were withheld; else it is the first flight's (`first_flight.py`).
Reads as   grades C, L and N, as of any single trial. Nothing exact of a capture that lost frames, nothing about missing
           packets: a missing SYN, one side only, a merged frame are reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import ABSENT, FILE_SHIFT, FRAME_MASK, Column, Endpoint, network_text
from configtron.fingerprint.passive.connections import Connections
from configtron.fingerprint.passive.gathering import Batch
from configtron.fingerprint.passive.later_flights import LaterFlight
from configtron.fingerprint.passive.limits import Limit, largest, limits
from configtron.fingerprint.passive.readings import CLOCKS, ConnectionReading, Hellos, replaced
from configtron.fingerprint.passive.summary import CONNECTION_COLUMNS, SIDES
from configtron.fingerprint.passive.tls import Hello
from configtron.fingerprint.passive.traces import Opener, address_text, ends_of, target_of
from configtron.model.nouns import Observation, Target

# The capture stood at an end if the round trip from there to that end is below this share of the whole one.
NEAR_SHARE = 0.1
# Columns that batches have in ns and reports in s.
IN_SECONDS = frozenset(("rtt", "rtt_server", "rtt_client"))


class ConnectionReport(NamedTuple):
    """One connection. `numbers` by the names of `CONNECTION_COLUMNS`, None where unknown; times in s, bytes, counts.

    goodput_kbps, loss   by side: bytes of the stream over the time from its first data to its last, None for a single
                         burst; the share of data segments that had to be sent again, None if there were none
    ending               how it ended: "fin", "reset" or "open"
    place                where the capture stood: at the "client", at the "server", "between", or "" (unknown)
    windows              what later flights show
    network              in which it was seen first, by the headers that name one (`NETWORKS`); "": none does
    """

    file: int
    frame: int
    started_ns: int
    client: Endpoint
    server: Endpoint
    numbers: dict[str, float | None]
    goodput_kbps: dict[str, float | None]
    loss: dict[str, float | None]
    ending: str
    place: str
    merged: bool
    hellos: tuple[Hello | None, Hello | None]
    observations: tuple[Observation, ...]
    target: Target
    windows: Sequence[LaterFlight]
    incomplete: bool = False
    network: str = ""

    @property
    def duration_s(self) -> float | None:
        """First to last segment; None where the clock does not show it (`clock`)."""
        return None if self.clock else ((self.numbers["ended"] or 0) - self.started_ns) / 1e9

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The shares of its time by what limited it, the largest first."""
        return limits(self.numbers)

    @property
    def clock(self) -> str:
        """The reason why there are no times (`CLOCKS`); "" if there are."""
        return CLOCKS[int(self.numbers["clock"] or 0)]


class ConnectionReports:
    """The reports of those connections of a batch that are over, as columns; iterate to get them one by one.

    columns     those of the batch's summary, one row for each of these connections; times in ns
    ends        client and server of each
    durations   first to last segment (s), NaN where unknown
    networks    as `KEY` has them
    places, endings, goodput_kbps, loss   as `ConnectionReport` has them; the last two by side, NaN where unknown
    limited     the largest limit of each, by its number in `LIMITS`, and its share (NaN: no time)
    incomplete  whether the capture makes counts and times inexact, for all connections
    """

    def __init__(self, batch: Batch, reading: ConnectionReading, *, incomplete: bool) -> None:
        over = batch.over
        self._batch, self._reading, self.incomplete = batch, reading, incomplete
        self.columns = {name: column[over] for name, column in batch.summary.columns.items()}
        self.ends = ends_of(batch, over)
        self.networks = batch.ends.keys["net"][batch.found.rows.pair[batch.found.begin[over]]]
        spans = (self.columns["ended"] - self.columns["started"]) / 1e9
        self.durations = np.where(self.columns["clock"] > 0, np.nan, spans)
        self.places, self.endings = _places(self.columns), _endings(self.columns)
        self.goodput_kbps = {side: _goodput_kbps(self.columns, side) for side in SIDES}
        self.loss = {side: _loss(self.columns, side) for side in SIDES}
        self.limited = largest(self.columns)

    def __len__(self) -> int:
        """Return how many connections there are."""
        return len(self._batch.over)

    def only(self, rows: Column) -> ConnectionReports:
        """Return the reports in these rows: numbers, or a mask."""
        chosen = self._batch._replace(over=self._batch.over[rows])
        return ConnectionReports(chosen, self._reading, incomplete=self.incomplete)

    @property
    def since(self) -> int:
        """Return the frame (`CONNECTION_COLUMNS`) before which no connection begins that is still to be reported."""
        return self._batch.since

    @property
    def merged(self) -> Column:
        """Return whether the first flight of each has frames that an offload merged."""
        merged: Column = self._batch.summary.flights.merged[self._batch.over]
        return merged

    @property
    def kinds(self) -> Column:
        """Return a number for each connection; those of the same number have equal verdicts, hellos and `template`s."""
        return self._reading.kinds(self._batch.over)

    def template(self, row: int) -> tuple[tuple[Observation, ...], Hellos]:
        """Return `read` of that row with marks in place of what differs within its kind (`ConnectionReading`)."""
        return self._reading.template(int(self._batch.over[row]), self.ends[row], target_of(self.ends[row][1]))

    def marks(self, rows: slice) -> Iterator[tuple[list[int], list[int], int]]:
        """Yield what stands for the marks of each template: frames of its places; the first flight's frames, bytes."""
        return self._reading.marks(self._batch.over[rows])

    def windows(self, rows: slice) -> list[Sequence[LaterFlight]]:
        """Return the later flights of these connections, in order."""
        known, places = self._batch.summary.later, self._batch.over[rows].tolist()
        return [self._reading.later(place) if place in known else () for place in places]

    def alone(self, row: int) -> Connections:
        """Return the segments of the connection in that row."""
        one = int(self._batch.over[row])
        return self._batch.found.part(one, one + 1)

    def read(self, row: int) -> tuple[tuple[Observation, ...], Hellos]:
        """Return the observations and the hellos of the connection in that row."""
        return self._reading.read(int(self._batch.over[row]), self.ends[row], target_of(self.ends[row][1]))

    def __iter__(self) -> Iterator[ConnectionReport]:
        """Yield the report of each, in order."""
        return self._reports(self.read)

    def asked(self) -> Iterator[tuple[object, ...]]:
        """Yield what the client's SYN of each connection offers, and its request or hello."""
        return self._reading.asked(self._batch.over)

    def without_frames(
        self, same: dict[Observation, Observation]
    ) -> Iterator[tuple[str, Sequence[Observation], Hellos]]:
        """Yield of each its trace id, the observations without it and without frames, and the hellos.

        One of each kind is read. same: the observations so far; equal ones are one object
        """
        templates: dict[int, tuple[list[Observation], Hellos]] = {}
        sized: dict[tuple[int, int], list[Observation]] = {}
        over = self._batch.over
        keys = zip(self.kinds.tolist(), self._batch.summary.flights.size[over].tolist(), strict=True)
        for row, (key, connection) in enumerate(zip(keys, over.tolist(), strict=True)):
            if key[0] not in templates:
                read, hellos = self.template(row)
                bare = (replaced(one, "", ()) for one in read)
                templates[key[0]] = [same.setdefault(one, one) for one in bare], hellos
            found, hellos = templates[key[0]]
            if key not in sized:
                sized[key] = [self._reading.sized(connection, one, same) for one in found]
            yield self._reading.name(connection), sized[key], hellos

    def without_observations(self) -> Iterator[ConnectionReport]:
        """Yield the report of each, in order, with its numbers alone: no packet is read for a verdict or a hello."""
        return self._reports(lambda row: ((), (None, None)))

    def _reports(self, read: Callable[[int], tuple[tuple[Observation, ...], Hellos]]) -> Iterator[ConnectionReport]:
        names = list(self.columns)
        rows = zip(*(numbers_of(name, column) for name, column in self.columns.items()), strict=True)
        derived = [
            [dict(zip(SIDES, pair, strict=True)) for pair in zip(*map(none_if_nan, by_side.values()), strict=True)]
            for by_side in (self.goodput_kbps, self.loss)
        ]
        plain = zip(
            self.columns["frame"].tolist(), self.columns["started"].tolist(), self.ends, rows, *derived,
            self.endings.tolist(), self.places.tolist(), self.merged.tolist(), self.windows(slice(None)),
            map(network_text, self.networks.tolist()), strict=True,
        )  # fmt: skip
        for row, (frame, started, ends, numbers, kbps, loss, ending, place, merged, later, net) in enumerate(plain):
            observations, hellos = read(row)
            yield ConnectionReport(
                frame >> FILE_SHIFT, frame & FRAME_MASK, started, ends[0], ends[1],
                dict(zip(names, numbers, strict=True)), kbps, loss,
                ending, place, bool(merged), hellos, observations, target_of(ends[1]),
                later, self.incomplete, net,
            )  # fmt: skip


def report_connections(
    batch: Batch, files: list[str], *, tainted: bool = False, unread: bool = False, stepped: bool = False,
    opener: Opener | None = None, wanted: frozenset[str] | None = None,
) -> ConnectionReports:  # fmt: skip
    """Report each connection that is over, in order.

    tainted   the capture lost frames
    unread    it holds unreadable frames, in which there may be segments of any connection
    stepped   the clock was set, so times are not certain
    opener    returns the messages that TLS keys decrypt
    wanted    observations of these knobs only; None: of all
    """
    why = "drops" if tainted else "clock-step" if stepped else "unclear:unread-frames" if unread else ""
    return ConnectionReports(batch, ConnectionReading(batch, files, wanted, why, opener), incomplete=bool(why))


def numbers_of(name: str, column: Column) -> list[float | None]:
    """Return a column's values as a report has them: None where unknown, round trips in s."""
    values: list[float | None] = (column / 1e9 if name in IN_SECONDS else column).tolist()
    if CONNECTION_COLUMNS[name].join == "sum" or not (column == ABSENT).any():
        return values
    return [None if missing else value for value, missing in zip(values, (column == ABSENT).tolist(), strict=True)]


def none_if_nan(column: Column) -> list[float | None]:
    """Return a column's values, None where it has NaN."""
    return [None if value != value else value for value in column.tolist()]


def address(end: Endpoint) -> str:
    """An end's address as text."""
    return address_text(end.address)


def _places(columns: dict[str, Column]) -> Column:
    whole, server, client = (columns[name] / 1e9 for name in ("rtt", "rtt_server", "rtt_client"))
    seen = (columns["rtt"] > 0) & (columns["rtt_server"] != ABSENT) & (columns["rtt_client"] != ABSENT)
    near = np.where(client < NEAR_SHARE * whole, "client", np.where(server < NEAR_SHARE * whole, "server", "between"))
    return np.where(seen, near, "")


def _endings(columns: dict[str, Column]) -> Column:
    reset, fin = (np.stack([columns[f"{side}_{name}"] > 0 for side in SIDES]) for name in ("resets", "fins"))
    return np.where(reset.any(axis=0), "reset", np.where(fin.all(axis=0), "fin", "open"))


def _goodput_kbps(columns: dict[str, Column], side: str) -> Column:
    first, last, size = (columns[f"{side}_{name}"] for name in ("first_data", "last_data", "bytes"))
    several = (first != ABSENT) & (last > first) & (size > 0)
    kbps: Column = np.divide(size * 8e6, last - first, out=np.full(len(size), np.nan), where=several)
    return kbps


def _loss(columns: dict[str, Column], side: str) -> Column:
    data = columns[f"{side}_data"]
    again = sum(columns[f"{side}_{cause}"] for cause in ("rto", "fast", "other"))
    share: Column = np.divide(again, data, out=np.full(len(data), np.nan), where=data > 0)
    return share
