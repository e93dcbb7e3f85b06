# SPDX-License-Identifier: MIT
"""What an applier needs of the host: rules in force under a lease, by the driver and the journal or in a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from configtron.model.draw import Mix, Plan
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Rules
from configtron.service.fleet.map_journal import MapJournal


class Enforcement(MapJournal, Protocol):
    """What puts rules in force and takes them back when their lease ends, whatever becomes of this process."""

    @property
    def draws(self) -> bool:
        """Whether the kernel draws: then prefixes point to classes, and plans are turned."""

    def barred(self, profile: Profile) -> str:
        """Return why a profile may not be in force here, in one line; ""."""

    def begin(self, rules: Rules, lease_s: float, ports: tuple[int, ...]) -> None:
        """Put all of these rules in force for connections to these local ports, in place of what this applier had.

        Errors: `ConfigtronError`, also where a driver cannot select them.
        """

    def change(self, changes: Changes, target: Rules) -> None:
        """Put changes in force that lead to `target`. Errors: `ConfigtronError`, with everything as before."""

    def turn(self, plan: Plan, mixes: Mapping[str, Mix]) -> None:
        """Load a plan and put it in force, where the kernel draws. Errors: `ConfigtronError`."""

    def renew(self, lease_s: float) -> None:
        """Let the lease last that long from now. Errors: `ConfigtronError` where it has ended."""

    def foreign(self) -> str:
        """Return what another program changed since the last call, in one line; ""."""

    def gone(self) -> bool:
        """Return whether nothing of ours is in force any more in a place that another program changed."""

    def frozen(self) -> str:
        """Return what another program had changed, until the operator unfreezes the place; ""."""
