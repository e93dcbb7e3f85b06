# SPDX-License-Identifier: MIT
"""Page loads in an agent's root process: records and log lines in, `ReaderBatch`es without addresses out.

They go to the network process (`page_intake.py`) as datagrams of a socketpair of their own. The root process never
waits for the other: what finds no room waits within a bound, then the oldest goes, counted. The other way come
questions, what a client whose load failed had been given: the answer has no address.
"""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter, deque
from collections.abc import Iterator

from configtron.intake.pageloads.plan_book import PlanBook
from configtron.intake.receiving.ended_sockets import EndedSockets, boottime_ns
from configtron.intake.receiving.log_socket import LogSocket
from configtron.model.close_records import CloseRecord, OpenRecord
from configtron.model.errors import BadInput, Missing
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.enforcement import JournaledEnforcement
from configtron.service.fleet.page_intake import PagesOptions
from configtron.service.outcomes.batch_bytes import QUESTION_BYTES, encoded, question_of
from configtron.service.outcomes.counts_report import CountsReport
from configtron.service.outcomes.root_reader import ReaderBatch, RecordsInForce, RecordSource, RootReader
from configtron.service.outcomes.web_group import web_group

# Requests, and ended connections, of one datagram: some 15 kB, 50 kB with the longest names; connections that ended
# badly, of which a datagram has no more bytes. Datagrams that wait: two minutes of a busy site.
OF_DATAGRAM, OF_ENDINGS, MOST_WAITING = 50, 600, 8_000
# Datagrams with questions that are read in a turn: of 50 clients each, 100 us a client that is drawn anew. What a
# process sends beyond that waits in its socket.
MOST_ASKED = 10
# s between two tries to open what reports connections.
AGAIN_S = 5.0

log = logging.getLogger("configtron.fleet")


class NoRecords:
    """No map is in force, so no connection is recorded."""

    def records(self) -> Iterator[OpenRecord | CloseRecord]:
        return iter(())

    def lost_records(self) -> int:
        return 0


class PageReading:
    """The root process's half; `due_s`: when `turn` is called next. Errors: `Missing` for the log's socket."""

    def __init__(self, options: PagesOptions, enforcement: JournaledEnforcement, netns: str = "") -> None:
        self.options, self._enforcement, self._netns = options, enforcement, netns
        self._draws = enforcement.draws
        source: RecordSource = RecordsInForce(enforcement.drawing) if self._draws else NoRecords()
        self.book = PlanBook(self._draws)
        self.reader = RootReader(source, LogSocket(options.log_path, web_group(options.log_group)), self.book)
        log.info("log lines are read at %s", self.reader.lines.access())
        self._waiting: deque[bytes] = deque()
        self._end: socket.socket | None = None
        self._ports: tuple[int, ...] = ()
        # When ports may be listed; why they could not be.
        self._list_s, self._complaint = float("-inf"), ""
        self.dropped, self.due_s = 0, 0.0
        self._questions: Counter[str] = Counter()
        self._report = CountsReport("log lines and records")

    def fileno(self) -> int:
        """For `select`: log lines must be read as soon as there are some."""
        return self.reader.lines.fileno()

    def connected(self) -> socket.socket:
        """Return the end of a new network process."""
        self._close_end()
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._end.setblocking(False)
        return theirs

    def turn(self, applier: Applier) -> None:
        """Read what waits and hand it on; call it some times a second."""
        applier.activations.pass_on(self.book, boottime_ns())
        drawing = applier.drawing
        if drawing is not None and not self._draws and drawing.head.ports != self._ports:
            self._list_ports(drawing.head.ports)
        self._read_questions()
        self._waiting.extend(_datagrams(self.reader.turn()))
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._send()
        self._report.turn(self.counts)

    def counts(self) -> Counter[str]:
        """Return what became of log lines, records and questions, and how many batches the other process left."""
        return self.reader.counts() + self._questions + Counter({"batches dropped": self.dropped})

    def _read_questions(self) -> None:
        """Hand the reader the questions that wait, those of `MOST_ASKED` datagrams at most; what is none is counted."""
        for _ in range(MOST_ASKED if self._end is not None else 0):
            try:
                for asked in question_of(_received(self._end)):
                    self._questions["clients asked for"] += self.reader.ask(asked)
            except OSError:
                break
            except BadInput:
                self._questions["questions refused"] += 1

    def _list_ports(self, ports: tuple[int, ...]) -> None:
        """Read connections of these ports from now on, where no driver records them. Without descriptors, those of the
        ports before are read, and it is tried again."""
        now_s = time.monotonic()
        if now_s < self._list_s:
            return
        try:
            source = EndedSockets(ports, self._netns)
        except (Missing, OSError) as error:
            self._list_s = now_s + AGAIN_S
            if str(error) != self._complaint:
                log.warning("connections to ports %s are not recorded, and it is tried again: %s", ports, error)
            self._complaint = str(error)
            return
        if isinstance(self.reader.source, EndedSockets):
            self.reader.source.close()
        self._ports, self._complaint = ports, ""
        self.reader.source = self._enforcement.marker = source

    def _send(self) -> None:
        """Hand on what there is room for."""
        while self._waiting and self._end is not None:
            try:
                self._end.send(self._waiting[0])
            except BlockingIOError:
                return
            except OSError:
                # It has ended, and is started again.
                self._close_end()
                return
            self._waiting.popleft()

    def _close_end(self) -> None:
        if self._end is not None:
            self._end.close()
            self._end = None

    def close(self) -> None:
        """Close the sockets."""
        self._report.turn(self.counts, now=True)
        self._close_end()
        self.reader.lines.close()
        if isinstance(self.reader.source, EndedSockets):
            self.reader.source.close()


def _received(end: socket.socket | None) -> bytes:
    """Return the next datagram. Errors: `OSError` where none waits, or the other process has ended."""
    data = end.recv(QUESTION_BYTES) if end is not None else b""
    if not data:
        raise ConnectionResetError("the process without rights has ended")
    return data


def _datagrams(batch: ReaderBatch) -> list[bytes]:
    """Return a batch in parts of one datagram each; none of an empty one."""
    longest = max(map(len, (batch.joined, batch.ended, batch.states)))
    cuts = (slice(at, at + OF_DATAGRAM) for at in range(0, longest, OF_DATAGRAM))
    # All records go before the answers, which they may confirm.
    found = [ReaderBatch(batch.joined[cut], batch.ended[cut], states=batch.states[cut]) for cut in cuts]
    cuts_of_bad = range(0, batch.bad.number, OF_ENDINGS)
    found += [ReaderBatch(bad=batch.bad.since(at, OF_ENDINGS)) for at in cuts_of_bad]
    cuts = (slice(at, at + OF_DATAGRAM) for at in range(0, len(batch.known), OF_DATAGRAM))
    return [encoded(one) for one in (*found, *(ReaderBatch(known=batch.known[cut]) for cut in cuts))]
