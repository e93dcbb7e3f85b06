# SPDX-License-Identifier: MIT
"""Processes by number and start time: a number alone may have been given to somebody else meanwhile."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

# Field 22 of /proc/PID/stat is the start time (proc(5)); after the command in brackets it is the 20th.
START_FIELD = 19
# Fields 14 and 15: ticks of the processor that it used, itself and the kernel for it.
USED_FIELDS = slice(11, 13)
# How often to look whether somebody is gone.
LOOK_S = 0.02


def myself() -> str:
    """This process: "PID START"."""
    return named(os.getpid())


def named(pid: int) -> str:
    """A process: "PID START"; "" if there is none, or only what its parent has not yet fetched."""
    fields = _fields(pid)
    return "" if fields[0] == "Z" else f"{pid} {fields[START_FIELD]}"


def used(process: str) -> int:
    """How much of the processor it has used, ticks; of one that is gone, none."""
    return sum(map(int, _fields(int(process.split()[0]))[USED_FIELDS])) if alive(process) else 0


def _fields(pid: int) -> list[str]:
    """/proc/PID/stat after the command; "Z" alone if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z"]


def alive(process: str) -> bool:
    """Whether that very process still runs."""
    return bool(process) and named(int(process.split()[0])) == process


def ended(process: str, patience_s: float) -> bool:
    """Wait until it has ended; whether it has."""
    until = time.monotonic() + patience_s
    while alive(process):
        if time.monotonic() >= until:
            return False
        time.sleep(LOOK_S)
    return True


def end(process: str, number: signal.Signals) -> None:
    """Signal that very process, if it still runs."""
    if not process:
        return
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(int(process.split()[0]))
        try:
            # Looked at again: the descriptor now holds the number fast.
            if alive(process):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
