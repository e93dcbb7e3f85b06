# SPDX-License-Identifier: MIT
"""Page outcomes of this machine in a thread: endpoint, log socket, and connections by inet_diag."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from configtron.intake.pageloads.beacon_join import SETTLE_NS
from configtron.intake.pageloads.intake import IntakeOptions
from configtron.intake.pageloads.plan_book import DatedPlan, PlanBook, PrefixDraw
from configtron.model.draw import Key, Mix, Plan
from configtron.model.fleet import OutcomeRow
from configtron.service.outcomes.local_outcomes import LocalOutcomes
from configtron.service.outcomes.root_reader import RecordSource
from configtron.service.outcomes.web_group import web_group

# An epoch of 30 years: no test is near its turn.
EPOCH_S = 10**9


def book() -> PlanBook:
    """Return a book of one plan, by which every prefix has the second of two arms."""
    plan = Plan(Key(1, 2), int(time.time()) // EPOCH_S, 2**62)
    mixes = {"all": Mix(("narrow", "wide"), (16_384, 49_152))}
    found = PlanBook(kernel_draws=False)
    found.add(DatedPlan(1, 7, EPOCH_S, plan, mixes, b"k" * 16, lambda prefix: PrefixDraw("all", 1, False, "wide")))
    return found


class RunningOutcomes:
    """What a test sees of it."""

    def __init__(self, local: LocalOutcomes, rows: list[OutcomeRow]) -> None:
        self.local, self.rows = local, rows

    @property
    def port(self) -> int:
        return self.local.pages.endpoint.port

    def counts(self) -> Counter[str]:
        return self.local.counts()

    def wait(self, until: Callable[[], bool], patience_s: float = 20.0) -> None:
        deadline = time.monotonic() + patience_s
        while not until():
            assert time.monotonic() < deadline, (self.counts(), self.rows)
            time.sleep(0.05)


@contextmanager
def running_outcomes(
    log: Path,
    source: RecordSource,
    options: IntakeOptions | None = None,
    *,
    plans: PlanBook | None = None,
    settle_ns: int = SETTLE_NS,
) -> Iterator[RunningOutcomes]:
    """Run until the block ends."""
    rows: list[OutcomeRow] = []
    loop = asyncio.new_event_loop()

    def keep(more: Sequence[OutcomeRow]) -> None:
        rows.extend(more)

    local = LocalOutcomes("web1", "boot1", source, plans or book(), keep, log, options, settle_ns, web_group())
    loop.run_until_complete(local.start(port=0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield RunningOutcomes(local, rows)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(local.stop())
        loop.close()
