# SPDX-License-Identifier: MIT
"""Run an agent: the root process applies what it is handed, and the process it starts has the network and no rights."""

from __future__ import annotations

import errno
import gc
import logging
import os
import pwd
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import configtron
from configtron.db.agent_journal import AgentJournal
from configtron.fleet.messages import AgentHello, SpanForm
from configtron.fleet.transport.applier_link import (
    OF_NETWORK,
    ApplierLink,
    HeldReport,
    LinkClosed,
    LoadDocument,
    LoadReport,
    StandingReport,
)
from configtron.fleet.transport.curve_keys import curve_pair, manager_address
from configtron.linux.notify import ready
from configtron.linux.proc import LISTENING, tcp_lines
from configtron.model.bounds import check_texts
from configtron.model.errors import BadInput, Missing
from configtron.model.protocols import Driver
from configtron.model.tuning import Reach, Rules
from configtron.model.tuning_json import value_text
from configtron.service.fleet.agent_log import ApplierLog, resume_kept
from configtron.service.fleet.agent_metrics import METRICS
from configtron.service.fleet.agent_pages import PageReading
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.enforcement import JournaledEnforcement
from configtron.service.fleet.page_intake import PagesOptions
from configtron.service.fleet.restarts import Restarts
from configtron.service.fleet.retuning import ClassRetuning
from configtron.service.lease.context import context_of
from configtron.service.lease.options import LeaseOptions
from configtron.service.lease.planner import chosen
from configtron.service.text_listener import listener_place
from configtron.tune.guard import Limits
from configtron.tune.pools import for_kernel

log = logging.getLogger("configtron.fleet")

