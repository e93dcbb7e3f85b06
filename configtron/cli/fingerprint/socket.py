# SPDX-License-Identifier: MIT
"""`configtron fingerprint socket`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from configtron.cli.fingerprint.watching import watch_options, watching
from configtron.cli.probe.names import finite
from configtron.report.lines import opened

if TYPE_CHECKING:
    from configtron.cli.fingerprint.watching import Watch
    from configtron.fingerprint.capture.diag import Endings
    from configtron.fingerprint.capture.surroundings import Surroundings
    from configtron.fingerprint.tcp_info import Socket

# The kernel tells of an ending from a work queue; on a busy machine some come after the watch is over.
LATE_S = 0.25


@click.command(short_help="Ask the kernel what it knows of this host's connections.")
@watch_options
@click.option("--port", "ports", type=click.IntRange(1, 65535), multiple=True, metavar="PORT",
              help="Only connections at this local port; may be given several times.")  # fmt: skip
@click.option("--follow", is_flag=True, help="Go on: each connection when it ends, open ones now and then.")
@click.option("--every", "every_s", type=click.FloatRange(min=0.1), default=10.0, show_default=True,
              metavar="SECONDS", callback=finite,
              help="How often open connections are told while following.")  # fmt: skip
def socket(form: str, output_file: str, span: float | None, access_log: Path | None, places: tuple[Path, ...],
           ports: tuple[int, ...], follow: bool, every_s: float) -> int:  # fmt: skip
    """Ask the kernel what it knows of this host's TCP connections (tcp_info), as contexts of their clients.

    Smoothed and least round trip, deviation, share sent again, delivery rate, bandwidth (a lower bound where the
    application held back); with files, device, ASN and country. Contexts are kept in the database, with the client's
    prefix but not its address. With --follow or --for, the kernel also tells of every connection at the moment it ends.
    Nothing is sent, and no root is needed. Exit code 4: there was no connection.
    """
    from configtron.fingerprint.capture.diag import Endings
    from configtron.fingerprint.capture.surroundings import Surroundings
    from configtron.model.records import canonical
    from configtron.report.contexts import SightingWriter

    surroundings = Surroundings(places, access_log)
    config = canonical({"ports": list(ports), "every_s": every_s if follow or span else 0})
    # Endings are listened to before the watch begins, so no connection falls between them.
    endings = Endings() if follow or span is not None else None
    with opened(output_file) as out, watching("socket", "sockets", span, config, SightingWriter(form, out)) as watch:
        post = _Post(watch, surroundings, frozenset(ports))
        if endings is not None:
            with endings:
                post.follow(endings, every_s)
        else:
            post.look()
    return watch.code


class _Post:
    """Asks, tells."""

    def __init__(self, watch: Watch, surroundings: Surroundings, ports: frozenset[int]) -> None:
        self._watch, self._surroundings, self._ports = watch, surroundings, ports
        self._best: dict[tuple[bytes, int, bytes, int], int] = {}

    def look(self) -> int:
        """Tell all that are open; how many."""
        from configtron.fingerprint.capture.diag import established

        self._surroundings.read()
        return self._tell(established())

    def follow(self, endings: Endings, every_s: float) -> None:
        """Tell each that ends, and the open ones now and then, until the watch is over."""
        watch = self._watch
        due_s, going_on = 0.0, 0
        while not watch.over():
            if watch.elapsed_s >= due_s:
                due_s, going_on = watch.elapsed_s + every_s, self.look()
            self._tell(endings.heard(watch.wait_s(due_s)))
            watch.counts["endings-lost"] = endings.lost
            watch.progress(going_on)
        end = time.monotonic() + LATE_S
        while (left_s := end - time.monotonic()) > 0:
            self._tell(endings.heard(left_s))
        self.look()

    def _tell(self, sockets: Sequence[Socket]) -> int:
        from configtron.fingerprint.features import of_socket, plain, wanted

        now_ns, about = time.time_ns(), self._surroundings.about
        seen = [of_socket(self._with_best(one), now_ns, about(plain(one.remote))) for one in sockets]
        chosen = wanted(seen, self._ports)
        self._watch.counts["connections"] += len(chosen)
        self._watch.keep(chosen)
        return len(chosen)

    def _with_best(self, one: Socket) -> Socket:
        """The socket with the largest rate that was free before; its own, if larger, is remembered until it ends."""
        from configtron.fingerprint.features import free_rate

        ends = one.local, one.local_port, one.remote, one.remote_port
        known = one._replace(best_rate=self._best.pop(ends, 0))
        best = free_rate(known)
        if best and not one.closed:
            self._best[ends] = best
        return known
