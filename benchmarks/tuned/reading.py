# SPDX-License-Identifier: MIT
"""A capture made at the server -> each client's first flight, as our readers of captures see it.

Nothing here knows what was assigned: `fingerprint/passive/first_flight.py` counts what the server sent before it could
have heard an ACK of its data, by the client's timestamps.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from configtron.fingerprint.capture.reading import read
from configtron.fingerprint.capture.source import opened
from configtron.fingerprint.passive.connection_report import address, report_connections
from configtron.fingerprint.passive.gathering import Gathering
from configtron.fingerprint.passive.headers import decode
from configtron.fingerprint.passive.traces import packets_of
from configtron.model.nouns import Observation, Trace

# Handshake, request, the longest flight (45 segments fit a Linux client's first window), its ACKs, and what follows.
PACKETS_MOST = 120


class Flight(NamedTuple):
    """A connection's initial window, and its packets; `reading.evidence` holds the places in `trace`'s packets
    of the flight's segments."""

    reading: Observation
    trace: Trace


def flights(capture: Path) -> dict[str, Flight]:
    """Return each client's flight, by address. Errors: `SystemExit` for two connections of one client."""
    gathering = Gathering()
    with opened(str(capture)) as source:
        for frames in read(source, gathering.counts, name=str(capture)):
            list(gathering.take(decode(frames, gathering.pairs, gathering.heads, gathering.counts)))
    found: dict[str, Flight] = {}
    for batch in gathering.finish():
        for report, connection in zip(report_connections(batch, [str(capture)]), batch.over.tolist(), strict=True):
            client = address(report.client)
            if client in found:
                raise SystemExit(f"{capture}: two connections of {client}")
            first, last = (int(batch.summary.flights[column][connection]) for column in (5, 6))
            begin = int(batch.found.begin[connection])
            packets = packets_of(batch, connection, most=PACKETS_MOST)
            sent = (p.frame for p in packets if p.way == "in" and p.segment.length)
            flight = [row for row in sent if first <= begin + row <= last]
            reading = next(o for o in report.observations if o.knob == "icw")
            trace = Trace(f"{capture.stem}/{client}", report.target, client, "rwin", (), report.started_ns, packets)
            found[client] = Flight(replace(reading, evidence=tuple(flight)), trace)
    return found
