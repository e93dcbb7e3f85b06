# SPDX-License-Identifier: MIT
"""Runs a unit's program under what the unit lets it do, without systemd as the first process.

    confined.py UNIT FOLDER      as root; FOLDER is the one that the unit may write

Taken from the unit's text: ExecStart, CapabilityBoundingSet, NoNewPrivileges, MemoryDenyWriteExecute, SystemCallFilter
with SystemCallErrorNumber (groups by `systemd-analyze syscall-filter`), RestrictAddressFamilies, and of
RestrictNamespaces that setns may enter network namespaces only; and ProtectSystem=strict, by a file system that is
read-only but for FOLDER, /run/configtron-tune, /run/configtron where it is there, /dev, /proc and /sys.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shlex
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path

# linux/prctl.h: PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN. linux/sched.h: CLONE_NEWNET.
MDWE, REFUSE = 65, 1
NEWNET = 0x40000000
# seccomp.h: SCMP_ACT_ERRNO, SCMP_ACT_ALLOW, SCMP_CMP_EQ.
ERRNO, ALLOW, EQUAL = 0x00050000, 0x7FFF0000, 4
WRITABLE = ("/run/configtron-tune", "/dev", "/proc", "/sys")


class Compare(ctypes.Structure):
    """struct scmp_arg_cmp."""

    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def settings(unit: Path, name: str) -> list[str]:
    return [line.partition("=")[2] for line in unit.read_text().splitlines() if line.startswith(name + "=")]


def allowed(unit: Path) -> set[str]:
    """The system calls that the filters leave, taken in their order."""
    left: set[str] = set()
    for line in settings(unit, "SystemCallFilter"):
        words = line.removeprefix("~").split()
        names = {name for word in words for name in (group(word) if word.startswith("@") else {word})}
        left = left - names if line.startswith("~") else left | names
    return left


@cache
def group(name: str) -> set[str]:
    listed = subprocess.run(["systemd-analyze", "syscall-filter", name], check=True, capture_output=True, text=True)
    words = [line.strip() for line in listed.stdout.splitlines()[1:]]
    found = {word for word in words if word and not word.startswith(("#", "@"))}
    return found.union(*(group(word) for word in words if word.startswith("@")))


def filtered(names: set[str], families: list[int]) -> None:
    """From now on nothing but these system calls."""
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(seccomp.seccomp_init(ERRNO | errno.EPERM))

    def allow(name: str, *compared: Compare) -> None:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # below: none of this machine's
            each = (Compare * len(compared))(*compared)
            assert not seccomp.seccomp_rule_add_array(rules, ALLOW, number, len(compared), each), name

    for name in names - {"socket", "setns"}:
        allow(name)
    for family in families:
        allow("socket", Compare(0, EQUAL, family, 0))
    allow("setns", Compare(1, EQUAL, NEWNET, 0))
    assert not seccomp.seccomp_load(rules)


def main() -> None:
    unit, folder = Path(sys.argv[1]), sys.argv[2]
    (command,) = settings(unit, "ExecStart")
    (capabilities,) = settings(unit, "CapabilityBoundingSet")
    (families,) = settings(unit, "RestrictAddressFamilies")
    names = allowed(unit)
    if settings(unit, "ProtectSystem") == ["strict"]:
        Path("/run/configtron-tune").mkdir(mode=0o700, exist_ok=True)
        os.unshare(os.CLONE_NEWNS) if hasattr(os, "unshare") else ctypes.CDLL(None).unshare(0x00020000)
        logs = ["/run/configtron"] if Path("/run/configtron").exists() else []
        for place in (folder, *WRITABLE, *logs):
            subprocess.run(["mount", "--rbind", place, place], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", "/"], check=True)
    bounded = ",".join(["-all", *("+" + name.removeprefix("CAP_").lower() for name in capabilities.split())])
    libc = ctypes.CDLL(None, use_errno=True)
    if settings(unit, "MemoryDenyWriteExecute") == ["yes"] and libc.prctl(MDWE, REFUSE, 0, 0, 0):
        assert ctypes.get_errno() == errno.EINVAL, "Linux 6.3"
    words = ["setpriv", f"--bounding-set={bounded}", "--inh-caps=-all", "--no-new-privs", *shlex.split(command)]
    # setpriv itself changes its capabilities: that call, and no other, is added for it
    filtered(names | {"capset", "prctl"}, [getattr(socket, name) for name in families.split()])
    os.execvp(words[0], words)


if __name__ == "__main__":
    main()
