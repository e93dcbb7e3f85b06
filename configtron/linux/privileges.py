# SPDX-License-Identifier: MIT
"""Give up rights, for good in this process (prctl(2)) or in a child process (fork(2), setuid(2))."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence

from configtron.model.errors import ConfigtronError

# include/uapi/linux/prctl.h
PR_SET_NO_NEW_PRIVS = 38
# linux/ptrace.h
PTRACE_TRACEME = 0


def no_new_privileges() -> None:
    """Let no program that this process starts have more rights than it has. Errors: `ConfigtronError`."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise ConfigtronError(f"prctl(PR_SET_NO_NEW_PRIVS): {os.strerror(ctypes.get_errno())}")


def in_child(action: Callable[[], str]) -> str:
    """Return what an action returns in a child process, or the text of its error."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        try:
            text = action()
        except BaseException as error:
            text = str(error)
        os.write(write_end, text.encode())
        os._exit(0)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def become(root: str, uid: int, gid: int, groups: Sequence[int]) -> None:
    """Take a user's rights, and a root folder, for good. Errors: `OSError`."""
    os.chroot(root)
    os.chdir("/")
    os.setgroups(groups)
    os.setgid(gid)
    os.setuid(uid)


def trace_me() -> str:
    """Ask the kernel to let the parent trace this process; return why it refuses, or ""."""
    libc = ctypes.CDLL(None, use_errno=True)
    return os.strerror(ctypes.get_errno()) if libc.ptrace(PTRACE_TRACEME, 0, None, None) < 0 else ""
