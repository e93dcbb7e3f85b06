# SPDX-License-Identifier: MIT
"""Give up rights of this process, for good (prctl(2))."""

from __future__ import annotations

import ctypes
import os

from configtron.model.errors import ConfigtronError

# include/uapi/linux/prctl.h
PR_SET_NO_NEW_PRIVS = 38


def no_new_privileges() -> None:
    """Let no program that this process starts have more rights than it has. Errors: `ConfigtronError`."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise ConfigtronError(f"prctl(PR_SET_NO_NEW_PRIVS): {os.strerror(ctypes.get_errno())}")
