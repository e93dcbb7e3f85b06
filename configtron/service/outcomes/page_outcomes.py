# SPDX-License-Identifier: MIT
"""Join beacons and error reports with the root reader's batches; hand out rows. Needs no privilege."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence

from configtron.intake.pageloads.beacon_join import SETTLE_NS, BeaconJoin
from configtron.intake.pageloads.failure_join import ANSWER_NS, FailureJoin
from configtron.intake.pageloads.intake import OTHER, Admitted, Intake, IntakeOptions
from configtron.intake.pageloads.plan_book import ClientAsked
from configtron.intake.receiving.http_endpoint import BeaconEndpoint
from configtron.model.errors import BadInput
from configtron.model.fleet import OutcomeRow
from configtron.service.outcomes.root_reader import HOST_CLOCK, OutcomeClock, ReaderBatch

log = logging.getLogger("configtron.fleet")

# Page loads after which a site of --sites would have been among them, unless it is misspelt.
UNNAMED = 100


class PageOutcomes:
    """One agent's page loads.

    rows       gets the rows of each turn, at least one
    ask        asks the reader, which has the plans, what a client without a record was given: its answers come with
               the batches (`RootReader.ask`)
    sequence   the last number that this boot gave a row
    """

    def __init__(
        self, agent: str, boot: str, rows: Callable[[Sequence[OutcomeRow]], None], ask: Callable[[ClientAsked], bool],
        options: IntakeOptions | None = None, sequence: int = 0, settle_ns: int = SETTLE_NS,
        clock: OutcomeClock = HOST_CLOCK,
    ) -> None:  # fmt: skip
        self._rows, self._clock = rows, clock
        self._options = options = options or IntakeOptions()
        self._unnamed: Counter[str] | None = Counter() if options.sites else None
        self.beacons = BeaconJoin(agent, boot, sequence=sequence, settle_ns=settle_ns, site_of=self._site_of)
        self.failures = FailureJoin(self.beacons, ask, clock.boot_ns())
        self.intake = Intake(options)
        self.endpoint = BeaconEndpoint(self.intake, self.admit)

    def admit(self, admitted: Admitted) -> None:
        """Take the beacon or the error reports of a request."""
        now_ns = self._clock.boot_ns()
        if admitted.load is not None:
            self.beacons.beacon(admitted.load, now_ns, admitted.device, admitted.site)
        for failed in admitted.failed:
            self.failures.failed(admitted.client, failed, now_ns, admitted.device, admitted.site)

    def turn(self, batch: ReaderBatch, ahead_ns: int = 0) -> None:
        """Take what the root reader joined; hand out the rows that settled, or will have `ahead_ns` from now: then no
        answer is waited for."""
        self.beacons.requests(batch.joined)
        self.beacons.ended(batch.ended)
        self.failures.requests(batch.joined)
        self.failures.ended_badly(batch.bad)
        rows = self.beacons.advance(self._clock.boot_ns() + ahead_ns, self._clock.wall_ns() + ahead_ns)
        rows += [self._numbered(end) for end in batch.states]
        rows += self.failures.answered(batch.known)
        self.failures.give_up(self._clock.boot_ns() - (0 if ahead_ns else ANSWER_NS))
        if rows:
            self._rows(rows)

    def _numbered(self, end: OutcomeRow) -> OutcomeRow:
        self.beacons.sequence += 1
        return end._replace(agent=self.beacons.agent, boot=self.beacons.boot, sequence=self.beacons.sequence)

    def _site_of(self, host: str) -> str:
        """Return the site of a host. Log a line if none of the first loads named a site of the operator's."""
        site = self._options.site_of(host)
        if self._unnamed is not None:
            self._unnamed[host] += 1
            if site != OTHER:
                self._unnamed = None
            elif (count := self._unnamed.total()) >= UNNAMED:
                seen = ", ".join(ascii(name[:60]) for name, _ in self._unnamed.most_common(3))
                log.warning("none of %d page loads named a site of --sites (%s); they named %s: write these there",
                            count, ",".join(sorted(self._options.sites)), seen)  # fmt: skip
                self._unnamed = None
        return site

    def counts(self) -> Counter[str]:
        """Return what became of requests, beacons and reports."""
        return self.intake.counts + self.beacons.counts + self.failures.counts


def refused_rows(rows: Sequence[OutcomeRow], take: Callable[[Sequence[OutcomeRow]], object]) -> int:
    """Hand rows over; where `take` refuses them by `BadInput`, one by one. Return how many it refused: what a visitor's
    browser sends must not cost the others' rows."""
    try:
        take(rows)
        return 0
    except BadInput as error:
        log.warning("an outcome is left out: %s", error)
    refused = 0
    for row in rows:
        try:
            take([row])
        except BadInput:
            refused += 1
    return refused
