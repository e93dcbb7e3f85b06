# SPDX-License-Identifier: MIT
"""`probe run --dry-run`: the targets of a run; nothing is sent, and nothing stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from configtron.model.records import Json
from configtron.service.campaign.inputs import blocklist_of, calls_each
from configtron.service.campaign.run_options import ProbeOptions
from configtron.service.campaign.running import planned
from configtron.service.progress import Progress, unheard


@dataclass(frozen=True, slots=True)
class PlannedTargets:
    """How many targets (times vantages) a run would probe, how many are blocked, from where, and how fast.

    calls_each  about how many connections to each target
    rate_per_s  connections started per second, at most; 0: no limit
    """

    total: int
    blocked: int
    vantages: tuple[str, ...]
    calls_each: int
    rate_per_s: float

    @property
    def text(self) -> str:
        """Return it as a sentence."""
        pace = f"at most {self.rate_per_s:g} starts per second" if self.rate_per_s else "no rate limit"
        return (
            f"{self.total - self.blocked} of {self.total} targets would be probed ({self.blocked} blocked), from"
            f" {', '.join(self.vantages)}; about {self.calls_each} connections each, {pace}; nothing was sent"
        )


def planned_targets(
    options: ProbeOptions, write: Callable[[dict[str, Json]], object], progress: Progress = unheard
) -> PlannedTargets:
    """Hand each target to a writer, with the reason where it is blocked; return the sum. Errors: `BadInput`."""
    with planned(options, progress) as layout:
        blocklist, blocked = blocklist_of(options), 0
        for target in layout.targets():
            why = blocklist.host(target.host) or (blocklist.address(target.address) if target.address else "")
            blocked += bool(why)
            form: dict[str, Json] = {"host": target.host, "port": target.port, "path": target.path}
            write({**form, "blocked": why} if why else form)
        names = tuple(vantage.name for vantage in layout.vantages)
        return PlannedTargets(layout.size, blocked, names, calls_each(options), options.rate_per_s)
