# SPDX-License-Identifier: MIT
"""An agent's `/metrics`, from what its process without rights knows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

from configtron.fleet.transport.applier_link import StandingReport
from configtron.model.exposition import AGENT_METRICS, CONTENT_TYPE, Samples, exposition
from configtron.service.fleet.agent_core import AgentCore
from configtron.service.text_listener import ServedText

# Variable of the process's environment: HOST:PORT, "" for none.
METRICS = "CONFIGTRON_METRICS"


class AgentMetrics:
    """The figures of one agent. The agent's loop calls `note`, which replaces the figures and never changes them: a
    listener's thread reads them for the text. standing: the applier's latest figures."""

    def __init__(self) -> None:
        self.standing = StandingReport(None, None, None)
        self._samples: dict[str, Samples] = {}
        self._applied: tuple[float, int] | None = None
        self._asked_s = 0.0

    def texts(self) -> dict[str, ServedText]:
        """Return the texts by path."""
        return {"/metrics": ServedText(CONTENT_TYPE, lambda: exposition(AGENT_METRICS, self._samples))}

    def asked(self) -> None:
        """Note that a document was handed to the applier."""
        self._asked_s = time.monotonic()

    def applied(self, refused: int) -> None:
        """Note that the applier answered, and how many entries it left out."""
        self._applied = time.monotonic() - self._asked_s, refused

    def note(self, core: AgentCore, loads: Callable[[], Counter[str]] | None) -> None:
        """Take the present figures. loads: counts page loads by what became of them; None: none are taken."""
        session = core.session
        found: dict[str, Samples] = {
            "agent_map_term": {(): float(session.held[0])},
            "agent_map_version": {(): float(session.held[1])},
            "agent_frozen": {(): float(bool(session.frozen))},
            "agent_spool_rows": {(): float(core.spool.waiting)},
            "agent_spool_dropped_total": {(): float(core.spool.dropped)},
        }
        if (silence_s := session.silence_s(time.monotonic())) is not None:
            found["agent_manager_heard_seconds"] = {(): silence_s}
        if self._applied is not None:
            found["agent_apply_seconds"] = {(): self._applied[0]}
            found["agent_entries_refused"] = {(): float(self._applied[1])}
        found |= self._applier_samples()
        if loads is not None:
            found |= outcome_samples(loads=loads())
        self._samples = found

    def _applier_samples(self) -> dict[str, Samples]:
        """Return the applier's figures that are known."""
        now = self.standing
        found: dict[str, Samples] = {}
        if now.valid_s is not None and now.lease_s is not None:
            found = {"agent_map_valid_seconds": {(): now.valid_s}, "agent_lease_seconds": {(): now.lease_s}}
        if now.records is not None:
            found |= outcome_samples(now.records)
        return found


def outcome_samples(records: tuple[int, ...] = (), loads: Mapping[str, int] | None = None) -> dict[str, Samples]:
    """Return the samples of outcomes. records: as of `RootReader.records`; loads: page loads by what became of them."""
    kinds = zip(("open", "close", "lost", "line"), records, strict=False)
    return {"agent_records_total": {(kind,): float(number) for kind, number in kinds},
            "agent_loads_total": {(name,): float(number) for name, number in (loads or {}).items()}}  # fmt: skip
