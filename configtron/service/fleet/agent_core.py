# SPDX-License-Identifier: MIT
"""An agent without its sockets: session and spool. The run loop and the simulation drive it alike."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from configtron.fleet.agent_session import (
    AgentEffect,
    AgentSession,
    CheckRows,
    ForgetRows,
    LoadMap,
    ReadSpool,
    Remark,
    RememberManager,
    SendFrame,
)
from configtron.fleet.messages import AgentHello, MapResult
from configtron.service.fleet.spool import Spool

log = logging.getLogger("configtron.fleet")


class AgentCore:
    """One start of an agent's network side.

    load  hands a document to the applier; its result comes back by `loaded`
    """

    def __init__(
        self, hello: AgentHello, held: tuple[int, int, bytes], spool: Spool, load: Callable[[bytes], None]
    ) -> None:
        self.spool, self._load = spool, load
        self.session = AgentSession(hello, held, *spool.manager())

    def tick(self, now: float, now_ns: int) -> list[bytes]:
        """Do what is due; return frames to send."""
        self.session.waiting, self.session.dropped = self.spool.waiting, self.spool.dropped
        self.session.clock_ns = now_ns
        return self._done(self.session.tick(now), now)

    def receive(self, data: bytes, now: float) -> list[bytes]:
        """Take a frame; return frames to send."""
        return self._done(self.session.receive(data, now), now)

    def loaded(self, result: MapResult, held: tuple[int, int, bytes], retry: bool, now: float) -> list[bytes]:
        """Take what the applier did with a document; return frames to send."""
        return self._done(self.session.loaded(result, held, now, retry=retry), now)

    def holds(self, held: tuple[int, int, bytes], frozen: str) -> None:
        """Take what is in force after a change that no document made."""
        if self.session.frozen and not frozen:
            # It was rejected for the external change alone.
            self.session.rejected = None
        self.session.held, self.session.frozen = held, frozen

    def _done(self, effects: Sequence[AgentEffect], now: float) -> list[bytes]:
        out: list[bytes] = []
        waiting = list(effects)
        while waiting:
            match waiting.pop(0):
                case SendFrame(data):
                    out.append(data)
                case LoadMap(_, _, document):
                    self._load(document)
                case ReadSpool():
                    waiting += self.session.spooled(*self.spool.oldest(), now)
                case ForgetRows(boot, through):
                    self.spool.forget(boot, through)
                case CheckRows(boot, through):
                    if number := self.spool.drop_damaged(boot, through):
                        waiting += self.session.checked(number, now)
                case RememberManager(term, manager, proof):
                    self.spool.remember_manager(term, manager, proof)
                case Remark(text, urgent):
                    log.log(logging.WARNING if urgent else logging.INFO, "%s", text)
        return out
