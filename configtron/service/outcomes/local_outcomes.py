# SPDX-License-Identifier: MIT
"""Page loads of one machine: both halves in one process and one event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from configtron.intake.pageloads.beacon_join import SETTLE_NS
from configtron.intake.pageloads.intake import IntakeOptions
from configtron.intake.pageloads.plan_book import PlanBook
from configtron.intake.receiving.http_endpoint import PORT
from configtron.intake.receiving.log_socket import LogSocket
from configtron.model.fleet import OutcomeRow
from configtron.service.outcomes import web_server_texts
from configtron.service.outcomes.counts_report import CountsReport
from configtron.service.outcomes.page_outcomes import PageOutcomes
from configtron.service.outcomes.root_reader import RecordSource, RootReader

LOG_PATH = Path(web_server_texts.LOG_PATH)
# Seconds between two readings; the kernel buffers records meanwhile.
EVERY_S = 0.1


class LocalOutcomes:
    """Endpoint, log socket and records. `rows` gets the rows that are complete; the caller updates `book`.

    log_group   GID of the log socket, as `LogSocket`
    """

    def __init__(
        self, agent: str, boot: str, source: RecordSource, book: PlanBook, rows: Callable[[Sequence[OutcomeRow]], None],
        log_path: Path = LOG_PATH, options: IntakeOptions | None = None, settle_ns: int = SETTLE_NS,
        log_group: int | None = None,
    ) -> None:  # fmt: skip
        self.reader = RootReader(source, LogSocket(log_path, log_group), book)
        self.pages = PageOutcomes(agent, boot, rows, self.reader.ask, options, settle_ns=settle_ns)
        self._report = CountsReport("page loads", self.pages.beacons.waiting)
        self._turning: asyncio.TimerHandle | None = None

    async def start(self, host: str = "127.0.0.1", port: int = PORT) -> None:
        """Listen for beacons, which the web server passes on. Errors: `Missing`."""
        await self.pages.endpoint.start(host, port)
        asyncio.get_running_loop().add_reader(self.reader.lines.fileno(), self.reader.read_lines)
        self._turn()

    def _turn(self) -> None:
        self.pages.turn(self.reader.turn())
        self._report.turn(self.counts)
        self._turning = asyncio.get_running_loop().call_later(EVERY_S, self._turn)

    async def stop(self) -> None:
        """Close the sockets; hand out the rows that still wait for later beacons."""
        if self._turning is not None:
            self._turning.cancel()
        asyncio.get_running_loop().remove_reader(self.reader.lines.fileno())
        await self.pages.endpoint.stop()
        self.pages.turn(self.reader.turn(), self.pages.beacons.settle_ns)
        self._report.turn(self.counts, now=True)
        self.reader.lines.close()

    def counts(self) -> Counter[str]:
        """Return the number of beacons, reports, lines and records by result."""
        return self.reader.counts() + self.pages.counts()
