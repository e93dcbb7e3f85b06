# SPDX-License-Identifier: MIT
"""The agent's process without rights: ZeroMQ, spool, and one end of the socketpair to the applier.

python -m configtron.service.fleet.agent_network DESCRIPTOR FOLDER [DESCRIPTOR OPTIONS]

The last two are of page loads: the end that their batches come from, and `PagesOptions` as JSON.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import zmq
from msgspec.structs import replace

from configtron.fleet.messages import AgentHello, refused_count
from configtron.fleet.transport.agent_sockets import AgentSockets
from configtron.fleet.transport.applier_link import (
    OF_APPLIER,
    ApplierLink,
    FromApplier,
    HeldReport,
    LinkClosed,
    LoadDocument,
    LoadReport,
    StandingReport,
)
from configtron.fleet.transport.curve_keys import CurvePair, ManagerAddress, curve_pair, manager_address
from configtron.linux.privileges import no_new_privileges
from configtron.model.errors import DONE, ConfigtronError
from configtron.report.log_lines import TextLines
from configtron.service.fleet.agent_core import AgentCore
from configtron.service.fleet.agent_metrics import METRICS, AgentMetrics
from configtron.service.fleet.page_intake import PageIntake, PagesOptions
from configtron.service.fleet.spool import Spool
from configtron.service.text_listener import ListenerPlace, PatientListener, listener_place

log = logging.getLogger("configtron.fleet")

# s between two turns without a frame.
TURN_S = 0.1
SPOOL = "spool.db"
# s until the applier has reported what the host can set.
PATIENCE_S = 30.0


def run_network(end: socket.socket, folder: Path, *, stop: Callable[[], bool] = lambda: False,
                started: Callable[[AgentCore], None] = lambda core: None,
                pages: tuple[socket.socket, PagesOptions] | None = None,
                metrics: ListenerPlace | None = None) -> None:  # fmt: skip
    """Run the network side until `stop` returns true or the applier has ended.

    folder   keys, manager's address, spool
    started  gets the core, whose `spool` takes rows
    pages    the end that batches of page loads come from, and where their beacons come; None: no beacons are taken
    metrics  where /metrics are served; None: nowhere

    Errors: `BadInput` for the folder's files; `LinkClosed`.
    """
    address, pair = manager_address(folder), curve_pair(folder)
    loop = NetworkLoop(end, folder, address, pair, pages, metrics)
    started(loop.core)
    try:
        while not stop():
            loop.turn()
    finally:
        loop.close()


class NetworkLoop:
    """The session, its sockets, the spool and the applier's end, driven by one poller.

    Errors: as `run_network`.
    """

    def __init__(self, end: socket.socket, folder: Path, address: ManagerAddress, pair: CurvePair,
                 pages: tuple[socket.socket, PagesOptions] | None, metrics: ListenerPlace | None) -> None:  # fmt: skip
        self._end, self._link = end, ApplierLink(end)
        host, later = _host(self._link)
        self._spool, self._figures = Spool(folder / SPOOL, ""), AgentMetrics()
        self._listener = PatientListener(metrics, self._figures.texts(), "--metrics") if metrics else None
        held = (host.term, host.version, host.digest)
        self.core = AgentCore(replace(host, boot=self._spool.boot), held, self._spool, self._load)
        self._sockets = AgentSockets(address, pair)
        for message in later:
            _reported(self.core, message)
        self._intake = PageIntake(*pages, self._spool) if pages else None
        self._poller = zmq.Poller()
        self._watch()

    def _load(self, document: bytes) -> None:
        self._figures.asked()
        self._link.send(LoadDocument(document))

    def _watch(self) -> None:
        """Let the poller wake for frames, the applier and page loads."""
        for each in (self._sockets.dealer, self._end):
            self._poller.register(each, zmq.POLLIN)
        for descriptor in self._intake.filenos() if self._intake else ():
            self._poller.register(descriptor, zmq.POLLIN)

    def turn(self) -> None:
        """Wait for something, at most `TURN_S`, and do what is due. Errors: `LinkClosed`."""
        ready = dict(self._poller.poll(round(TURN_S * 1000)))
        if self._end.fileno() in ready:
            self._take_reports()
        if self._intake is not None:
            self._intake.turn()
        for data in self._sockets.receive():
            _send(self._sockets, self.core.receive(data, time.monotonic()))
        _send(self._sockets, self.core.tick(time.monotonic(), time.time_ns()))
        if complaint := self._sockets.complaint():
            log.warning("%s", complaint)
        self._note()

    def _take_reports(self) -> None:
        """Take the applier's messages. Errors: `LinkClosed`."""
        for message in self._link.receive(OF_APPLIER):
            if isinstance(message, StandingReport):
                self._figures.standing = message
            elif isinstance(message, LoadReport):
                self._figures.applied(refused_count(message.result.refused, message.result.omitted))
            _send(self._sockets, _reported(self.core, message))

    def _note(self) -> None:
        """Hand the figures of now to the listener, if they are served."""
        if self._listener is not None:
            self._listener.turn(time.monotonic())
            self._figures.note(self.core, self._intake.counts if self._intake else None)

    def close(self) -> None:
        """Close the sockets, the spool, and what listens."""
        for each in (self._listener, self._intake, self._sockets, self._spool):
            if each is not None:
                each.close()


def _host(link: ApplierLink) -> tuple[AgentHello, list[FromApplier]]:
    """Return the applier's first message, which may come in parts, and those that came with it.

    Errors: `LinkClosed`.
    """
    found: list[FromApplier] = []
    link.socket.settimeout(PATIENCE_S)
    while not found:
        found = link.receive(OF_APPLIER)
    link.socket.settimeout(None)
    host = found.pop(0)
    if not isinstance(host, AgentHello):
        raise LinkClosed("the applier did not report what this host can set")
    return host, found


def _reported(core: AgentCore, message: FromApplier) -> list[bytes]:
    """Take a message of the applier; return frames to send."""
    if isinstance(message, StandingReport):
        return []
    held = (message.term, message.version, message.digest)
    if isinstance(message, LoadReport):
        return core.loaded(message.result, held, message.retry, time.monotonic())
    core.holds(held, message.frozen if isinstance(message, HeldReport) else "")
    return []


def _send(sockets: AgentSockets, frames: list[bytes]) -> None:
    for data in frames:
        sockets.send(data)


def main(arguments: list[str]) -> int:
    """Run as a process that the applier started."""
    lines = logging.StreamHandler()
    lines.setFormatter(TextLines("configtron: %(message)s"))
    logging.basicConfig(handlers=[lines], level=logging.INFO)
    no_new_privileges()
    asked: list[int] = []

    def ask(number: int, _: FrameType | None) -> None:
        asked.append(number)

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pages = (socket.socket(fileno=int(arguments[2])), PagesOptions.of(arguments[3])) if arguments[2:] else None
        end, place = socket.socket(fileno=int(arguments[0])), os.environ.get(METRICS, "")
        metrics = listener_place(place, "--metrics") if place else None
        run_network(end, Path(arguments[1]), stop=lambda: bool(asked), pages=pages, metrics=metrics)
    except ConfigtronError as error:
        log.error("%s", error)
        return error.code
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
