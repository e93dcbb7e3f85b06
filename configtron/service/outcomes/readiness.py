# SPDX-License-Identifier: MIT
"""Check whether visitors' page loads can be joined to connections on this host, for `tune doctor`. Reads only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from configtron.fingerprint.capture.diag import established
from configtron.intake.pageloads.proxy_evidence import proxy_evidence
from configtron.intake.receiving.log_socket import short_queue
from configtron.linux.netns import inside
from configtron.model.errors import Missing
from configtron.model.records import Json

WEB_PORTS = (80, 443)
CHECK_COLUMNS = ("check", "state", "note")


class ReadinessCheck(NamedTuple):
    """A requirement of page loads: its name, its state, and the reason or the remedy."""

    check: str
    state: str
    note: str


def readiness(netns: str = "", ports: Iterable[int] = WEB_PORTS) -> list[ReadinessCheck]:
    """Check the requirements of docs/learn.md in a network namespace of this host."""
    wanted = frozenset(ports)
    name = f"clients of ports {', '.join(map(str, sorted(wanted)))}"
    try:
        with inside(netns):
            found = proxy_evidence(one.remote for one in established() if one.local_port in wanted)
        clients = ReadinessCheck(name, found.verdict, found.why)
    except Missing as error:
        clients = ReadinessCheck(name, "unknown", str(error))
    short = short_queue()
    return [clients, ReadinessCheck("queue of log lines", "short" if short else "long enough", short)]


def check_rows(checks: Iterable[ReadinessCheck]) -> list[dict[str, Json]]:
    """Return one row for each check."""
    return [{"kind": "page loads", "check": one.check, "state": one.state, "note": one.note} for one in checks]
