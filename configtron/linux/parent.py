# SPDX-License-Identifier: MIT
"""A process that does not outlive the one that started it.

Source     prctl(2), PR_SET_PDEATHSIG
"""

from __future__ import annotations

import ctypes
import os
import signal

# include/uapi/linux/prctl.h
PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when process `parent`, which started it, ends. Errors: `SystemExit` if it has
    ended already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(0)
