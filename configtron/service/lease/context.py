# SPDX-License-Identifier: MIT
"""The host and the database that a lease works with: journal, drivers, clock, boot, network namespace."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from configtron.db.tuning import Tuning
from configtron.linux.netns import is_absent
from configtron.model.protocols import Driver
from configtron.model.tuning import Place
from configtron.service.lease.boot_name import this_boot
from configtron.tune.drivers import load


@dataclass(frozen=True)
class LeaseContext:
    """An open database and the host around it.

    boot       name of this boot: another one after a reboot
    namespace  the network namespace of this process: "net:[4026531840]"
    load       makes the driver of a name for a place
    """

    journal: Tuning
    boot: str
    namespace: str
    load: Callable[[str, Place], Driver] = load

    def now_s(self) -> float:
        """Return seconds since boot, suspension included: a clock that cannot be set."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def namespace_of(self, place: Place) -> str:
        """Return the namespace that the journal records for a place without a named one."""
        return "" if place.netns else self.namespace


def context_of(journal: Tuning) -> LeaseContext:
    """Return the context of an open database on this host."""
    return LeaseContext(journal, this_boot(), os.readlink("/proc/self/ns/net"))


def is_gone(place: Place) -> bool:
    """Return whether the namespace of a place no longer exists: its settings ended with it."""
    return "/" not in place.netns and is_absent(place.netns)
