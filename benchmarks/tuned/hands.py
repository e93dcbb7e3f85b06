"""Hands that tune the server: the product's verb with one driver, and one that knows only gateways."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from benchmarks.tuned.place import GATEWAY4, Client


class Step(NamedTuple):
    """One command: what was run, all that it printed, its exit code."""

    command: str
    said: str
    code: int


class Hand(Protocol):
    """Who tunes. Every step is told; none raises because of what its command said."""

    def plan(self) -> Step:
        """Say what would be done, and do nothing."""

    def apply(self) -> Step:
        """Put the rules in force."""

    def verify(self) -> Step:
        """Say whether they are in force."""

    def rollback(self) -> Step:
        """Put everything back."""


def run(words: Sequence[str]) -> Step:
    """A command and all it printed."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return Step(" ".join(words), done.stdout, done.returncode)


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


class Routes:
    """ip route."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self.clients = [client for client in clients if client.congestion]

    def plan(self) -> Step:
        return run(["true"])

    def apply(self) -> Step:
        for client in self.clients:
            family, gateway = ("-6", "2001:db8:9::1") if ":" in client.prefix else ("-4", GATEWAY4)
            step = run(
                f"ip {family} route replace {client.prefix} via {gateway} dev eth0 initcwnd {client.initcwnd}"
                f" congctl {client.congestion}".split()
            )
        return step

    def verify(self) -> Step:
        return run(["ip", "route"])

    def rollback(self) -> Step:
        for client in self.clients:
            family = "-6" if ":" in client.prefix else "-4"
            step = run(f"ip {family} route del {client.prefix}".split())
        return step
