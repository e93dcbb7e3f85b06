# SPDX-License-Identifier: MIT
"""A packet capture -> contexts over time, a client prefix each: what `learner/sim/captured.py` cuts into sessions.

The round trip is the handshake's, which is the whole path's wherever the capture stood; bandwidth is the best rate that
the server's data was acknowledged at, or else its goodput over more than a round trip (a single flight arrives as fast
as the last link is, and says nothing): what the path carried, a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from configtron.cli.fingerprint.pcap import dissector, gathering_of
from configtron.model.nouns import Context

if TYPE_CHECKING:
    from configtron.fingerprint.passive.connection_report import ConnectionReport
    from configtron.fingerprint.passive.gathering import Batch, Gathering

# How files begin: pcap in either order of bytes, in micro- and nanoseconds; pcapng; gzip; Zstandard.
MAGIC = tuple(
    bytes.fromhex(word) for word in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "0a0d0d0a", "1f8b", "28b52ffd")
)


def is_capture(data: bytes) -> bool:
    """Whether a file's bytes begin as a capture's."""
    return data.startswith(MAGIC)


def contexts_of(path: str) -> dict[str, list[tuple[float, Context]]]:
    """By client prefix: when, and the context of each connection. Errors: `BadInput` for a file that is no capture,
    `Missing` without numpy."""
    from configtron.fingerprint.passive.connection_report import report_connections

    gathering, found = gathering_of(stream=False, trips=True), dict[str, list[tuple[float, Context]]]()
    for batch in _batches(gathering, path):
        for told in report_connections(batch, [path], tainted=gathering.counts["dropped-by-capture"] > 0):
            context = _context(told)
            found.setdefault(context.prefix, []).append((told.started_ns / 1e9, context))
    return found


def _batches(gathering: Gathering, path: str) -> Iterator[Batch]:
    from configtron.fingerprint.capture.reading import read
    from configtron.fingerprint.capture.source import opened
    from configtron.fingerprint.passive.headers import decode

    dissect = dissector()
    with opened(path) as source:
        for frames in read(source, gathering.counts, name=path):
            yield from gathering.take(decode(frames, gathering.pairs, gathering.heads, gathering.counts, dissect))
    yield from gathering.finish()


def _context(told: ConnectionReport) -> Context:
    from configtron.fingerprint.features import AddressFacts
    from configtron.fingerprint.passive.connection_report import goodput_kbps
    from configtron.fingerprint.passive.local import lost, sighted

    # Nobody's addresses are local here, so the server's side is taken for the near one.
    seen = sighted(told, (), lambda _: AddressFacts()).context
    # By the client, what the server sends is acknowledged at once, at any rate.
    rtt, kbps = told.numbers["rtt"], seen.bandwidth_kbps if told.place != "client" else None
    first, last = (told.numbers[f"server_{name}_data"] for name in ("first", "last"))
    if kbps is None and rtt is not None and first is not None and last is not None and (last - first) / 1e9 > rtt:
        kbps = goodput_kbps(told, "server")
    rtt_ms = None if rtt is None else rtt * 1000.0
    return Context(bandwidth_kbps=kbps or None, rtt_ms=rtt_ms, loss=lost(told, "server"), prefix=seen.prefix)
