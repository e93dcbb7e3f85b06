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

import configtron
from configtron.fleet.messages import AgentHello
from configtron.fleet.transport.agent_sockets import AgentSockets
from configtron.fleet.transport.applier_link import (
    OF_APPLIER,
    ApplierLink,
    FromApplier,
    HeldReport,
    HostReport,
    LinkClosed,
    LoadDocument,
    LoadReport,
    StandingReport,
)
from configtron.fleet.transport.curve_keys import ManagerAddress, curve_pair, manager_address
from configtron.linux.privileges import no_new_privileges
from configtron.model.errors import DONE, ConfigtronError
from configtron.service.fleet.agent_core import AgentCore
from configtron.service.fleet.agent_metrics import METRICS, AgentMetrics
from configtron.service.fleet.key_rotation import TRY_S, AgentKeys
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
                metrics: ListenerPlace | None = None, try_s: float = TRY_S) -> None:  # fmt: skip
    """Run the network side until `stop` returns true or the applier has ended.

    folder   keys, manager's address, spool
    started  gets the core, whose `spool` takes rows
    pages    the end that batches of page loads come from, and where their beacons come; None: no beacons are taken
    metrics  where /metrics are served; None: nowhere
    try_s    s of silence after which the manager's other key is tried, while two are known

    Errors: `BadInput` for the folder's files; `LinkClosed`.
    """
    address, pair = manager_address(folder), curve_pair(folder)
    link = ApplierLink(end)
    host, later = _host(link)
    spool = Spool(folder / SPOOL, "")
    figures = AgentMetrics()
    listener = PatientListener(metrics, figures.texts(), "--metrics") if metrics else None

    def load(document: bytes) -> None:
        figures.asked()
        link.send(LoadDocument(document))

    core = AgentCore(_hello(host, spool.boot), (host.term, host.version, host.digest), spool, load,
                     learn=lambda message: keys.learn(message))  # fmt: skip
    keys = AgentKeys(folder, address, time.monotonic(), try_s)
    sockets = AgentSockets(keys.address, pair)
    for message in later:
        _reported(core, message)
    started(core)
    intake = PageIntake(*pages, spool) if pages else None
    poller = zmq.Poller()

    def connect(to: ManagerAddress) -> None:
        nonlocal sockets
        for each in (sockets.dealer, sockets.offers):
            poller.unregister(each)
        sockets.close()
        sockets = AgentSockets(to, pair)
        core.session.reconnected()
        for each in (sockets.dealer, sockets.offers):
            poller.register(each, zmq.POLLIN)

    for each in (sockets.dealer, sockets.offers, end):
        poller.register(each, zmq.POLLIN)
    for descriptor in intake.filenos() if intake else ():
        poller.register(descriptor, zmq.POLLIN)
    try:
        while not stop():
            ready = dict(poller.poll(round(TURN_S * 1000)))
            if end.fileno() in ready:
                for message in link.receive(OF_APPLIER):
                    if isinstance(message, StandingReport):
                        figures.standing = message
                    elif isinstance(message, LoadReport):
                        figures.applied(len(message.result.refused) + message.result.omitted)
                    _send(sockets, _reported(core, message))
            if intake is not None:
                intake.turn()
            for data in sockets.receive():
                _send(sockets, core.receive(data, time.monotonic()))
            _send(sockets, core.tick(time.monotonic(), time.time_ns()))
            keys.turn(time.monotonic(), core.session.silence_s(time.monotonic()), connect)
            if complaint := sockets.complaint():
                log.warning("%s", complaint)
            if listener is not None:
                listener.turn(time.monotonic())
                figures.note(core, intake.counts if intake else None)
    finally:
        if listener is not None:
            listener.close()
        if intake is not None:
            intake.close()
        sockets.close()
        spool.close()


def _host(link: ApplierLink) -> tuple[HostReport, list[FromApplier]]:
    """Return the applier's first message, which may come in parts, and those that came with it.

    Errors: `LinkClosed`.
    """
    found: list[FromApplier] = []
    link.socket.settimeout(PATIENCE_S)
    while not found:
        found = link.receive(OF_APPLIER)
    link.socket.settimeout(None)
    host = found.pop(0)
    if not isinstance(host, HostReport):
        raise LinkClosed("the applier did not report what this host can set")
    return host, found


def _hello(host: HostReport, boot: str) -> AgentHello:
    return AgentHello(boot, configtron.__version__, driver=host.driver, reaches=host.reaches, bounds=host.bounds,
                      allow_unfair=host.allow_unfair)  # fmt: skip


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
    logging.basicConfig(format="configtron: %(message)s", level=logging.INFO)
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
