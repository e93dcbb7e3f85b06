# SPDX-License-Identifier: MIT
"""Run a manager: its sockets, its clock, and the core that decides."""

from __future__ import annotations

import logging
import shlex
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

from configtron.db.fleet import FleetStore
from configtron.fleet.manager_session import SendTo
from configtron.fleet.transport.curve_keys import curve_pair, signing_key
from configtron.fleet.transport.manager_sockets import ManagerSockets
from configtron.linux.notify import ready
from configtron.model.bounds import check_number, check_texts
from configtron.model.errors import Refused
from configtron.service.fleet.key_rotation import KeyRotation, change_key
from configtron.service.fleet.learner_process import LearnerProcess, LearnerRecipe
from configtron.service.fleet.manager_core import ManagerCore, forget_learned
from configtron.service.fleet.map_maker import MapMaker
from configtron.service.learning.importable import check_classes
from configtron.service.text_listener import listener_place, listening

log = logging.getLogger("configtron.fleet")

# Where agents connect, by IPv4 and IPv6.
ENDPOINT = "tcp://*:5560"
# Highest term of a database that was restored: half of what an agent takes (`fleet/messages.py`), thus room for more.
MOST_TERM = 2**61
# For another program's lock on the database: agents wait meanwhile, and rows come again.
LOCK_PATIENCE_S = 0.02
# s between two turns without a frame; frames that are taken in one turn.
TURN_S, MOST_FRAMES = 0.1, 500


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    """Where a manager has its database and keys, and where it listens.

    database    rows, maps, agents; made if absent
    keys        folder of its two keys; made if absent
    endpoint    tcp://ADDRESS:PORT
    after_term  the next term is higher than that: for a manager whose database was restored
    argv        what it was started by, after the program: of the command that an error names
    fresh       forget what the maker before learned; outcomes, agents and maps stay
    metrics     HOST:PORT of the live page and of /metrics; "": none
    """

    database: Path
    keys: Path
    endpoint: str = ENDPOINT
    after_term: int = 0
    argv: tuple[str, ...] = ("learn", "manager", "run")
    fresh: bool = False
    metrics: str = ""

    def __post_init__(self) -> None:
        check_texts(self)
        check_number("after_term", self.after_term, 0, MOST_TERM, whole=True)
        if self.metrics:
            listener_place(self.metrics, "--metrics")


def run_manager(options: ManagerOptions, maker: MapMaker | LearnerRecipe, *, stop: Callable[[], bool] = lambda: False,
                started: Callable[[ManagerCore], None] = lambda core: None) -> None:  # fmt: skip
    """Run a manager until `stop` returns true, asked ten times a second.

    maker    what makes maps: in this process; of a recipe, in one of its own, which no answer to agents waits for
    started  gets the core before the first frame

    Errors: `BadInput` for keys, endpoint or database; `Missing` where the port of the metrics is taken; `Refused` once
    another manager is obeyed: it names both.
    """
    pair, key = curve_pair(options.keys), signing_key(options.keys)
    name = f"{socket.gethostname()}/{time.time_ns() // 1_000_000:x}"
    with FleetStore(options.database) as store:
        # An agent forgets rows once they are receipted, and obeys the highest term.
        store.outlast_power_cuts()
        if options.after_term:
            store.raise_term(options.after_term)
        if options.fresh:
            forget_learned(store)
        sockets = ManagerSockets(options.endpoint, pair, store.allowed())
        try:
            learner = LearnerProcess(maker) if isinstance(maker, LearnerRecipe) else maker
            core = ManagerCore(store, learner, key, name, time.time_ns())
            store.wait_at_most(LOCK_PATIENCE_S)
            log.info("manager %s (term %d) listens at %s", name, core.term, options.endpoint)
            started(core)
            with closing(core), _served(options):
                ready()
                refusals = KeyRefusals()
                while not stop():
                    _turn(core, sockets)
                    refusals.note(sockets.refused)
                    if (due := core.key_due(time.time_ns())) is not None:
                        sockets = _rotated(core, sockets, options, due)
                    if core.stopped:
                        again = shlex.join(["configtron", *options.argv, "--after-term", str(core.obeyed_term)])
                        remedy = f"; if this database was restored from a backup: {again}" if core.obeyed_term else ""
                        raise Refused(core.stopped + remedy)
        finally:
            sockets.close()


class KeyRefusals:
    """Lines about connections with keys that are not enrolled: the first, and whenever they are ten times as many."""

    def __init__(self) -> None:
        self._before = self._count = 0
        self._next = 1

    def note(self, refused: int) -> None:
        """Take how many were refused since the sockets were made, which may be anew."""
        self._count += refused - self._before if refused >= self._before else refused
        self._before = refused
        if self._count < self._next:
            return
        while self._next <= self._count:
            self._next *= 10
        log.warning("connections are refused, as their keys are not enrolled: %d so far; an agent joins by: configtron"
                    " learn manager enroll", self._count)  # fmt: skip


def _served(options: ManagerOptions) -> AbstractContextManager[None]:
    """Return the block in which page and metrics are served, if they are. Errors: `Missing` without extra `learn`."""
    if not options.metrics:
        return nullcontext()
    check_classes()
    from configtron.service.learning.loop_pages import loop_texts

    return listening(listener_place(options.metrics, "--metrics"), loop_texts(options.database), "--metrics")


def _rotated(core: ManagerCore, sockets: ManagerSockets, options: ManagerOptions, due: KeyRotation) -> ManagerSockets:
    """Change the key, and return sockets that have it. Errors: those of `change_key`; `Busy`."""
    core.rotation = None
    if not change_key(core.store, options.keys, due):
        log.warning("the key stays as it is: its next pair is gone; begin anew: configtron learn manager rotate-key")
        return sockets
    log.warning("the manager's key is the next one now; agents that have not joined by the line of `configtron learn"
                " manager rotate-key` are not heard")  # fmt: skip
    sockets.close()
    return ManagerSockets(options.endpoint, curve_pair(options.keys), core.session.allowed)


def _turn(core: ManagerCore, sockets: ManagerSockets) -> None:
    sockets.wait(TURN_S)
    sockets.allowed = core.session.allowed
    for arrived in sockets.receive(MOST_FRAMES):
        _send(sockets, core.receive(arrived.connection, arrived.key, arrived.data, time.monotonic(), time.time_ns()))
    _send(sockets, core.tick(time.monotonic(), time.time_ns()))


def _send(sockets: ManagerSockets, frames: list[SendTo]) -> None:
    for connection, data in frames:
        sockets.send(connection, data)
