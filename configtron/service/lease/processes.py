# SPDX-License-Identifier: MIT
"""Processes named by number and start time, since the kernel gives a number again: "PID START"."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

# Field 22 of /proc/PID/stat is the start time (proc(5)); after the command in brackets it is the 20th.
START_FIELD = 19
# Fields 14 and 15: clock ticks of processor time, in user mode and in the kernel.
USED_FIELDS = slice(11, 13)
# s between two looks at a process that is to end.
POLL_S = 0.02


def this_process() -> str:
    """Return the name of this process."""
    return named(os.getpid())


def named(pid: int) -> str:
    """Return the name of a process; "" if there is none, or only a zombie."""
    fields = _fields(pid)
    return "" if fields[0] == "Z" else f"{pid} {fields[START_FIELD]}"


def used(process: str) -> int:
    """Return the processor time of a process, clock ticks; 0 if it has ended."""
    return sum(map(int, _fields(int(process.split()[0]))[USED_FIELDS])) if alive(process) else 0


def _fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command; "Z" alone if the process does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z"]


def alive(process: str) -> bool:
    """Return whether that very process still runs."""
    return bool(process) and named(int(process.split()[0])) == process


def ended(process: str, patience_s: float) -> bool:
    """Wait up to so long for its end; return whether it has ended."""
    until = time.monotonic() + patience_s
    while alive(process):
        if time.monotonic() >= until:
            return False
        time.sleep(POLL_S)
    return True


def end(process: str, number: signal.Signals) -> None:
    """Signal that very process, if it still runs."""
    if not process:
        return
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(int(process.split()[0]))
        try:
            # Checked again: from here on the descriptor keeps the number from being given to another process.
            if alive(process):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
