# SPDX-License-Identifier: MIT
"""Failed loads of error reports -> rows, with what the client was given and whether records confirm the failure.

Question   Which arm had the client whose load failed, and may this failure teach?
Method     A report has no token: the reader, which knows the plans, is asked what the client was given at the time of
           the failure, and answers with its next batch. A connection of the client's prefix that ended badly near it,
           each of which confirms one report, or a page of the same client near it, confirms the failure. DNS fails
           before any transport setting matters. Endings wait as they came, and are sorted by prefix once a report asks
           for one.
Stop when  a report waited `ANSWER_NS`, or `MOST_REPORTS` wait; endings of `MOST_PREFIXES` and as many clients are
           remembered.
Reads as   `OutcomeRow` with `failure`, no load time, and the report's weight.
Fails as   a reason of `reasons.REPORTS`, counted; "not-by-transport" or "uncorroborated": stored, and does not teach.
Source     W3C Network Error Logging; `error_reports.py`
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable

from configtron.intake.pageloads.beacon_join import BeaconJoin
from configtron.intake.pageloads.error_reports import NEAR_NS, FailedLoad
from configtron.intake.pageloads.plan_book import ClientAsked, ClientKnown, DrawnArm
from configtron.intake.pageloads.request_join import JoinedRequest
from configtron.model.close_records import BadEndings, first_address, prefix_of_ends
from configtron.model.fleet import OutcomeRow

# Prefixes whose endings are remembered, and as many clients.
MOST_PREFIXES = 50_000
# Endings for which no report has asked yet, 24 bytes each: twenty seconds of five thousand resets a second. They
# are sorted in 50 ms.
MOST_ENDINGS = 100_000
# Reports that wait for an answer: what the other process answers in some seconds (`agent_pages.MOST_ASKED` a turn).
MOST_REPORTS = 2_000
# The other process answers four times a second, but for while it puts a large map in force.
ANSWER_NS = 10_000_000_000


class FailureJoin:
    """Takes failed loads; `beacons` numbers and dates their rows and caps what they teach.

    ask      hands a question on; False: there is no room for it
    number   of the last question: above those of each process before this one, whose answers may still come
    """

    def __init__(self, beacons: BeaconJoin, ask: Callable[[ClientAsked], bool], number: int) -> None:
        self.counts: Counter[str] = Counter()
        self._beacons, self._ask, self._number = beacons, ask, number
        self._reports: dict[int, FailedLoad] = {}
        self._bad: OrderedDict[bytes, list[int]] = OrderedDict()
        self._endings: deque[BadEndings] = deque()
        self._unsorted = 0
        self._clients: OrderedDict[str, int] = OrderedDict()

    def requests(self, joined: Iterable[JoinedRequest]) -> None:
        """Remember which clients asked for pages."""
        for request in joined:
            self._clients.pop(request.drawn.unit, None)
            self._clients[request.drawn.unit] = request.end_ns
            if len(self._clients) > MOST_PREFIXES:
                self._clients.popitem(last=False)

    def ended_badly(self, endings: BadEndings) -> None:
        """Remember which prefixes have connections that were reset, aborted, or not answered."""
        if not endings.number:
            return
        self._endings.append(endings)
        self._unsorted += endings.number
        while self._unsorted - self._endings[0].number >= MOST_ENDINGS:
            self._unsorted -= self._endings.popleft().number

    def failed(self, client: bytes, load: FailedLoad, at_ns: int, device: str = "", site: str = "") -> None:
        """Take a failed load whose report came at `at_ns`, and ask what its client was given."""
        self._number += 1
        load = load._replace(at_ns=at_ns, device=device, site=site)
        question = ClientAsked(self._number, client, max(0, load.failed_ns))
        if len(self._reports) >= MOST_REPORTS or not self._ask(question):
            self.counts["report-overflow"] += 1
            return
        self._reports[self._number] = load

    def answered(self, known: Iterable[ClientKnown]) -> list[OutcomeRow]:
        """Return the rows of reports that answers have come to."""
        rows = []
        for number, drawn in known:
            load = self._reports.pop(number, None)
            if load is None:
                self.counts["late-answer"] += 1
            elif drawn is None:
                self.counts["report-unknown-client"] += 1
            else:
                why_not = drawn.doubt or self._doubt(drawn, load)
                rows.append(self._beacons.row(drawn, load.failed_ns, load.site, None, load.failure, why_not,
                                              load.device, load.protocol, weight=load.weight))  # fmt: skip
        return rows

    def give_up(self, before_ns: int) -> None:
        """Count the reports that came before that time and have no answer."""
        while self._reports:
            number = next(iter(self._reports))
            if self._reports[number].at_ns > before_ns:
                return
            del self._reports[number]
            self.counts["report-unanswered"] += 1

    def _doubt(self, drawn: DrawnArm, load: FailedLoad) -> str:
        if load.failure == "dns":
            return "not-by-transport"
        if not self._confirmed(drawn, load.failed_ns):
            return "uncorroborated"
        return self._beacons.caps.doubt(drawn.prefix, drawn.unit, load.at_ns)

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

    def _sort(self) -> None:
        """Sort the endings that wait by prefix."""
        for endings in self._endings:
            for address, end_ns in endings.each():
                times = self._bad.setdefault(address, [])
                times.append(end_ns)
                # each confirms one report: the last hundred are enough
                del times[:-100]
                if len(self._bad) > MOST_PREFIXES:
                    self._bad.popitem(last=False)
        self._endings.clear()
        self._unsorted = 0
