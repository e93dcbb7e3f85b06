# SPDX-License-Identifier: MIT
"""A packet capture -> contexts over time, a client prefix each: what `studies/sim/captured.py` cuts into sessions.

The round trip is the handshake's, which is the whole path's wherever the capture was taken; bandwidth is the best rate
that the server's data was acknowledged at, or else its goodput over more than a round trip (a single flight arrives as
fast as the last link is, and shows nothing): what the path carried, a lower bound.
"""

from __future__ import annotations

from configtron.fingerprint.capture.dissect import Dissector
from configtron.fingerprint.capture.source import MAGICS as COMPRESSED_MAGICS
from configtron.fingerprint.features import AddressFacts
from configtron.fingerprint.passive.connection_report import ConnectionReport, report_connections
from configtron.fingerprint.passive.local import lost, sighted
from configtron.model.nouns import Context
from configtron.service.capture.reading import batches_of, gathering_of

# How files begin: pcap in either order of bytes, in micro- and nanoseconds; pcapng; compressed files.
WORDS = ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "0a0d0d0a")
MAGIC = (*map(bytes.fromhex, WORDS), *COMPRESSED_MAGICS)


def is_capture(data: bytes) -> bool:
    """Return whether a file's bytes begin as a capture's."""
    return data.startswith(MAGIC)


def contexts_of(path: str) -> dict[str, list[tuple[float, Context]]]:
    """Return by client prefix the time [s] and the context of each connection. Errors: `BadInput` for no capture."""
    gathering, found = gathering_of(whole=True, trips=True), dict[str, list[tuple[float, Context]]]()
    for batch in batches_of(gathering, (path,), Dissector()):
        lossy = gathering.counts["dropped-by-capture"] > 0
        reports = report_connections(batch, [path], tainted=lossy, wanted=frozenset())
        for report in reports.without_observations():
            context = _context(report)
            found.setdefault(context.prefix, []).append((report.started_ns / 1e9, context))
    return found


def _context(report: ConnectionReport) -> Context:
    # No address is local here, so the server's side is taken for the near one.
    seen = sighted(report, (), lambda _: AddressFacts()).context
    # By the client, what the server sends is acknowledged at once, at any rate.
    rtt, kbps = report.numbers["rtt"], seen.bandwidth_kbps if report.place != "client" else None
    first, last = (report.numbers[f"server_{name}_data"] for name in ("first", "last"))
    if kbps is None and rtt is not None and first is not None and last is not None and (last - first) / 1e9 > rtt:
        kbps = report.goodput_kbps["server"]
    rtt_ms = None if rtt is None else rtt * 1000.0
    return Context(bandwidth_kbps=kbps or None, rtt_ms=rtt_ms, loss=lost(report, "server"), prefix=seen.prefix)
