# SPDX-License-Identifier: MIT
"""Reports of failed loads that wait until the process with rights answers what their clients were given.

The process that receives reports knows a client's address, from the report's connection, and not its arm; the other
knows the plans that were in force. Questions go there, answers come back without an address, each within `ANSWER_NS`
or not at all: a report that gets none is counted, and is no row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from configtron.intake.pageloads.error_reports import FailedLoad
from configtron.intake.pageloads.failure_join import FailureJoin, begun_ns
from configtron.model.fleet import OutcomeRow
from configtron.service.outcomes.root_reader import ClientAsked, ClientKnown

# Reports that wait: what the other process answers in some seconds (`agent_pages.MOST_ASKED` a turn).
MOST_REPORTS = 2_000
# The other process answers four times a second, but for while it puts a large map in force.
ANSWER_NS = 10_000_000_000

Ask = Callable[[ClientAsked], bool]


class _Waiting(NamedTuple):
    load: FailedLoad
    at_ns: int
    device: str
    site: str


class AskedReports:
    """Reports by the number of their question.

    ask      hands a question on; False: there is no room for it
    number   of the last question: above those of each process before this one, whose answers may still come
    """

    def __init__(self, failures: FailureJoin, ask: Ask, number: int) -> None:
        self.counts: Counter[str] = Counter()
        self._failures, self._ask, self._number = failures, ask, number
        self._waiting: dict[int, _Waiting] = {}

    def add(self, client: bytes, load: FailedLoad, at_ns: int, device: str, site: str) -> None:
        """Ask what the client of a report was given, which came at `at_ns` (CLOCK_BOOTTIME)."""
        self._number += 1
        question = ClientAsked(self._number, client, max(0, begun_ns(load, at_ns)))
        if len(self._waiting) >= MOST_REPORTS or not self._ask(question):
            self.counts["report-overflow"] += 1
            return
        self._waiting[self._number] = _Waiting(load, at_ns, device, site)

    def answered(self, known: Iterable[ClientKnown]) -> list[OutcomeRow]:
        """Return the rows of reports that answers have come to."""
        rows = []
        for one in known:
            report = self._waiting.pop(one.number, None)
            if report is None:
                self.counts["late-answer"] += 1
            elif (row := self._failures.known(one.drawn, *report)) is not None:
                rows.append(row)
        return rows

    def give_up(self, before_ns: int) -> None:
        """Count the reports that came before that time and have no answer."""
        while self._waiting:
            number = next(iter(self._waiting))
            if self._waiting[number].at_ns > before_ns:
                return
            del self._waiting[number]
            self.counts["report-unanswered"] += 1
