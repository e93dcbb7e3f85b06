# SPDX-License-Identifier: MIT
"""The program of one worker process of a run (`workers.py`): perform one shard, store its results, report counts.

    python3 -m configtron.service.campaign.worker_main

Its orders come by standard input. Each line on standard output is a JSON object: the counts so far, or why it ends.
SIGTERM ends it: it resets open connections, keeps the results, and exits with code 130. SIGINT is blocked: on Ctrl-C
the parent sends SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType

from configtron.db.store import Store
from configtron.linux.clock import SteadyClock
from configtron.linux.parent import end_with_parent
from configtron.model.errors import CANNOT_WRITE, DONE, INTERRUPTED, UNWRITTEN, ConfigtronError, cannot_write
from configtron.probe.wire.shard import Beside, perform
from configtron.probe.wire.shared_spacing import SharedSpacing
from configtron.service.campaign.layout import load_layout
from configtron.service.campaign.opt_out import OptOut
from configtron.service.campaign.tally import ResultBatches, RunProgress, RunTally
from configtron.service.campaign.worker_forms import WorkerCounts, WorkerFault, WorkerOrders, line_of
from configtron.service.progress import Event

# WorkerCounts are reported so often, s.
REPORT_S = 0.2


def main(orders: WorkerOrders) -> int:
    """Perform the shard; return the exit code."""
    try:
        end_with_parent(orders.parent)
        _perform(orders)
        return DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except ConfigtronError as error:
        _say(WorkerFault(error.code, str(error)))
        return error.code
    except OSError as error:
        if error.errno not in CANNOT_WRITE:
            raise
        _say(WorkerFault(UNWRITTEN, str(cannot_write(error.filename or orders.folder, error))))
        return UNWRITTEN


def _perform(orders: WorkerOrders) -> None:
    folder, spacing = Path(orders.folder), SharedSpacing.joined(orders.descriptor, orders.limits, orders.worker)
    shard = load_layout(folder, orders.run)[0][orders.worker]
    with Store(Path(orders.db)) as store:
        progress = _WorkerProgress()
        keeping = ResultBatches(RunTally(0, store, orders.run, progress).keep)
        try:
            perform(
                shard,
                folder / shard.name,
                keeping.take,
                progress.ended,
                lambda: not orders.until_s or time.monotonic() < orders.until_s,
                OptOut([Path(path) for path in orders.opt_out_files]).why,
                Beside(spacing, SteadyClock(base_ns=orders.base_ns)),
            )
        finally:
            keeping.flush()
            progress.report()


class _WorkerProgress:
    """WorkerCounts of this worker, reported every `REPORT_S`."""

    def __init__(self) -> None:
        self._calls = self._failed = self._ended = 0
        self._reported_s = 0.0

    def __call__(self, event: Event) -> None:
        assert isinstance(event, RunProgress)
        self._calls, self._failed = event.calls, event.failed
        self._report_soon()

    def ended(self, sessions: int) -> None:
        """So many sessions have ended."""
        self._ended = sessions
        self._report_soon()

    def report(self) -> None:
        """Report now."""
        self._reported_s = time.monotonic()
        _say(WorkerCounts(self._calls, self._failed, self._ended))

    def _report_soon(self) -> None:
        if time.monotonic() - self._reported_s >= REPORT_S:
            self.report()


def _say(form: WorkerCounts | WorkerFault) -> None:
    sys.stdout.write(line_of(form))
    sys.stdout.flush()


def _interrupt(signum: int, frame: FrameType | None) -> None:
    # Once: what it interrupts may be the end itself.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(main(WorkerOrders.from_json(sys.stdin.read())))