MODULE = "configtron.service.fleet.agent_network"
# s between two turns without a message; until the network process is to have ended.
TURN_S, END_S = 0.25, 5.0
# s until a network process that reads nothing counts as hung, and until a hung one is killed. No lease is renewed
# meanwhile: both, with the second between two renewals, are shorter than a lease.
PATIENCE_S, GONE_S = 1.0, 0.25
# s between two readings of records, which wait in the kernel's buffers meanwhile: each opens the driver's tables, and
# log lines wake the process hundreds of times a second.
PAGES_TURN_S = 0.25
# s after which an agent is ready without beacons: it applies maps, and logs why no beacons are taken.
WITHOUT_S = 20.0
# s between two reports of figures for /metrics: below any interval of scraping.
STANDING_S = 1.0
# Thresholds of the process's cycle collector. Of 5000 connections a second that are remembered for some seconds none is
# in a cycle, and a third of the time went into looking for some: all objects are looked through once in some hours.
GARBAGE = 10_000, 20, 1_000
# Values of a knob, and letters of a value, that a hello has room for (`configtron/fleet/messages.py`).
MOST_VALUES = 64
# The user that the network process becomes where the agent is root.
USER = "configtron-agent"


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What an agent applies, and where it keeps its own files.

    lease   database, driver, place and limits of what is applied
    folder  the network process's own: keys, manager's address, spool
    user    whom the network process runs as, where this one is root
    pages   where beacons and log lines of page loads come; None: none are taken
    retune_open  whether open connections follow when a map gives their prefix another class
    metrics HOST:PORT of /metrics, in the process without rights; "": none
    """

    lease: LeaseOptions
    folder: Path
    user: str = USER
    pages: PagesOptions | None = None
    retune_open: bool = False
    metrics: str = ""

    def __post_init__(self) -> None:
        check_texts(self)
        if self.metrics:
            listener_place(self.metrics, "--metrics")


@dataclass
class _Network:
    """The network process and this end of its socketpair."""

    process: subprocess.Popen[bytes]
    link: ApplierLink
    reported: tuple[int, int, bytes, str] = field(default=(0, 0, b"", ""))
    standing_s: float = float("-inf")


class Readiness:
    """Reports to the service manager that the agent is ready: its map is in force, and its beacons are taken.

    port  where the process without rights listens for beacons; 0: it does not
    """

    def __init__(self, port: int) -> None:
        self._port, self._reported = port, False
        self._deadline_s = time.monotonic() + WITHOUT_S

    def turn(self, connected: bool) -> None:
        """Report once, when it is so. connected: the process without rights runs."""
        if self._reported:
            return
        if (connected and self._listens()) or time.monotonic() >= self._deadline_s:
            ready()
            self._reported = True

    def _listens(self) -> bool:
        return not self._port or any(one.state == LISTENING and one.port == self._port for one in tcp_lines())


def run_agent(options: AgentOptions, *, stop: Callable[[], bool] = lambda: False) -> None:
    """Run an agent until `stop` returns true; then what stood before its map is put back.

    Errors: `BadInput` for its files; `Missing` for the driver, or a right to become the user; `Refused` where another
    database acts here.
    """
    address = manager_address(options.folder)
    curve_pair(options.folder)
    identity = _identity(options.user)
    gc.set_threshold(*GARBAGE)
    with AgentJournal(options.lease.database) as journal:
        driver = chosen(context_of(journal), options.lease, for_kernel(journal.wanted()))
        enforcement = JournaledEnforcement(options.lease, journal, driver)
        applier = Applier(enforcement, address.verify_key, wanted_by_humans(journal), enforcement.human_rules())
        applier.frozen = enforcement.frozen()
        resume_kept(applier, enforcement.documents(), _boot_s(), time.time_ns(), enforcement.drawn())
        reading = PageReading(options.pages, enforcement, options.lease.place.netns) if options.pages else None
        retuning = ClassRetuning(applier, enforcement) if options.retune_open else None
        network: _Network | None = None
        restarts, lines = Restarts(), ApplierLog()
        readiness = Readiness(options.pages.port if options.pages else 0)
        try:
            while not stop():
                if network is None and time.monotonic() >= restarts.due_s:
                    restarts.begun(time.monotonic())
                    network = _started(restarts, options, identity, applier, driver, reading)
                network = _turn(applier, network, reading, restarts, lines)
                readiness.turn(network is not None)
                if options.metrics:
                    _stand(applier, network, reading)
                lines.turn(applier, _boot_s(), time.time_ns())
                if retuning is not None:
                    retuning.add(applier.take_reclassed())
                    retuning.turn()
        finally:
            if network is not None:
                _end(network)
            if reading is not None:
                reading.close()
            enforcement.release()


def wanted_by_humans(journal: AgentJournal) -> Rules:
    """Return the wanted rules that a human set."""
    wanted = journal.wanted()
    profiles, prefixes = journal.learned("profile"), journal.learned("prefix")
    return Rules(
        {name: profile for name, profile in wanted.profiles.items() if name not in profiles},
        {prefix: name for prefix, name in wanted.prefixes.items() if prefix not in prefixes},
        wanted.default,
    )


def _boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _identity(user: str) -> tuple[int, int] | None:
    """Return (user, group) of the network process; None: that of this one, which is not root. Errors: `BadInput`."""
    if os.geteuid() != 0:
        return None
    try:
        found = pwd.getpwnam(user)
    except KeyError as error:
        remedy = f"make it: useradd --system --no-create-home --shell /usr/sbin/nologin {user}"
        raise BadInput(f"no user is called {user!r}; {remedy}") from error
    return found.pw_uid, found.pw_gid


def _started(restarts: Restarts, options: AgentOptions, identity: tuple[int, int] | None, applier: Applier,
             driver: Driver, reading: PageReading | None) -> _Network | None:  # fmt: skip
    """Return the network process; None: there are no descriptors, or there is no memory, for one.

    Errors: `Missing` for what does not pass: this process may not become the user, or the user not run the program.
    """
    try:
        return _start(options, identity, applier, driver, reading)
    except OSError as error:
        if error.errno == errno.EACCES:
            raise Missing(f"user {options.user!r} may not run {sys.executable}: {error.strerror}; let it read and"
                          " execute that file, and enter its folders") from error  # fmt: skip
        if error.errno in (errno.EPERM, errno.EINVAL):
            raise Missing(f"the network process cannot become user {options.user!r}: {error.strerror}; give the agent"
                          " CAP_SETUID and CAP_SETGID; in a user namespace also map the user and its group, and allow"
                          " setgroups") from error  # fmt: skip
        log.warning("the agent's network process cannot be started: %s; the map in force stays, and it is tried again"
                    " in %g s", error.strerror, restarts.ended(time.monotonic()))  # fmt: skip
        return None


def _start(options: AgentOptions, identity: tuple[int, int] | None, applier: Applier, driver: Driver,
           reading: PageReading | None) -> _Network:  # fmt: skip
    """Start the network process."""
    ours, theirs = socket.socketpair()
    ends = [theirs]
    # -P: import nothing from the working directory.
    command = [sys.executable, "-P", "-m", MODULE, str(theirs.fileno()), str(options.folder.resolve())]
    if reading is not None:
        ends.append(reading.connected())
        command += [str(ends[1].fileno()), reading.options.text]
    passed = [end.fileno() for end in ends]
    path = str(Path(configtron.__file__).parent.parent)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join([path, *filter(None, sys.path[1:])]),
                   METRICS: options.metrics}  # fmt: skip
    if identity is None:
        process = subprocess.Popen(command, pass_fds=passed, env=environment, cwd="/")
    else:
        process = subprocess.Popen(command, pass_fds=passed, env=environment, cwd="/", user=identity[0],
                                   group=identity[1], extra_groups=[])  # fmt: skip
    for end in ends:
        end.close()
    network = _Network(process, ApplierLink(ours, PATIENCE_S), (*applier.held, applier.frozen))
    network.link.send(_hello(options.lease.limits, applier, driver))
    return network


def _hello(limits: Limits, applier: Applier, driver: Driver) -> AgentHello:
    """Return what the network process introduces this host by; it knows the boot."""
    bounds = tuple(SpanForm(knob, each.least, each.most, each.values) for knob, each in limits.bounds.items())
    reaches = tuple(_reach_form(each) for each in driver.settable().values())
    return AgentHello("", configtron.__version__, *applier.held, driver=driver.name, reaches=reaches, bounds=bounds,
                      allow_unfair=limits.allow_unfair)  # fmt: skip


def _reach_form(reach: Reach) -> SpanForm:
    """Return what a driver takes of a knob; a list of values that is too long to send is left to the driver itself."""
    values = tuple(value_text(value) for value in reach.values)
    sent = values if len(values) <= MOST_VALUES and all(len(value) <= MOST_VALUES for value in values) else ()
    return SpanForm(reach.knob, reach.least, reach.most, sent)


def _turn(applier: Applier, network: _Network | None, reading: PageReading | None, restarts: Restarts,
          lines: ApplierLog) -> _Network | None:  # fmt: skip
    """Do one turn; return the network process, None while there is none: leases are renewed, and epochs turn."""
    try:
        watched: list[Any] = [*([network.link.socket] if network else []), *([reading] if reading else [])]
        readable = select.select(watched, [], [], PAGES_TURN_S if reading else TURN_S)[0]
        if network is not None and network.link.socket in readable:
            for message in network.link.receive(OF_NETWORK):
                _load(applier, network, message, lines)
        applier.tick(_boot_s(), time.time_ns())
        if reading is not None:
            _read(applier, reading)
        if network is not None:
            _report(applier, network)
        return network
    except LinkClosed as error:
        assert network is not None
        _end(network, GONE_S)
        log.warning("%s; it is started again in %g s", error, restarts.ended(time.monotonic()))
        return None


def _report(applier: Applier, network: _Network) -> None:
    """Send what changed without a document. Errors: `LinkClosed`."""
    for late in applier.take_late():
        network.link.send(LoadReport(late.result, *late.held, late.retry))
    now = (*applier.held, applier.frozen)
    if now != network.reported:
        network.reported = now
        network.link.send(HeldReport(*now))


def _stand(applier: Applier, network: _Network | None, reading: PageReading | None) -> None:
    """Send the figures for /metrics, once in a while; a process that has ended is the next turn's to see."""
    now_s = time.monotonic()
    if network is None or now_s - network.standing_s < STANDING_S:
        return
    network.standing_s = now_s
    valid_s, lease_s = applier.left(_boot_s()) or (None, None)
    with suppress(LinkClosed):
        network.link.send_if_room(StandingReport(valid_s, lease_s, reading.reader.records() if reading else None))


def _read(applier: Applier, reading: PageReading) -> None:
    """Read the log lines that wait, and some times a second the records."""
    reading.reader.read_lines()
    now_s = time.monotonic()
    if now_s >= reading.due_s:
        reading.due_s = now_s + PAGES_TURN_S
        reading.turn(applier)


def _load(applier: Applier, network: _Network, message: LoadDocument, lines: ApplierLog) -> None:
    began = time.monotonic()
    found = applier.load(message.document, _boot_s(), time.time_ns())
    lines.loaded(found, time.monotonic() - began)
    network.reported = (*found.held, applier.frozen)
    network.link.send(LoadReport(found.result, *found.held, found.retry))


def _end(network: _Network, patience_s: float = END_S) -> None:
    """End the network process, by force after so long."""
    network.link.socket.close()
    network.process.send_signal(signal.SIGTERM)
    try:
        network.process.wait(patience_s)
    except subprocess.TimeoutExpired:
        network.process.kill()
        network.process.wait()
