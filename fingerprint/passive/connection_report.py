# SPDX-License-Identifier: MIT
"""A batch -> a report of each connection: numbers of both sides, and observations with grades.

Question   Which values does a recording prove that no probe of ours made?
Method     Everything the inferences read in the connection's traces, but the initial window, which they read only where
           the ACKs were withheld; else it is the first flight's (`first_flight.py`).
Reads as   grades C, L and N, as of any single trial. Nothing exact of a capture that lost frames, nothing about missing
           packets: a missing SYN, one side only, a merged frame are reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from configtron.fingerprint.passive.columns import ABSENT, FILE_SHIFT, FRAME_MASK, Column, Endpoint
from configtron.fingerprint.passive.gathering import Batch
from configtron.fingerprint.passive.readings import ConnectionReading
from configtron.fingerprint.passive.summary import CONNECTION_COLUMNS, SIDES
from configtron.fingerprint.passive.tls import Hello
from configtron.fingerprint.passive.traces import Opener, address_text, ends_of, target_of
from configtron.model.nouns import Observation, Target

# A round trip's share below which that end is here: a network interface away.
HERE = 0.1
# Columns that reports have in s.
SECONDS = frozenset(("rtt", "rtt_server", "rtt_client"))


class ConnectionReport(NamedTuple):
    """One connection. `numbers` by the names of `CONNECTION_COLUMNS`, None where unknown; times in s, bytes, counts."""

    file: int
    frame: int
    started_ns: int
    client: Endpoint
    server: Endpoint
    numbers: dict[str, float | None]
    place: str
    merged: bool
    hellos: tuple[Hello | None, Hello | None]
    observations: tuple[Observation, ...]
    target: Target
    incomplete: bool = False

    @property
    def duration_s(self) -> float:
        """First to last segment."""
        return ((self.numbers["ended"] or 0) - self.started_ns) / 1e9


def report_connections(
    batch: Batch, files: list[str], *, tainted: bool = False, unread: bool = False, stepped: bool = False,
    opener: Opener | None = None, wanted: frozenset[str] | None = None,
) -> Iterator[ConnectionReport]:  # fmt: skip
    """Report each connection that is over, in order.

    tainted   the capture lost frames
    unread    it holds unreadable frames, in which there may be segments of any connection
    stepped   the clock was set, so times are not certain
    opener    returns the messages that TLS keys decrypt
    wanted    observations of these knobs only; None: of all
    """
    why = "drops" if tainted else "clock-step" if stepped else "unclear:unread-frames" if unread else ""
    reading = ConnectionReading(batch, files, wanted, why, opener)
    names, ends = list(batch.summary.columns), ends_of(batch)
    rows = zip(*(numbers_of(name, column[batch.over]) for name, column in batch.summary.columns.items()), strict=True)
    merged = batch.summary.flights.merged[batch.over].tolist()
    frames = batch.summary.columns["frame"][batch.over].tolist()
    started = batch.summary.columns["started"][batch.over].tolist()
    for place, (connection, row) in enumerate(zip(batch.over.tolist(), rows, strict=True)):
        numbers, target = dict(zip(names, row, strict=True)), target_of(ends[connection][1])
        found, hellos = reading.read(connection, ends[connection], target)
        yield ConnectionReport(
            file=frames[place] >> FILE_SHIFT,
            frame=frames[place] & FRAME_MASK,
            started_ns=started[place],
            client=ends[connection][0],
            server=ends[connection][1],
            numbers=numbers,
            place=_place(numbers),
            merged=bool(merged[place]),
            hellos=hellos,
            observations=found,
            target=target,
            incomplete=bool(why),
        )


def numbers_of(name: str, column: Column) -> list[float | None]:
    """Return a column's values as a report has them: None where unknown, round trips in s."""
    values: list[float | None] = (column / 1e9 if name in SECONDS else column).tolist()
    if CONNECTION_COLUMNS[name].join == "sum" or not (column == ABSENT).any():
        return values
    return [None if missing else value for value, missing in zip(values, (column == ABSENT).tolist(), strict=True)]


def _place(numbers: dict[str, float | None]) -> str:
    """Return where the capture stood: at the client, at the server, between, or "" (unknown)."""
    whole, server, client = numbers["rtt"], numbers["rtt_server"], numbers["rtt_client"]
    if not whole or server is None or client is None:
        return ""
    return "client" if client < HERE * whole else "server" if server < HERE * whole else "between"


def address(end: Endpoint) -> str:
    """An end's address as text."""
    return address_text(end.address)


def goodput_kbps(connection: ConnectionReport, side: str) -> float | None:
    """Return bytes of the stream over the time from its first data to its last, in kbit/s; None for a single burst."""
    first, last, size = (connection.numbers[f"{side}_{name}"] for name in ("first_data", "last_data", "bytes"))
    if first is None or last is None or not size or last <= first:
        return None
    return size * 8e6 / (last - first)


def loss(connection: ConnectionReport, side: str) -> float | None:
    """Return the share of data segments that had to be sent again; None if there were none."""
    data = connection.numbers[f"{side}_data"]
    again = sum(connection.numbers[f"{side}_{cause}"] or 0 for cause in ("rto", "fast", "other"))
    return again / data if data else None


def ended(connection: ConnectionReport) -> str:
    """Return how it ended: "fin", "reset" or "open"."""
    numbers = connection.numbers
    if any(numbers[f"{side}_resets"] for side in SIDES):
        return "reset"
    return "fin" if all(numbers[f"{side}_fins"] for side in SIDES) else "open"
