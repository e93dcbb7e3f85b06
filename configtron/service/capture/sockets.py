# SPDX-License-Identifier: MIT
"""Watch this host's TCP connections as the kernel knows them (tcp_info): the contexts of their clients."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configtron.fingerprint.capture.diag import Endings, established
from configtron.fingerprint.capture.surroundings import Surroundings
from configtron.fingerprint.features import free_rate, of_socket, plain, wanted
from configtron.fingerprint.tcp_info import Socket
from configtron.model.bounds import check_number, check_texts
from configtron.model.records import canonical
from configtron.service.capture.watching import ContextWatch, Outputs, WatchResult, watching

# The kernel reports an ending from a work queue; on a busy machine some come after the watch is over.
LATE_S = 0.25
# s between two reports of open connections, at least.
LEAST_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """The options of a watch of sockets.

    ports       only connections at these local ports; empty: all
    follow      report each connection when it ends, and open ones every `every_s`; otherwise open ones once
    span_s      follow for so many seconds; None: until cancelled
    access_log  a web server's log (combined format), for device classes
    databases   MaxMind-format files, for ASN and country
    """

    ports: tuple[int, ...] = ()
    follow: bool = False
    every_s: float = 10.0
    span_s: float | None = None
    access_log: Path | None = None
    databases: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        """Check texts and ranges. Errors: `BadInput`."""
        check_texts(self)
        check_number("every_s", self.every_s, LEAST_EVERY_S)
        check_number("span_s", self.span_s, 0, beside=", or None until it is cancelled", absent=True)
        for port in self.ports:
            check_number("ports", port, 1, 65535, whole=True)


def watch_sockets(options: SocketOptions, to: Outputs) -> WatchResult:
    """Report this host's connections once, or follow them. Nothing is sent, and no root is needed."""
    surroundings = Surroundings(options.databases, options.access_log)
    follow, span_s = options.follow, options.span_s
    config = canonical({"ports": list(options.ports), "every_s": options.every_s if follow or span_s else 0})
    # Endings are subscribed to before the watch begins, so no connection falls between them.
    endings = Endings() if follow or span_s is not None else None
    with watching("socket", "sockets", span_s, config, to) as watch:
        poller = SocketPoller(watch, surroundings, frozenset(options.ports))
        if endings is not None:
            with endings:
                poller.follow(endings, options.every_s)
        else:
            poller.report_open()
        return watch.close()


class SocketPoller:
    """Ask the kernel for connections, report them."""

    def __init__(self, watch: ContextWatch, surroundings: Surroundings, ports: frozenset[int]) -> None:
        self._watch, self._surroundings, self._ports = watch, surroundings, ports
        self._best: dict[tuple[bytes, int, bytes, int], int] = {}

    def report_open(self) -> int:
        """Report all that are open; return how many."""
        self._surroundings.read()
        return self._report(established())

    def follow(self, endings: Endings, every_s: float) -> None:
        """Report each that ends, and the open ones now and then, until the watch is over."""
        watch = self._watch
        due_s, going_on = 0.0, 0
        while not watch.over():
            if watch.elapsed_s >= due_s:
                due_s, going_on = watch.elapsed_s + every_s, self.report_open()
            self._report(endings.heard(watch.wait_s(due_s)))
            watch.counts["endings-lost"] = endings.lost
            watch.report(going_on)
        end = time.monotonic() + LATE_S
        while (left_s := end - time.monotonic()) > 0:
            self._report(endings.heard(left_s))
        self.report_open()

    def _report(self, sockets: Sequence[Socket]) -> int:
        now_ns, about = time.time_ns(), self._surroundings.about
        seen = [of_socket(self._with_best(one), now_ns, about(plain(one.remote))) for one in sockets]
        chosen = wanted(seen, self._ports)
        self._watch.counts["connections"] += len(chosen)
        self._watch.keep(chosen)
        return len(chosen)

    def _with_best(self, one: Socket) -> Socket:
        """Return the socket with the largest rate that was free before; a larger one is kept until it ends."""
        ends = one.local, one.local_port, one.remote, one.remote_port
        known = one._replace(best_rate=self._best.pop(ends, 0))
        best = free_rate(known)
        if best and not one.closed:
            self._best[ends] = best
        return known
