# SPDX-License-Identifier: MIT
"""Whether this process may load BPF programs: checked by a read call, or by loading a program that does nothing.

Capabilities alone do not show it. The root of a user namespace has all of them, but only over what that namespace owns,
and bpf(2) requires those of the first user namespace. A container's system call filter, or a kernel in lockdown,
refuses everybody. `lacking` makes a call that only reads and requires CAP_SYS_ADMIN in the first user namespace, so
planning loads nothing. `tried` loads a program that returns 1, is attached nowhere and is freed when its descriptor is
closed: it is for commands that are about to write, and for `doctor`.

Source     kernel/bpf/syscall.c, bpf_obj_get_next_id and bpf_prog_load; user_namespaces(7); linux/proc_ns.h
"""

from __future__ import annotations

import os
import struct
from ctypes import byref, c_uint32
from functools import cache
from pathlib import Path

from configtron.linux.libbpf import call
from configtron.linux.netns import holds

# CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_BPF (linux/capability.h), all three.
_CAPABILITIES = 21, 12, 39
# PROC_USER_INIT_INO: the number of the first user namespace.
_FIRST_USER_NAMESPACE = 0xEFFFFFFD
_OWN = Path("/proc/self/ns/user")
# BPF_PROG_TYPE_SOCK_OPS; struct bpf_insn: r0 = 1; exit.
_SOCK_OPS = 13
_INSTRUCTION = struct.Struct("=BBhi")
_NOTHING = _INSTRUCTION.pack(0xB7, 0, 0, 1) + _INSTRUCTION.pack(0x95, 0, 0, 0)


@cache
def lacking() -> str:
    """Return why this process may not load our programs, one line; "" if it may. Errors: `OSError` without libbpf."""
    if not all(map(holds, _CAPABILITIES)):
        return "loading BPF programs needs CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN; run as root that has them"
    try:
        call("bpf_prog_get_next_id", 0, byref(c_uint32()))
    except FileNotFoundError:
        return ""  # allowed: the kernel has no program yet
    except OSError as error:
        return _why(error)
    return ""


@cache
def tried() -> str:
    """Return why the kernel refuses to load a program, one line; "" if it loaded one. Errors: as `lacking`."""
    try:
        size = len(_NOTHING) // _INSTRUCTION.size
        os.close(call("bpf_prog_load", _SOCK_OPS, b"configtron_try", b"GPL", _NOTHING, size, None))
    except OSError as error:
        return _why(error)
    return ""


def _why(error: OSError) -> str:
    if _OWN.stat().st_ino != _FIRST_USER_NAMESPACE:
        return (
            "the root of a user namespace (unshare --user, a rootless container) may load no BPF programs; run in "
            "the first one, or use the driver route"
        )
    return (
        f"the kernel loads no BPF program of this process ({os.strerror(error.errno or 0)}): a container's filter of "
        "system calls or kernel_lockdown(7) is in the way; run on the host, or use the driver route"
    )
