# SPDX-License-Identifier: MIT
"""The reader of records and log lines, which runs as root: addresses come in here and go no further.

A turn reads what the kernel recorded, then the lines, and hands out what joined, and what clients that were asked for
had been given (`ReaderBatch`). Records are complete
up to a time taken before they were read; where a turn's bound cuts the reading, it goes on in the next.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, Protocol

from configtron.intake.end_reports import EndReports
from configtron.intake.pageloads.log_lines import TEST_LINE
from configtron.intake.pageloads.plan_book import ClientAsked, ClientKnown, PlanBook
from configtron.intake.pageloads.request_join import EndedConnection, JoinedRequest, RequestJoin
from configtron.intake.receiving.ended_sockets import EndedSockets, boottime_ns
from configtron.intake.receiving.log_socket import LogSocket
from configtron.model.close_records import BadEndings, CloseRecord, OpenRecord, PackedRecords
from configtron.model.errors import Missing
from configtron.model.fleet import OutcomeRow
from configtron.model.protocols import Drawing, RecordPacker

# Records of one turn: the kernel's ring holds more, and lines must be read meanwhile.
AT_ONCE = 20_000
# Connections that ended after which a web server that logs here has sent a line: most connections ask for a page.
ENOUGH_ENDED = 20

log = logging.getLogger("configtron.fleet")


class OutcomeClock(NamedTuple):
    """CLOCK_BOOTTIME and the wall clock, ns: this host's, or those of a simulation."""

    boot_ns: Callable[[], int] = boottime_ns
    wall_ns: Callable[[], int] = time.time_ns


HOST_CLOCK = OutcomeClock()


class RecordSource(Protocol):
    """A driver that draws (`protocols.Drawing`), or `EndedSockets`."""

    def records(self) -> Iterator[OpenRecord | CloseRecord]:
        """Hand out the records that wait, each once."""

    def lost_records(self) -> int:
        """Return how many records were lost so far."""


class RecordsInForce:
    """A driver's records while its rules are in force; none before, and none after they were taken back.

    driver  returns the driver that draws now
    """

    def __init__(self, driver: Callable[[], Drawing]) -> None:
        self._driver, self._lost = driver, 0

    def records(self) -> Iterator[OpenRecord | CloseRecord]:
        """Hand out the records that wait, each once."""
        try:
            yield from self._driver().records()
        except Missing:
            return

    def batches(self) -> Iterator[OpenRecord | CloseRecord | PackedRecords]:
        """Hand out the same records, packed where the driver packs them."""
        driver = self._driver()
        if not isinstance(driver, RecordPacker):
            yield from self.records()
            return
        with suppress(Missing):
            yield from driver.packed_records()

    def lost_records(self) -> int:
        """Return how many records were lost so far."""
        try:
            now = self._driver().lost_records()
        except Missing:
            return self._lost
        # The kernel's count begins anew with the rules.
        self._lost = max(self._lost, now)
        return self._lost


class ReaderBatch(NamedTuple):
    """What one turn joined, answers to what was asked before it, and ends of connections as rows."""

    joined: tuple[JoinedRequest, ...] = ()
    ended: tuple[EndedConnection, ...] = ()
    bad: BadEndings = BadEndings()
    known: tuple[ClientKnown, ...] = ()
    states: tuple[OutcomeRow, ...] = ()


class RootReader:
    """Records, lines, and the plans that were in force, of one network namespace.

    silence   that connections ended and no log line has come, and what to do; "" once one came
    """

    def __init__(
        self, source: RecordSource, lines: LogSocket, book: PlanBook, clock: OutcomeClock = HOST_CLOCK
    ) -> None:  # fmt: skip
        self.source, self.lines, self.book, self._clock = source, lines, book, clock
        self.join = RequestJoin(book.describe)
        self.ends = EndReports(book.describe, book.kernel_draws)
        self._reading: Iterator[OpenRecord | CloseRecord | PackedRecords] | None = None
        self._began_ns = self._complete_ns = 0
        self._lost = source.lost_records()
        self._opened = self._read = self._lines = 0
        self._asked: list[ClientAsked] = []
        self.silence = ""

    def ask(self, asked: ClientAsked) -> bool:
        """Take a question, which the next turn answers, after it has read the records that confirm a failed load."""
        self._asked.append(asked)
        return True

    def turn(self) -> ReaderBatch:
        """Read what waits; return what joined."""
        self.book.clocks(self._clock.boot_ns(), self._clock.wall_ns())
        self._read_records()
        self.read_lines()
        self._notice_silence()
        joined = self.join.advance(self._complete_ns, self._clock.boot_ns())
        ended, bad = tuple(self.join.ended()), self.join.ended_badly()
        known = tuple((one.number, self.book.of_client(one.client, one.at_ns)) for one in self._asked)
        self._asked.clear()
        return ReaderBatch(tuple(joined), ended, bad, known, tuple(self.ends.reports()))

    def read_lines(self) -> None:
        """Read the lines that wait. As soon as there are some: the kernel queues few (`log_socket.queue_length`)."""
        for data, arrival_ns, wall_ns in self.lines.lines():
            self.join.datagram(data, arrival_ns, wall_ns)
            self._lines += data != TEST_LINE
        self.lines.answer({**self.join.counts, "heard": self._lines})

    def _notice_silence(self) -> None:
        """Log once that no line comes though connections end; it is over with the first line."""
        ended = self._read - self._opened
        if self._lines:
            self.silence = ""
        elif ended >= ENOUGH_ENDED and not self.silence:
            self.silence = (f"{ended} connections to the web server ended and it sent no log line to"
                            f" {self.lines.access()}: it must log there as docs/learn.md shows, by workers of that"
                            " group; find the cause by: configtron doctor")  # fmt: skip
            log.warning("%s", self.silence)

    def _read_records(self) -> None:
        if self._reading is None:
            self._reading, self._began_ns = self._waiting(), self._clock.boot_ns()
        read, since_boot_ns = 0, self._clock.wall_ns() - self._clock.boot_ns()
        for record in self._reading:
            read += self._take(record, since_boot_ns)
            if read >= AT_ONCE:
                break
        self._read += read
        lost = self.source.lost_records()
        if lost > self._lost:
            self._lost = lost
            self.join.lifetimes.lost(self._clock.boot_ns())
        if read < AT_ONCE:
            source, self._reading = self.source, None
            self._complete_ns = source.complete_ns if isinstance(source, EndedSockets) else self._began_ns

    def _waiting(self) -> Iterator[OpenRecord | CloseRecord | PackedRecords]:
        source = self.source
        return source.batches() if isinstance(source, RecordsInForce) else source.records()

    def _take(self, record: OpenRecord | CloseRecord | PackedRecords, since_boot_ns: int) -> int:
        """Take a record, or many; return how many."""
        if isinstance(record, PackedRecords):
            self.join.packed(record)
            self.ends.take_packed(record, since_boot_ns)
            self._opened += len(record.opened)
            return record.number
        self.join.record(record)
        if isinstance(record, CloseRecord):
            self.ends.take(record, since_boot_ns)
        else:
            self._opened += 1
        return 1

    def records(self) -> tuple[int, int, int, int]:
        """Return how many records of opened and closed connections were read, how many the kernel lost, and how many
        log lines came."""
        return self._opened, self._read - self._opened, self._lost, self._lines

    def counts(self) -> Counter[str]:
        """Return what became of lines and records."""
        return self.join.counts + self.join.lifetimes.counts + self.ends.counts + Counter({"records lost": self._lost})
