# SPDX-License-Identifier: MIT
"""Shards that worker processes or guests of the lab perform, each in its folder; their results are stored here.

A worker (`probe/wire/worker.py`) writes a journal and packets. The journals are read while they grow, from their
beginning, so a resumed run stores what an interrupted one had not. Worker processes of this host share the rates and
addresses of one table (`probe/wire/shared_spacing.py`) and have sockets and source ports of their own. A worker that is
killed loses what was in flight; the others go on to their ends, and the run is left for `--resume`. If this process is
killed, the kernel kills its workers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from math import inf
from pathlib import Path
from typing import Protocol, TypeVar

import configtron
from configtron.linux.clock import SteadyClock
from configtron.model import errors
from configtron.model.records import Result, result_from_json
from configtron.probe.wire.journal import JOURNAL, cut_torn_line, ended
from configtron.probe.wire.shard import SHARD, Shard
from configtron.probe.wire.shared_spacing import SharedLimits, SharedSpacing
from configtron.probe.wire.worker import SharedOrders
from configtron.service.campaign.run_options import ProbeOptions
from configtron.service.campaign.tally import RunTally

# How often journals are read and workers are looked after, s.
LOOK_S = 0.2
# A worker that is asked to end resets its connections and writes what it has; one that does not is killed, s.
END_S = 10.0
READ_BYTES = 1 << 20
KINDS = {
    kind.code: kind for kind in (errors.BadInput, errors.Missing, errors.Refused, errors.Unwritten, errors.Diverged)
}


class WorkersKilled(Exception):
    """Workers were killed; the others have ended their shards. The text names them."""


class Worker(Protocol):
    """What performs a shard: `subprocess.Popen`, or a guest."""

    def poll(self) -> int | None:
        """Return None while it runs, then its exit code."""

    def wait(self, timeout: float | None = None, /) -> int:
        """Wait for its end. Errors: `subprocess.TimeoutExpired`."""

    def kill(self) -> None:
        """End it at once."""


AnyWorker = TypeVar("AnyWorker", bound=Worker)


def run_shards(
    folders: Sequence[Path],
    start: Callable[[int], AnyWorker],
    ask_to_end: Callable[[AnyWorker], None],
    on_end: Callable[[int, AnyWorker], None],
    tally: RunTally,
    until: float = inf,
) -> None:
    """Start a worker for each folder, and store and count what they write until all have ended, or the time is up.

    `on_end` is called with each worker that ended by itself, and its number. Errors: those of `on_end`,
    `KeyboardInterrupt` if cancelled; all workers have ended then, and what they wrote is stored.
    """
    journals, workers = [JournalReader(folder) for folder in folders], list[AnyWorker]()
    try:
        for number in range(len(folders)):
            workers.append(start(number))
        running = dict(enumerate(workers))
        while running and time.monotonic() <= until:
            time.sleep(LOOK_S)
            over = [number for number, worker in running.items() if worker.poll() is not None]
            _store(journals, tally)
            tally.keep([])
            for number in over:
                on_end(number, running.pop(number))
    finally:
        # All are asked before any is waited for.
        for worker in workers:
            if worker.poll() is None:
                ask_to_end(worker)
        for worker in workers:
            try:
                with suppress(subprocess.TimeoutExpired):
                    worker.wait(END_S)
            finally:
                worker.kill()
                worker.wait()
        _store(journals, tally)


def _store(journals: Sequence[JournalReader], tally: RunTally) -> None:
    for journal in journals:
        for batch in journal.fresh():
            tally.store(batch)
    tally.ended(sum(ended(journal.folder) for journal in journals))


class JournalReader:
    """A journal that is read while it grows."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._path = folder, folder / JOURNAL
        cut_torn_line(self._path)
        self._at, self._rest = 0, b""

    def fresh(self) -> Iterator[list[Result]]:
        """Yield batches of results that came since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            while data := file.read(READ_BYTES):
                self._at += len(data)
                *lines, self._rest = (self._rest + data).split(b"\n")
                if lines:
                    yield [result_from_json(line.decode()) for line in lines]


def perform_by_processes(options: ProbeOptions, shards: Sequence[Shard], folder: Path, tally: RunTally) -> None:
    """Perform the shards, each in a process. Errors: those of `run_shards`, `ConfigtronError` of a worker,
    `WorkersKilled`."""
    limits = SharedLimits(options.rate_per_s, options.host_rate_per_s, options.network_rate_per_s, len(shards))
    clock, until_s = SteadyClock(), time.monotonic() + options.max_runtime_s if options.max_runtime_s else 0.0
    opt_outs = tuple(str(path.resolve()) for path in options.opt_out_files)
    killed: list[str] = []
    with closing(SharedSpacing.made(limits)) as table:

        def start(number: int) -> subprocess.Popen[str]:
            orders = SharedOrders(os.getpid(), number, table.descriptor, limits, clock.base_ns, until_s, opt_outs)
            return _process(folder / shards[number].name, shards[number], orders)

        def on_end(number: int, worker: subprocess.Popen[str]) -> None:
            table.bury(number, clock.now_ns() / 1e9)
            if worker.returncode < 0:
                killed.append(f"worker {number + 1} was killed by signal {-worker.returncode}")
            else:
                _check(number, worker)

        folders = [folder / shard.name for shard in shards]
        run_shards(folders, start, subprocess.Popen.terminate, on_end, tally)
    if killed:
        raise WorkersKilled("; ".join(killed))


def _process(folder: Path, shard: Shard, orders: SharedOrders) -> subprocess.Popen[str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SHARD).write_text(shard.to_json())
    # -P: import nothing from the working directory.
    path = str(Path(configtron.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([path, *filter(None, sys.path[1:])])}
    command = [sys.executable, "-P", "-m", "configtron.probe.wire.worker", str(folder.resolve()), orders.to_json()]
    # Ctrl-C is meant for all processes of a terminal; the workers wait for their parent's word.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, pass_fds=[orders.descriptor],
            env=environment,
        )  # fmt: skip
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _check(number: int, worker: subprocess.Popen[str]) -> None:
    """Raise what a worker ended with."""
    assert worker.stdout is not None
    text = worker.stdout.read().strip() or f"worker {number + 1} failed with exit code {worker.returncode}"
    if worker.returncode == errors.INTERRUPTED:
        raise KeyboardInterrupt
    if worker.returncode:
        raise KINDS.get(worker.returncode, errors.ConfigtronError)(text)
