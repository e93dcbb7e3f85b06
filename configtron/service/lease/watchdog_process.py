# SPDX-License-Identifier: MIT
"""Start, find and dismiss the watchdog process of an apply transaction; the process runs `watchdog.py`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import configtron
from configtron.model.errors import Missing
from configtron.service.lease.context import LeaseContext
from configtron.service.lease.processes import alive, end, ended, named
from configtron.tune.journal import Transaction

MODULE = "configtron.service.lease.watchdog"
# s between two looks at the journal: a quarter of the second within which others are to see the end of a lease.
POLL_S = 0.25
# A watchdog writes this line once it watches.
READY = b"."


def start(context: LeaseContext, number: int) -> str:
    """Start a transaction's watchdog and wait until it watches; return its process. Errors: `Missing`."""
    # -P: import nothing from the working directory, for this may be root.
    command = [sys.executable, "-P", "-m", MODULE, str(context.journal.path.resolve()), str(number)]
    # By this path another process finds this same configtron.
    path = filter(None, (str(Path(configtron.__file__).parent.parent), os.environ.get("PYTHONPATH")))
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
    )  # fmt: skip
    assert process.stdout is not None
    watchdog = named(process.pid)
    context.journal.set_watchdog(number, watchdog)
    with process.stdout as out:
        if out.read(1) != READY:
            tried = " ".join(command)
            raise Missing(
                f"transaction {number}: its watchdog did not start; nothing was written. Try by hand: {tried}"
            )
    # It outlives this process, which therefore never waits for its end.
    process.returncode = 0
    return watchdog


def is_watched(transaction: Transaction) -> bool:
    """Return whether the watchdog of a transaction is alive."""
    return alive(transaction.watchdog)


def dismiss(transaction: Transaction) -> None:
    """Wait for the watchdog of a transaction that is over; terminate one that does not notice."""
    watchdog = transaction.watchdog
    if watchdog and watchdog.split()[0] != str(os.getpid()) and not ended(watchdog, 4 * POLL_S):
        end(watchdog, signal.SIGTERM)
        ended(watchdog, 4 * POLL_S)
