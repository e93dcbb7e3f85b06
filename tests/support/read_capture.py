# SPDX-License-Identifier: MIT
"""A capture file read as the command reads it, for tests."""

from __future__ import annotations

from pathlib import Path

from configtron.fingerprint.capture.reading import read
from configtron.fingerprint.capture.source import opened
from configtron.fingerprint.passive.connection_report import ConnectionReport, report_connections
from configtron.fingerprint.passive.gathering import Batch, Gathering
from configtron.fingerprint.passive.headers import decode


def gathered(path: Path, gathering: Gathering, *, buffer: int = 1 << 20) -> list[Batch]:
    """Batches as they come; only the last one's kept bytes are still there."""
    with opened(str(path)) as source:
        batches = [
            batch
            for frames in read(source, gathering.counts, name=str(path), buffer=buffer)
            for batch in gathering.take(decode(frames, gathering.pairs, gathering.heads, gathering.counts))
        ]
    return [*batches, *gathering.finish()]


def whole(path: Path) -> tuple[Batch, Gathering]:
    """All connections of a file that has some."""
    gathering = Gathering()
    (batch,) = gathered(path, gathering)
    return batch, gathering


def reports(path: Path, *, most: int | None = None, buffer: int = 1 << 20) -> tuple[list[ConnectionReport], Gathering]:
    """Return each connection, reported as soon as its batch is there, and the gathering with its counts."""
    gathering = Gathering(most)
    found: list[ConnectionReport] = []
    with opened(str(path)) as source:
        for frames in read(source, gathering.counts, name=str(path), buffer=buffer):
            for batch in gathering.take(decode(frames, gathering.pairs, gathering.heads, gathering.counts)):
                found += report_connections(batch, [str(path)])
    for batch in gathering.finish():
        found += report_connections(batch, [str(path)])
    return found, gathering
