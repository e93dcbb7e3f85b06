# SPDX-License-Identifier: MIT
"""HTTP requests of an endpoint -> beacons and error reports that are let in, and the status of each answer.

Question   Is this request a beacon of a page that is measured, and does its sender send no more than pages explain?
Method     Flood limits first, which cost least; then the head (opt-out, Origin, User-Agent); then the body. A beacon is
           answered before it is joined, so that no browser waits.
Stop when  one request is one answer.
Reads as   `Admitted` with a page load, or failed loads.
Fails as   a status and a reason of `reasons.ALL`, counted. The User-Agent goes no further than its device class, the
           address no further than the flood limits and the caller's look-up of what its client was given.
Source     W3C Beacon; Global Privacy Control (Sec-GPC); RFC 9110 10.1.3 (Referer), RFC 6454 (Origin)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from configtron.fingerprint.device import device_of
from configtron.intake.pageloads.beacon_formats import PLT, PageLoad, page_load
from configtron.intake.pageloads.error_reports import FailedLoad, failed_loads
from configtron.intake.pageloads.flood import FloodLimits
from configtron.intake.pageloads.http_framing import HttpRequest
from configtron.intake.pageloads.log_lines import MAPPED
from configtron.model.errors import BadInput

BEACON_PATH, REPORT_PATH, SCRIPT_PATH = "/configtron/beacon", "/configtron/reports", "/configtron/beacon.js"
# The query of a beacon that `configtron doctor` sends.
TEST_QUERY = "doctor"
# A beacon's body; reports come in batches.
MOST_BEACON = 16_384


# The site of every host that is none of the operator's.
OTHER = "other"
# A name of a host, or a pattern.
_SITE = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*")


def sites_of(text: str) -> frozenset[str]:
    """Return sites as they are typed, separated by commas. Errors: `BadInput`."""
    names = [one.strip().lower() for one in text.split(",")] if text else []
    for name in names:
        if not _SITE.fullmatch(name):
            raise BadInput(f"--sites {name[:60]!r}: write names and patterns as in www.example.org,*.example.net")
    return frozenset(names)


@dataclass(frozen=True, slots=True)
class IntakeOptions:
    """Which requests are let in.

    sites           hosts that are sites of their own, in lower case, and patterns `*.example.org`, each one site; any
                    other host counts as `OTHER`; empty: each host is a site
    metric          what a load's time is: `plt` or `lcp`
    honour_opt_out  drop beacons of browsers that send Sec-GPC or DNT
    behind_server   the peer is the web server on this host, which names the client in X-Real-IP
    """

    sites: frozenset[str] = frozenset()
    metric: str = PLT
    honour_opt_out: bool = True
    behind_server: bool = True

    def site_of(self, host: str) -> str:
        """Return the site that a host counts as; where sites are named, without its port and final dot."""
        if not self.sites:
            return host
        host = host.partition(":")[0].rstrip(".")
        if host in self.sites:
            return host
        parts = host.split(".")
        wider = ("*." + ".".join(parts[at:]) for at in range(1, len(parts)))
        return next((one for one in wider if one in self.sites), OTHER)


class Admitted(NamedTuple):
    """What a request brought: a beacon's load, or failed loads of reports. `client` is packed."""

    client: bytes
    device: str
    site: str
    load: PageLoad | None
    failed: tuple[FailedLoad, ...]


class Intake:
    """Judges requests; `counts`: by reason, "beacons" and "reports" that were let in."""

    def __init__(self, options: IntakeOptions | None = None, limits: FloodLimits | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self._options, self._limits = options or IntakeOptions(), limits or FloodLimits()

    def refuse(self, reason: str) -> None:
        """Count a request that was refused before it was whole."""
        self.counts[reason] += 1

    def request(self, request: HttpRequest, peer: bytes, now_ns: int) -> tuple[int, Admitted | None]:
        """Return the status of the answer, and what is let in.

        peer     address of the TCP connection, packed; empty for a UNIX socket
        now_ns   of a clock that is never set back
        """
        if request.method == "OPTIONS":
            return 204, None
        is_beacon = request.path == BEACON_PATH
        if not is_beacon and (request.path != REPORT_PATH or request.method != "POST"):
            return 404, None
        client = self._client(request.headers, peer)
        if fault := self._limits.fault(client, now_ns):
            self.counts[fault] += 1
            return 429, None
        found = self._beacon(request, client) if is_beacon else self._reports(request, client)
        if isinstance(found, str):
            self.counts[found] += 1
            return 413 if found == "too-large" else 204, None
        return 204, found

    def _client(self, headers: Mapping[str, str], peer: bytes) -> bytes:
        """Return the browser's address: the peer's, unless that is the web server on this host."""
        if self._options.behind_server and (not peer or peer[0] == 127 or peer == bytes(15) + b"\1"):
            try:
                peer = ip_address(headers.get("x-real-ip", "")).packed
            except ValueError:
                return peer or bytes(4)
        return peer[12:] if len(peer) == 16 and peer.startswith(MAPPED) else peer

    def _head_fault(self, headers: Mapping[str, str]) -> str:
        options = self._options
        if options.honour_opt_out and (headers.get("sec-gpc") == "1" or headers.get("dnt") == "1"):
            return "opted-out"
        return ""

    def _beacon(self, request: HttpRequest, client: bytes) -> Admitted | str:
        if request.query == TEST_QUERY:
            return "test-beacon"
        headers = request.headers
        site = _host(headers.get("origin") or headers.get("referer", ""))
        if fault := self._head_fault(headers):
            return fault
        if len(request.body) > MOST_BEACON:
            return "too-large"
        device = device_of(headers.get("user-agent", ""))
        if device == "program":
            return "program"
        load = page_load(request.body, request.query, self._options.metric)
        if isinstance(load, str):
            return load
        self.counts["beacons"] += 1
        return Admitted(client, device, site, load, ())

    def _reports(self, request: HttpRequest, client: bytes) -> Admitted | str:
        """Return the failed loads of a body; a browser sends reports by itself, without Origin."""
        if fault := self._head_fault(request.headers):
            return fault
        failed = []
        for one in failed_loads(request.body):
            if isinstance(one, str):
                self.counts[one] += 1
            else:
                failed.append(one)
        self.counts["reports"] += len(failed)
        device = device_of(request.headers.get("user-agent", ""))
        return Admitted(client, device, "", None, tuple(failed))


def _host(url: str) -> str:
    """Return the host of an address; "" if it has none, or one of characters that do not print."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return host if host.isascii() and host.isprintable() else ""
