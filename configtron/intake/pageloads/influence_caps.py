# SPDX-License-Identifier: MIT
"""How much one client and one prefix may teach, and who does not teach at all because its beacons contradict records.

Question   How far can a client that invents beacons move what is learned?
Method     A client (unit) and a prefix teach so many times in a window; what is more is stored and does not teach.
           A contradiction is a beacon that the client's own connection disproves (`reasons.CONTRADICTIONS`). A client
           with `client_contradictions` of them teaches no more in this window. A prefix is quarantined while the share
           of its clients that contradicted, of `prefix_clients` at least, is above `prefix_share` by the lower bound
           of Wilson's interval (95 %, one-sided): so one client cannot silence its neighbours.
Stop when  the window ends (`WINDOW_NS`), or `MOST` names: a new name then counts as capped.
Reads as   "" or a reason of `reasons.UNTAUGHT`.
Fails as   a quarantine of honest clients in `prefix_share` of prefixes at most where contradictions are chance.
Source     Wilson 1927; closed networks' share of forged beacons is not known, so limits are counts, not fits
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from configtron.intake.pageloads.reasons import CONTRADICTIONS

# Length of a window of counts (ns): an epoch's default length.
WINDOW_NS = 600_000_000_000
# One-sided 95 % of the normal distribution.
Z = 1.6449
MOST = 100_000


@dataclass(frozen=True, slots=True)
class Caps:
    """Outcomes that teach per window of one client and of one prefix, and when contradictions silence them.

    A visitor reads some 20 pages in ten minutes; a prefix of 250 visitors then has some 5 000, of which each class
    needs hundreds: 1 000.
    """

    client: int = 20
    prefix: int = 1_000
    client_contradictions: int = 2
    prefix_share: float = 0.2
    prefix_clients: int = 5


class InfluenceCaps:
    """Counts of the present window; names outside it are forgotten."""

    def __init__(self, caps: Caps | None = None, most: int = MOST) -> None:
        self._caps, self._most, self._ends_ns = caps or Caps(), most, 0
        self._client_taught: dict[str, int] = {}
        self._prefix_taught: dict[str, int] = {}
        self._contradicted: Counter[str] = Counter()
        # prefix -> clients seen, and those of them that contradicted
        self._clients: dict[str, dict[str, bool]] = {}
        self._liars: Counter[str] = Counter()

    def _turn(self, now_ns: int) -> None:
        """Begin the window of that time."""
        self._ends_ns = (now_ns // WINDOW_NS + 1) * WINDOW_NS
        for counted in (self._client_taught, self._prefix_taught, self._contradicted, self._clients, self._liars):
            counted.clear()

    def seen(self, prefix: str, unit: str, reason: str, now_ns: int) -> None:
        """Count a beacon of this client, with the reason of its rejection; "" if it was accepted."""
        if now_ns >= self._ends_ns:
            self._turn(now_ns)
        clients = self._clients.get(prefix)
        if clients is None:
            if len(self._clients) >= self._most:
                return
            clients = self._clients[prefix] = {}
        known = clients.get(unit)
        if not reason:
            if known is None and len(clients) < self._caps.prefix:
                clients[unit] = False
            return
        liar = reason in CONTRADICTIONS
        if known is None and len(clients) >= self._caps.prefix:
            return
        if liar:
            if unit in self._contradicted or len(self._contradicted) < self._most:
                self._contradicted[unit] += 1
            self._liars[prefix] += not known
        clients[unit] = liar or bool(known)

    def disagreement(self, prefix: str) -> float:
        """Return the least share of the prefix's clients whose beacons contradict records, with 95 % confidence."""
        clients = len(self._clients.get(prefix, ()))
        return least_share(self._liars[prefix], clients) if clients >= self._caps.prefix_clients else 0.0

    def doubt(self, prefix: str, unit: str, now_ns: int) -> str:
        """Return why this client's outcome does not teach; "" if it does, and count it."""
        if now_ns >= self._ends_ns:
            self._turn(now_ns)
        caps = self._caps
        if self._contradicted and self._contradicted.get(unit, 0) >= caps.client_contradictions:
            return "quarantined"
        if prefix in self._liars and self.disagreement(prefix) > caps.prefix_share:
            return "quarantined"
        if not _count(self._client_taught, unit, caps.client, self._most):
            return "client-cap"
        if not _count(self._prefix_taught, prefix, caps.prefix, self._most):
            return "prefix-cap"
        return ""


def _count(counts: dict[str, int], name: str, cap: int, most: int) -> bool:
    """Count a name; return whether it was below its cap, and had room."""
    count = counts.get(name, 0)
    if count >= cap or (not count and len(counts) >= most):
        return False
    counts[name] = count + 1
    return True


def least_share(hits: int, of: int) -> float:
    """Return the lower end of Wilson's interval of a share, one-sided 95 %."""
    if not hits:
        return 0.0
    share = hits / of
    middle = share + Z * Z / (2 * of)
    spread = Z * ((share * (1 - share) + Z * Z / (4 * of)) / of) ** 0.5
    return float((middle - spread) / (1 + Z * Z / of))
