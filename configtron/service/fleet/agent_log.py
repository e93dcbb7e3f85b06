# SPDX-License-Identifier: MIT
"""What an agent's root process logs of its applier, each event in one line: what happened, where, what to do next."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from configtron.fleet.clock_steps import ClockSteps, step_line
from configtron.service.fleet.applier import Applier, LoadResult
from configtron.service.fleet.map_journal import DrawnPlace

log = logging.getLogger("configtron.fleet")

STEPPED = "epochs follow it, the lease and the map's validity do not"


def resume_kept(applier: Applier, documents: Sequence[bytes], now_s: float, now_ns: int, drawn: DrawnPlace) -> None:
    """Put this host's own copy of the map in force again, if it is still valid."""
    if not documents:
        return
    if why := applier.resume(documents, now_s, now_ns, drawn):
        log.warning("the agent was started anew; the map kept by its former start is not used, Default applies until"
                    " the manager sends one: %s", why)  # fmt: skip
    else:
        term, version, _ = applier.held
        log.warning("the agent was started anew; map %d.%d, kept by its former start, is in force again", term, version)


def _note_loaded(found: LoadResult, seconds: float) -> None:
    result, (term, version, _) = found.result, found.held
    stays = f"map {term}.{version} stays" if version else "Default stays"
    if not result.error:
        log.info("map %d.%d: accepted in %.3f s", result.term, result.version, seconds)
    elif found.retry:
        log.warning("the map is asked for again, %s: %s", stays, result.error)
    elif (result.term, result.version) == (0, 0):
        log.warning("a document is refused, %s: %s", stays, result.error)
    else:
        log.warning("map %d.%d is refused, %s: %s", result.term, result.version, stays, result.error)


class ApplierLog:
    """The lines of one applier as time goes on."""

    def __init__(self) -> None:
        self._steps, self._reason = ClockSteps(), ""

    def loaded(self, found: LoadResult, seconds: float) -> None:
        """Log what became of a document: of tries again, the first, where no line before had the reason."""
        reason, before = found.result.error if found.retry else "", self._reason
        self._reason = reason
        if not reason or reason not in before:
            _note_loaded(found, seconds)

    def turn(self, applier: Applier, now_s: float, now_ns: int) -> None:
        """Log what is new; call it after each tick."""
        if step_s := self._steps.step_s(now_s, now_ns):
            log.warning("%s", step_line(step_s, STEPPED))
        for remark in applier.take_remarks():
            log.warning("%s", remark)
            self._reason = remark
