# SPDX-License-Identifier: MIT
"""A run in several processes: a worker performs each shard, and all share the rates and addresses of one table.

Each worker is a fresh Python (`worker_main.py`) with sockets and source ports of its own, and stores its results by
itself; here they are started, counted and ended. A worker that is killed loses what was in flight; the others go on to
their ends, and the run is left for `--resume`. If this process is killed, the kernel kills the workers.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import configtron
from configtron.linux.clock import SteadyClock
from configtron.model import errors
from configtron.probe.wire.journal import ended
from configtron.probe.wire.shard import Shard
from configtron.probe.wire.shared_spacing import SharedLimits, SharedSpacing
from configtron.service.campaign.run_options import ProbeOptions
from configtron.service.campaign.tally import RunTally
from configtron.service.campaign.worker_forms import WorkerCounts, WorkerFault, WorkerOrders, form_of

MODULE = "configtron.service.campaign.worker_main"
# Look for a cancellation at least so often, s.
LOOK_S = 0.2
# A worker that is asked to end resets its connections and writes what it has; one that does not is killed, s.
END_S = 10.0
KINDS = {
    kind.code: kind for kind in (errors.BadInput, errors.Missing, errors.Refused, errors.Unwritten, errors.Diverged)
}


class WorkersKilled(Exception):
    """Workers were killed; the others have ended their shards. The text names them."""


class ResultStore(NamedTuple):
    """Where results are stored: the run's number, the database."""

    run: int
    db: Path


def perform_together(
    options: ProbeOptions, shards: Sequence[Shard], folder: Path, kept: ResultStore, tally: RunTally
) -> None:
    """Perform the shards, each in a process.

    Errors: `ConfigtronError` of a worker, `KeyboardInterrupt` if interrupted or cancelled, `WorkersKilled`; all workers
    have ended then.
    """
    limits = SharedLimits(options.rate_per_s, options.host_rate_per_s, options.network_rate_per_s, len(shards))
    clock, until_s = SteadyClock(), time.monotonic() + options.max_runtime_s if options.max_runtime_s else 0.0
    with ExitStack() as stack:
        table = SharedSpacing.made(limits)
        stack.callback(table.close)
        opt_outs = tuple(str(path.resolve()) for path in options.opt_out_files)
        workers = []
        for number, shard in enumerate(shards):
            orders = WorkerOrders(str(folder.resolve()), kept.run, str(kept.db.resolve()), number, os.getpid(),
                            table.descriptor, limits, clock.base_ns, until_s, opt_outs)  # fmt: skip
            workers.append(_Worker(orders, ended(folder / shard.name)))
            stack.callback(workers[-1].close)
        try:
            _watch(workers, table, clock, tally)
        finally:
            # All are asked before any is waited for.
            for worker in workers:
                worker.ask_to_end()


def _watch(workers: Sequence[_Worker], table: SharedSpacing, clock: SteadyClock, tally: RunTally) -> None:
    """Count what workers report until all have ended."""
    killed: list[str] = []
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.reports, selectors.EVENT_READ, worker)
        while selector.get_map():
            for key, _ in selector.select(LOOK_S):
                worker = key.data
                if worker.read():
                    continue
                selector.unregister(worker.reports)
                worker.wait()
                table.bury(worker.number, clock.now_ns() / 1e9)
                killed += worker.outcome()
            tally.of_workers(*(sum(column) for column in zip(*(worker.counts for worker in workers), strict=True)))
    if killed:
        raise WorkersKilled("; ".join(killed))


class _Worker:
    """A worker process, as its parent sees it."""

    def __init__(self, orders: WorkerOrders, ended: int) -> None:
        self.number, self.counts, self._fault = orders.worker, WorkerCounts(ended=ended), WorkerFault(0, "")
        self._rest = b""
        # Ctrl-C is meant for all processes of a terminal; the workers wait for their parent's word.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        # -P: import nothing from the working directory.
        path = str(Path(configtron.__file__).parent.parent)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([path, *filter(None, sys.path[1:])])}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            pass_fds=[orders.descriptor], env=environment,
        )  # fmt: skip
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert self._process.stdin is not None and self._process.stdout is not None
        self.reports = self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.write(orders.to_json().encode())
            self._process.stdin.close()

    def read(self) -> bool:
        """Take in what the worker has written; False if it has ended."""
        data = os.read(self.reports.fileno(), 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            form = form_of(line)
            if isinstance(form, WorkerFault):
                self._fault = form
            else:
                self.counts = form
        return bool(data)

    def wait(self) -> None:
        """Wait for the end of the process."""
        self._process.wait()

    def outcome(self) -> list[str]:
        """Return how the worker was killed, if it was. Errors: its own."""
        code = self._process.wait()
        if code < 0:
            return [f"worker {self.number + 1} was killed by signal {-code}"]
        if code == errors.INTERRUPTED:
            raise KeyboardInterrupt
        if code:
            text = self._fault.error or f"worker {self.number + 1} failed with exit code {code}"
            raise KINDS.get(self._fault.code, errors.ConfigtronError)(text)
        return []

    def ask_to_end(self) -> None:
        """Ask the worker to keep what it has and end, if it still runs."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Wait for the end of the worker, which was asked to; a worker that does not end is killed."""
        self.ask_to_end()
        try:
            # What it still reports fits into the pipe.
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
        finally:
            self._process.kill()
            self._process.wait()
            self.reports.close()
