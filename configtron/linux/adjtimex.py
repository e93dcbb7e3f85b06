# SPDX-License-Identifier: MIT
"""The kernel's clock: the wall clock, the time since boot, and whether a program keeps the clock synchronised.

Source     adjtimex(2); linux/timex.h
"""

from __future__ import annotations

import ctypes
import time
from typing import NamedTuple

# linux/timex.h: no program has synchronised the clock within the time that its error bound allows.
STA_UNSYNC = 0x0040


class ClockState(NamedTuple):
    """synchronised: None where the kernel does not say; ns since 1970, and ns since boot."""

    synchronised: bool | None
    wall_ns: int
    boot_ns: int


class _Timex(ctypes.Structure):
    """The beginning of struct timex, and room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("rest", ctypes.c_char * 256),
    )  # fmt: skip


def clock_state() -> ClockState:
    """Read the clock; set nothing."""
    found = _Timex()
    refused = ctypes.CDLL(None).adjtimex(ctypes.byref(found)) < 0
    synchronised = None if refused else not found.status & STA_UNSYNC
    return ClockState(synchronised, time.time_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME))
