# SPDX-License-Identifier: MIT
"""Server pools: lead the clients of each prefix to a pool of servers that is set up as their profile asks.

The kernel does not decide the version of HTTP and its SETTINGS. The server in front selects them: it reads a map from
prefixes to pools (`configtron/tune/router`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from configtron.db.read_only import read_only
from configtron.tune import router
from configtron.tune.pools import EXAMPLES, Routing, map_text, pool_of, routing
from configtron.tune.rules import check


@dataclass(frozen=True, slots=True)
class FrontServer:
    """The server in front and its pools.

    name      a row of `configtron.tune.router.SERVERS`
    pools     each as its servers are set up: NAME or NAME:KNOB=VALUE,...
    default   the pool of all other clients; "": the first
    config    its main configuration file; check, reload: its commands; pid_file: its process; "": as packaged
    """

    name: str
    pools: tuple[str, ...] = ()
    default: str = ""
    config: str = ""
    check: str = ""
    reload: str = ""
    pid_file: str = ""

    def installed(self) -> router.Server:
        """Return its commands. Errors: `Missing` where it is not installed, `BadInput` for text that is no command."""
        return router.server(
            self.name, config=self.config, check=self.check, reload=self.reload, pid_file=self.pid_file
        )


def example_config(front: FrontServer, file: str) -> str:
    """Return how the server's configuration uses the map in a file."""
    first = pool_of(front.pools[0]).name if front.pools else "first"
    words = router.example_words() | {"map": file, "pool": front.default or first}
    return EXAMPLES[front.name].format(**words)


def pool_map(database: Path, front: FrontServer) -> tuple[Routing, str]:
    """Return which prefix goes to which pool, and the map as the server reads it. Errors: `BadInput`."""
    wanted = read_only(database, lambda journal: check(journal.wanted()))
    routed = routing(wanted, [pool_of(each) for each in front.pools], front.default)
    return routed, map_text(front.name, routed)


def publish_map(database: Path, front: FrontServer, file: Path) -> tuple[Routing, bool]:
    """Write the map, let the server check it and reload; return the routing and whether anything changed.

    Errors: `BadInput`, `Missing`; `Refused` where the server finds fault, then the old map is back.
    """
    at = front.installed()
    routed, text = pool_map(database, front)
    return routed, router.publish(at, file.absolute(), text)


def rollback_map(front: FrontServer, file: Path) -> None:
    """Exchange the map with the one before it. Errors: as `publish_map`."""
    router.rollback(front.installed(), file.absolute())
