# SPDX-License-Identifier: MIT
"""Network Error Logging: loads that never finished, so that a profile that breaks connections cannot look good.

Question   Which page loads of which client failed, and in which part of the way?
Method     A body of the Reporting API is a list of reports; those of type "network-error" count, each once: its row
           keeps the inverse of its sampling fraction, which any sender may make up. What the client was given is drawn
           again from its address and the time of the failure.
           A failure teaches where the records show a connection of that client near it (`near`), because anyone can
           send a report.
Stop when  `MOST_REPORTS` of a body; the rest are counted. Dropped: the address of the server, status, method, referrer
           and phase, since the type has the phase and no model has the others.
Reads as   `FailedLoad`: failure by the phase: `dns`, `tcp`, `tls`, `h2`, `h3`, `abandoned`.
Fails as   a reason of `reasons.REPORTS` for each report.
Differs    from beacons: browsers send reports minutes later, from any connection, without a token.
Source     W3C Network Error Logging (5, 6: phases and types), W3C Reporting API 1
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

MOST_REPORTS = 64
# A report that stands for more than so many others is refused: one forged report would outweigh a day's loads.
MOST_WEIGHT = 100.0
OLDEST_MS = 3_600_000.0
# Characters of a protocol's name: those of the registry of ALPN have eight.
LONGEST_WORD = 20
# A connection of the client counts as the failed one's within so much of it (ns).
NEAR_NS = 60_000_000_000
# First word of NEL's type -> failure.
KINDS = {"dns": "dns", "tcp": "tcp", "tls": "tls", "h2": "h2", "h3": "h3", "http": "", "abandoned": "abandoned"}
# Types of `http` that are the transport's fault; others are the application's.
TRANSPORT_HTTP = {"http.protocol.error": "http", "http.response.invalid.content_length_mismatch": "http"}


class FailedLoad(NamedTuple):
    """One failed load: how long before the report was sent (ms), how long it took until it failed, how many it
    stands for; at_ns, device, site: as of `PageLoad`."""

    failure: str
    age_ms: float
    elapsed_ms: float
    weight: float
    protocol: str
    at_ns: int = 0
    device: str = ""
    site: str = ""

    @property
    def failed_ns(self) -> int:
        """Return when the load began that failed, CLOCK_BOOTTIME."""
        return self.at_ns - round((self.age_ms + self.elapsed_ms) * 1e6)


def failed_loads(body: bytes) -> list[FailedLoad | str]:
    """Return each report of a body as a failed load, or why it is none."""
    try:
        reports = json.loads(body)
    except (ValueError, RecursionError):
        return ["report-unreadable"]
    if not isinstance(reports, list):
        reports = [reports]
    return [_report(one) for one in reports[:MOST_REPORTS]] + ["report-overflow"] * (len(reports) - MOST_REPORTS)


def _report(report: Any) -> FailedLoad | str:
    try:
        if report["type"] != "network-error":
            return "report-unreadable"
        return _failed(report, report["body"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return "report-unreadable"


def _failed(report: Mapping[str, Any], body: Mapping[str, Any]) -> FailedLoad | str:
    """Return the load of a report. Errors: those of fields that are missing or of the wrong kind."""
    kind = str(body["type"])
    if kind == "ok":
        return "report-success"
    failure = KINDS.get(kind.partition(".")[0])
    if failure is None:
        return "report-unreadable"
    failure = failure or TRANSPORT_HTTP.get(kind, "")
    if not failure:
        return "report-server"
    age_ms, elapsed_ms = float(report.get("age", 0)), float(body.get("elapsed_time", 0))
    fraction = float(body.get("sampling_fraction", 1.0))
    if not (0 <= age_ms < math.inf and 0 <= elapsed_ms < math.inf and 0 < fraction <= 1):
        return "report-unreadable"
    if age_ms + elapsed_ms > OLDEST_MS:
        return "report-old"
    if 1.0 / fraction > MOST_WEIGHT:
        return "report-rare"
    return FailedLoad(failure, age_ms, elapsed_ms, 1.0 / fraction, _word(body.get("protocol", "")))


def _word(value: Any) -> str:
    """Return a protocol's name; "" for what is no printable word, as the failure counts whatever its protocol. JSON can
    name half of a character, which no database keeps."""
    word = str(value)[:LONGEST_WORD]
    return word if word.isascii() and word.isprintable() else ""
