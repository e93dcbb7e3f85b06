# SPDX-License-Identifier: MIT
"""Page loads in an agent's process without rights: beacons and the root process's batches in, rows into the spool."""

from __future__ import annotations

import asyncio
import json
import logging
import selectors
import socket
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from configtron.intake.pageloads.beacon_join import SETTLE_NS
from configtron.intake.pageloads.intake import IntakeOptions, sites_of
from configtron.intake.pageloads.plan_book import ClientAsked
from configtron.intake.receiving.http_endpoint import beacons_at
from configtron.model.bounds import check_number, check_texts
from configtron.model.errors import BadInput, Missing
from configtron.model.fleet import OutcomeRow
from configtron.service.fleet.spool import Spool
from configtron.service.outcomes.batch_bytes import MOST_OF_QUESTION, decoded, encoded
from configtron.service.outcomes.counts_report import CountsReport
from configtron.service.outcomes.local_outcomes import LOG_PATH
from configtron.service.outcomes.page_outcomes import PageOutcomes, refused_rows
from configtron.service.outcomes.root_reader import ReaderBatch

log = logging.getLogger("configtron.fleet")

# The longest datagram (`agent_pages.py`).
BUFFER_BYTES = 1 << 20
# s between two tries to listen.
AGAIN_S = 10.0
# Passes of the event loop in a turn: asyncio accepts a connection and reads from it in callbacks of callbacks, which no
# descriptor announces.
ROUNDS = 5
# Questions that wait here until the other process takes them; the socket's buffer holds more.
MOST_QUESTIONS = 1_000


@dataclass(frozen=True, slots=True)
class PagesOptions:
    """host, port: where beacons come; log_path: socket of the web server's access log; settle_ns: until a page load's
    row is complete; log_group: the socket's group; "": the one that `web_group` finds; sites: as of `sites_of`."""

    host: str
    port: int
    log_path: Path = LOG_PATH
    settle_ns: int = SETTLE_NS
    log_group: str = ""
    sites: str = ""

    def __post_init__(self) -> None:
        """Check texts and numbers. Errors: `BadInput`."""
        check_texts(self)
        check_number("port", self.port, 0, 65_535, whole=True)
        sites_of(self.sites)

    @property
    def text(self) -> str:
        """Return the options as JSON, for the other process."""
        return json.dumps(asdict(self) | {"log_path": str(self.log_path)})

    @classmethod
    def of(cls, text: str) -> PagesOptions:
        """Return the options of `text`."""
        found = json.loads(text)
        return cls(**(found | {"log_path": Path(found["log_path"])}))


def pages_options(beacons: str | None, log_path: Path | None, log_group: str = "", sites: str = ""
                  ) -> PagesOptions | None:  # fmt: skip
    """Return options as they are typed; None without `--beacons`. Errors: `BadInput`."""
    if beacons is None:
        given = {"--log-socket": log_path, "--log-group": log_group, "--sites": sites}
        if option := next((name for name, value in given.items() if value), ""):
            raise BadInput(f"{option} without --beacons: page loads need both; add --beacons 127.0.0.1:9315")
        return None
    return PagesOptions(*beacons_at(beacons), log_path or LOG_PATH, log_group=log_group, sites=sites)


class PageIntake:
    """The half without rights: the endpoint of beacons, and rows into the spool."""

    def __init__(self, end: socket.socket, options: PagesOptions, spool: Spool) -> None:
        self._end, self._options, self._spool = end, options, spool
        end.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._questions: deque[ClientAsked] = deque()
        self.pages = PageOutcomes(spool.agent, spool.boot, self._keep, self._ask,
                                  IntakeOptions(sites_of(options.sites)), settle_ns=options.settle_ns)  # fmt: skip
        self.refused: Counter[str] = Counter()
        self._report = CountsReport("page loads", self.pages.beacons.waiting)
        self._listens, self._listen_s, self._complaint = False, 0.0, ""

    def filenos(self) -> tuple[int, ...]:
        """Return the descriptors to poll: that of the batches, and that of the endpoint's sockets."""
        fileno = getattr(self._selector, "fileno", None)
        return (self._end.fileno(), fileno()) if fileno else (self._end.fileno(),)

    def turn(self) -> None:
        """Take what has come; call it whenever one of the descriptors is ready, and several times a second."""
        now_s = time.monotonic()
        if not self._listens and now_s >= self._listen_s:
            self._listen(now_s)
        for _ in range(ROUNDS):
            self._loop.call_soon(self._loop.stop)
            self._loop.run_forever()
        for batch in self._batches():
            self.pages.turn(batch)
        self.pages.turn(ReaderBatch())
        self._send_questions()
        self._report.turn(self.counts)

    def _ask(self, asked: ClientAsked) -> bool:
        """Take a question for the process with rights: what was this client given? False: too many wait."""
        if len(self._questions) >= MOST_QUESTIONS:
            return False
        self._questions.append(asked)
        return True

    def _send_questions(self) -> None:
        """Send the questions that there is room for."""
        while self._questions:
            some = tuple(islice(self._questions, MOST_OF_QUESTION))
            try:
                self._end.send(encoded(some))
            except (BlockingIOError, ConnectionError):
                return
            for _ in some:
                self._questions.popleft()

    def _listen(self, now_s: float) -> None:
        """Listen for beacons; where the port is taken, try again later, and log that once."""
        self._listen_s = now_s + AGAIN_S
        try:
            self._loop.run_until_complete(self.pages.endpoint.start(self._options.host, self._options.port))
        except Missing as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.error("%s; maps are applied meanwhile", error)
            return
        self._listens = True
        log.info("beacons are taken at %s port %d", self._options.host, self.pages.endpoint.port)

    def _batches(self) -> list[ReaderBatch]:
        """Return the batches that wait."""
        found: list[ReaderBatch] = []
        while True:
            try:
                data = self._end.recv(BUFFER_BYTES)
            except (BlockingIOError, ConnectionError):
                return found
            if not data:
                return found
            found.append(decoded(data))

    def _keep(self, rows: Sequence[OutcomeRow]) -> None:
        """Spool rows; leave out and count those that no manager would take."""
        self.refused["row-refused"] += refused_rows(rows, self._spool.add)

    def counts(self) -> Counter[str]:
        """Return what became of requests, beacons, reports and rows, by reason."""
        return self.pages.counts() + self.refused

    def close(self) -> None:
        """Spool the rows that have not settled, and close the sockets."""
        if self._listens:
            self._loop.run_until_complete(self.pages.endpoint.stop())
        for batch in self._batches():
            self.pages.turn(batch)
        self.pages.turn(ReaderBatch(), self.pages.beacons.settle_ns)
        self._report.turn(self.counts, now=True)
        self._loop.close()
        self._end.close()
