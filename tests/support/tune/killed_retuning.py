# SPDX-License-Identifier: MIT
"""Profiles for open connections of a prefix, and a process that is killed while it re-tunes them.

    python -m tests.support.tune.killed_retuning DATABASE NAMESPACE journaled|set

`journaled`: between the journal's rows and the first socket; `set`: once the sockets of those rows are set.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_network
from pathlib import Path

from configtron.db.retuned import RetunedPlace
from configtron.db.tuning import Tuning
from configtron.model.nouns import Profile
from configtron.model.socket_changes import SocketChange
from configtron.model.tuning import Place
from configtron.service.lease.context import context_of
from configtron.service.lease.retuning import OpenRetuner, SocketTarget
from configtron.tune.drivers.pidfd_options import OpenClient
from configtron.tune.drivers.route.route_driver import RouteDriver

NEAR = Profile("near", (("tcp_congestion_control", "reno"), ("window_clamp", 20_000)))
FAR = Profile("far", (("tcp_congestion_control", "reno"), ("notsent_lowat", 7_000)))
PROFILES = (NEAR, FAR)


def of(prefix: str, profile: Profile, former: str = "a", now: str = "b") -> Callable[..., Mapping[int, SocketTarget]]:
    """Return a choice: all connections of a prefix get that profile."""

    def choose(found: Sequence[OpenClient]) -> Mapping[int, SocketTarget]:
        within = (one for one in found if one.address.version == ip_network(prefix).version)
        return {one.cookie: SocketTarget(prefix, former, now, profile)
                for one in within if one.address in ip_network(prefix)}  # fmt: skip

    return choose


class KilledOnceSet(RouteDriver):
    """Records are marked after the sockets of a batch are set."""

    def mark_moved(self, sockets: Mapping[int, int]) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class KilledOnceJournaled(Tuning):
    """Its process ends with the rows of the first batch."""

    def put_retuned(self, at: RetunedPlace, changes: Iterable[SocketChange]) -> None:
        super().put_retuned(at, changes)
        os.kill(os.getpid(), signal.SIGKILL)


def main(database: Path, netns: str, when: str) -> None:
    place = Place(netns=netns)
    with (KilledOnceJournaled if when == "journaled" else Tuning)(database) as journal:
        OpenRetuner(context_of(journal), KilledOnceSet(place), place).retune(of("10.1.0.0/16", FAR), PROFILES)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
