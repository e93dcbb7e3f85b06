# SPDX-License-Identifier: MIT
"""Can page loads of visitors be joined here? What `tune doctor` prints of it. Reads only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from configtron.fingerprint.capture.diag import established
from configtron.learner.pageloads.proxy_evidence import proxy_evidence
from configtron.learner.receiving.log_socket import short_queue
from configtron.linux.netns import inside
from configtron.model.errors import Missing
from configtron.model.records import Json

WEB_PORTS = (80, 443)
CHECK_COLUMNS = ("check", "state", "note")


class ReadinessCheck(NamedTuple):
    """One thing that page loads need: its name, how it stands, and why or what to do."""

    check: str
    state: str
    note: str


def readiness(netns: str = "", ports: Iterable[int] = WEB_PORTS) -> list[ReadinessCheck]:
    """Check a network namespace of this host for what docs/outcomes.md asks."""
    wanted = frozenset(ports)
    try:
        with inside(netns):
            found = proxy_evidence(one.remote for one in established() if one.local_port in wanted)
        clients = ReadinessCheck("clients of ports 80, 443", found.verdict, found.why)
    except Missing as error:
        clients = ReadinessCheck("clients of ports 80, 443", "unknown", str(error))
    short = short_queue()
    return [clients, ReadinessCheck("queue of log lines", "short" if short else "long enough", short)]


def check_rows(checks: Iterable[ReadinessCheck]) -> list[dict[str, Json]]:
    """Return a row a check."""
    return [{"kind": "page loads", "check": one.check, "state": one.state, "note": one.note} for one in checks]
