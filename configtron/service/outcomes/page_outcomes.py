# SPDX-License-Identifier: MIT
"""Join beacons and error reports with the root reader's batches; hand out rows. Needs no privilege."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from configtron.intake.end_reports import EndReport, row_of
from configtron.intake.pageloads.beacon_join import SETTLE_NS, BeaconJoin
from configtron.intake.pageloads.failure_join import FailureJoin
from configtron.intake.pageloads.intake import Admitted, Intake, IntakeOptions
from configtron.intake.pageloads.request_join import DrawnArm
from configtron.intake.receiving.http_endpoint import BeaconEndpoint
from configtron.model.fleet import OutcomeRow
from configtron.service.outcomes.asked_reports import ANSWER_NS, Ask, AskedReports
from configtron.service.outcomes.root_reader import HOST_CLOCK, OutcomeClock, ReaderBatch


def unknown_client(client: bytes, at_ns: int) -> DrawnArm | None:
    """Return None: without a plan, error reports are counted as `report-unknown-client`."""
    return None


class PageOutcomes:
    """One agent's page loads.

    rows       gets the rows of each turn, at least one
    drawn_of   what a client without a record was given at a time (CLOCK_BOOTTIME): `PlanBook.of_client`
    ask        asks another process, which has the book, instead: its answers come with the batches
    sequence   the last number that this boot gave a row
    """

    def __init__(
        self,
        agent: str,
        boot: str,
        rows: Callable[[Sequence[OutcomeRow]], None],
        options: IntakeOptions | None = None,
        drawn_of: Callable[[bytes, int], DrawnArm | None] = unknown_client,
        sequence: int = 0,
        settle_ns: int = SETTLE_NS,
        clock: OutcomeClock = HOST_CLOCK,
        ask: Ask | None = None,
    ) -> None:
        self._rows, self._clock = rows, clock
        self.beacons = BeaconJoin(agent, boot, sequence=sequence, settle_ns=settle_ns)
        self.failures = FailureJoin(self.beacons, drawn_of)
        self.asked = AskedReports(self.failures, ask, clock.boot_ns()) if ask is not None else None
        self.intake = Intake(options)
        self.endpoint = BeaconEndpoint(self.intake, self.admit)
        self._failed: list[Callable[[], OutcomeRow | None]] = []

    def admit(self, admitted: Admitted) -> None:
        """Take the beacon or the error reports of a request."""
        now_ns = self._clock.boot_ns()
        if admitted.load is not None:
            self.beacons.beacon(admitted.load, now_ns, admitted.device, admitted.site)
        for failed in admitted.failed:
            report = admitted.client, failed, now_ns, admitted.device, admitted.site
            if self.asked is not None:
                self.asked.add(*report)
            else:
                # after the turn's records: those that confirm it may be on their way
                self._failed.append(partial(self.failures.failed, *report))

    def turn(self, batch: ReaderBatch, ahead_ns: int = 0) -> None:
        """Take what the root reader joined; hand out the rows that settled, or will have `ahead_ns` from now: then no
        answer is waited for."""
        self.beacons.requests(batch.joined)
        self.beacons.ended(batch.ended)
        self.failures.requests(batch.joined)
        self.failures.ended_badly(batch.bad)
        rows = self.beacons.advance(self._clock.boot_ns() + ahead_ns, self._clock.wall_ns() + ahead_ns)
        rows += [self._end_row(report) for report in batch.states]
        waiting, self._failed = self._failed, []
        rows += [row for failed in waiting if (row := failed()) is not None]
        if self.asked is not None:
            rows += self.asked.answered(batch.known)
            self.asked.give_up(self._clock.boot_ns() - (0 if ahead_ns else ANSWER_NS))
        if rows:
            self._rows(rows)

    def _end_row(self, report: EndReport) -> OutcomeRow:
        self.beacons.sequence += 1
        return row_of(report, self.beacons.agent, self.beacons.boot, self.beacons.sequence)

    def counts(self) -> Counter[str]:
        """Return what became of requests, beacons and reports."""
        found = self.intake.counts + self.beacons.counts + self.failures.counts
        return found if self.asked is None else found + self.asked.counts
