# SPDX-License-Identifier: MIT
"""Hands that tune the server: the product's verb with one driver, and one that knows only gateways."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.tuned.place import GATEWAY4, Client
from tests.support.guest_module import MODULE


class Step(NamedTuple):
    """One command: what was run, all that it printed, its exit code."""

    command: str
    output: str
    code: int


def run(words: Sequence[str], stdin: str = "") -> Step:
    """Run a command with this input; return all it printed."""
    done = subprocess.run(words, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return Step(" ".join(words), done.stdout, done.returncode)


# Longer than a scene takes on any clock.
LEASE_S = 600.0


class ByGateway:
    """One congestion control for each next hop, as a tuner that keys its choice by the gateway has it.

    bpftune's tcp_conn_tuner remembers its choice by the gateway of the connection's route. In the kernel's own words
    that is a metric of the route to that gateway; behind it, every client gets the same.
    """

    def __init__(self, congestion: str) -> None:
        self.congestion = congestion

    def apply(self) -> Step:
        """The choice for the only gateway there is."""
        return run(f"ip route change default via {GATEWAY4} congctl {self.congestion}".split())

    def rollback(self) -> Step:
        """No choice."""
        return run(f"ip route change default via {GATEWAY4}".split())


class Verb:
    """`configtron tune` with one driver, under a lease long enough for a scene.

    The guard would refuse bbr as unfair to cubic; here no other flow is on the links.
    """

    def __init__(self, driver: str) -> None:
        self.driver = driver

    def ready(self) -> list[Step]:
        """The module is loaded for its driver; the others need nothing."""
        return [run(["insmod", str(MODULE)])] if self.driver == "kmod" else []

    def plan(self) -> Step:
        """What is due, and why."""
        return configtron("tune", "--driver", self.driver, "plan", "--allow-unfair")

    def apply(self) -> Step:
        """All of it, read back, under a lease."""
        return configtron("tune", "--driver", self.driver, "apply", "--allow-unfair", "--lease", f"{LEASE_S:g}")

    def verify(self) -> Step:
        """Read back once more."""
        return configtron("tune", "--driver", self.driver, "verify")

    def rollback(self) -> Step:
        """Back to the untouched stack."""
        return configtron("tune", "--driver", self.driver, "rollback")

    def over(self) -> list[Step]:
        """The kernel lets the module go only when no namespace and no socket holds it."""
        return [run(["rmmod", MODULE.stem])] if self.driver == "kmod" else []


def wished(clients: Sequence[Client]) -> list[Step]:
    """Store the clients' profiles and prefixes; nothing is in force by that."""
    steps = []
    for client in clients:
        if client.congestion:
            setting = (f"tcp_congestion_control={client.congestion}", f"initcwnd={client.initcwnd}")
            steps.append(configtron("tune", "profile", "set", client.name, *setting))
    lines = "".join(f"{client.prefix} {client.name}\n" for client in clients if client.congestion)
    return [*steps, configtron("tune", "prefix", "import", "-", stdin=lines)]


def configtron(*words: str, stdin: str = "") -> Step:
    """The product's command, as it is here."""
    step = run([sys.executable, "-m", "configtron", *words], stdin)
    return step._replace(command=" ".join(("configtron", *words)))
