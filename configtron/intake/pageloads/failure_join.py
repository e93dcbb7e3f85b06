# SPDX-License-Identifier: MIT
"""Failed loads of error reports -> rows, with what the client was given and whether records confirm the failure.

Question   Which arm had the client whose load failed, and may this failure teach?
Method     The client is drawn again from its address at the time of the failure: here, where the plans are known, or by
           the process that knows them, which is asked and answers later (`known`). A failure is confirmed by a
           connection of its prefix that ended badly near it, each of which confirms one report, or by a page of the
           same client near it. DNS fails before any transport setting matters. Endings wait as they came, and are
           sorted by prefix once a report asks for one.
Stop when  Endings of `MOST` prefixes and as many clients are remembered; `MOST_WAITING` endings wait.
Reads as   `OutcomeRow` with `failure`, no load time, and the report's weight.
Fails as   "report-unknown-client", counted; "not-by-transport" or "uncorroborated": stored, and does not teach.
Source     W3C Network Error Logging; `error_reports.py`
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable

from configtron.intake.pageloads.beacon_join import BeaconJoin
from configtron.intake.pageloads.error_reports import NEAR_NS, FailedLoad
from configtron.intake.pageloads.request_join import DrawnArm, JoinedRequest
from configtron.model.close_records import BadEndings, first_address, prefix_of_ends
from configtron.model.fleet import OutcomeRow

MOST = 50_000
# Endings for which no report has asked yet, 24 bytes each: twenty seconds of five thousand resets a second. They
# are sorted in 50 ms.
MOST_WAITING = 100_000


def begun_ns(load: FailedLoad, at_ns: int) -> int:
    """Return when a failed load began whose report came at `at_ns`; both ns of CLOCK_BOOTTIME."""
    return at_ns - round((load.age_ms + load.elapsed_ms) * 1e6)


class FailureJoin:
    """Takes failed loads; `beacons` numbers and dates their rows and caps what they teach."""

    def __init__(self, beacons: BeaconJoin, drawn_of: Callable[[bytes, int], DrawnArm | None]) -> None:
        self.counts: Counter[str] = Counter()
        self._beacons, self._drawn_of = beacons, drawn_of
        self._bad: OrderedDict[bytes, list[int]] = OrderedDict()
        self._waiting: deque[BadEndings] = deque()
        self._waits = 0
        self._clients: OrderedDict[str, int] = OrderedDict()

    def requests(self, joined: Iterable[JoinedRequest]) -> None:
        """Remember which clients asked for pages."""
        for request in joined:
            self._clients.pop(request.drawn.unit, None)
            self._clients[request.drawn.unit] = request.end_ns
            if len(self._clients) > MOST:
                self._clients.popitem(last=False)

    def ended_badly(self, endings: BadEndings) -> None:
        """Remember which prefixes have connections that were reset, aborted, or not answered."""
        if not endings.number:
            return
        self._waiting.append(endings)
        self._waits += endings.number
        while self._waits - self._waiting[0].number >= MOST_WAITING:
            self._waits -= self._waiting.popleft().number

    def _sort(self) -> None:
        """Sort the endings that wait by prefix."""
        for endings in self._waiting:
            for address, end_ns in endings.each():
                times = self._bad.setdefault(address, [])
                times.append(end_ns)
                # each confirms one report: the last hundred are enough
                del times[:-100]
                if len(self._bad) > MOST:
                    self._bad.popitem(last=False)
        self._waiting.clear()
        self._waits = 0

    def failed(self, client: bytes, load: FailedLoad, at_ns: int, device: str, site: str) -> OutcomeRow | None:
        """Return the row of a report that came at `at_ns` (CLOCK_BOOTTIME); None where the client is not known."""
        return self.known(self._drawn_of(client, begun_ns(load, at_ns)), load, at_ns, device, site)

    def known(self, drawn: DrawnArm | None, load: FailedLoad, at_ns: int, device: str, site: str) -> OutcomeRow | None:
        """Return the row of a report whose client was given `drawn` at `begun_ns`; None where that is not known."""
        if drawn is None:
            self.counts["report-unknown-client"] += 1
            return None
        failed_ns = begun_ns(load, at_ns)
        why_not = drawn.doubt or self._doubt(drawn, load, failed_ns, at_ns)
        return self._beacons.row(
            drawn, failed_ns, site, None, load.failure, why_not, device, load.protocol, weight=load.weight
        )

    def _doubt(self, drawn: DrawnArm, load: FailedLoad, failed_ns: int, at_ns: int) -> str:
        if load.failure == "dns":
            return "not-by-transport"
        if not self._confirmed(drawn, failed_ns):
            return "uncorroborated"
        return self._beacons.caps.doubt(drawn.prefix, drawn.unit, at_ns)

    def _confirmed(self, drawn: DrawnArm, failed_ns: int) -> bool:
        """Return whether a record is near; take it."""
        self._sort()
        address = first_address(drawn.prefix)
        # Endings have the prefix of a record; where the draw is by prefix, a unit's may be another one.
        times = self._bad.get(address, []) if prefix_of_ends(address) == drawn.prefix else []
        near = next((at for at in times if abs(at - failed_ns) <= NEAR_NS), None)
        if near is not None:
            times.remove(near)
            return True
        return abs(self._clients.get(drawn.unit, -(2 * NEAR_NS) - failed_ns) - failed_ns) <= NEAR_NS
