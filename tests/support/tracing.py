# SPDX-License-Identifier: MIT
"""What a traced process did to the world, read off strace's log: calls that write, and nothing else."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from configtron.tune.drivers.kmod.abi import CALLS, DEVICE, MAGIC

CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)")
# A file descriptor as `strace -y` shows it: 3</path>.
OPENED = re.compile(r"^(\d+)<([^>]*)>")
OPENS = frozenset({"open", "openat", "openat2", "creat"})
WRITES = frozenset({"write", "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate", "fallocate", "copy_file_range"})
SENDS = frozenset({"sendto", "sendmsg", "sendmmsg"})
CHANGES = frozenset(
    "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat mknod mknodat chmod "
    "fchmod fchmodat chown fchown fchownat lchown truncate utimensat setxattr fsetxattr removexattr mount umount2 "
    "init_module finit_module delete_module unshare reboot settimeofday clock_settime kill tgkill "
    "pidfd_send_signal".split()
)
# What strace is to report, and nothing else: each call that it stops at costs two switches of process. A call that this
# machine has not is passed over ("?").
TRACED = ",".join(f"?{call}" for call in sorted(OPENS | WRITES | SENDS | CHANGES | {"bpf", "ioctl"}))
# Commands of bpf(2) that only look.
BPF_LOOKS = re.compile(r"^BPF_(OBJ_GET\b|MAP_LOOKUP|MAP_GET_NEXT|OBJ_GET_INFO|\w+_GET_NEXT_ID|\w+_GET_FD_BY_ID)")
NETLINK_LOOKS = re.compile(r"nlmsg_type=(RTM_GET\w+|NLMSG_NOOP|CTRL_CMD_GET\w+|SOCK_DIAG\w*|TCPDIAG_GETSOCK)\b")
# Calls of ioctl(2) that ask a terminal or a file, never a device that is set by them.
IOCTL_LOOKS = re.compile(r"^(TCGETS|TIOCGWINSZ|FIOCLEX|FIONCLEX|FIONREAD|FIONBIO|NS_GET_\w+)\b")
# Those of the module that only look, by configtron.h, and how strace spells a call whose name it does not know.
MODULE_LOOKS = frozenset(
    "VERSION PARAM_INFO PARAMS_GET PROFILE_NEXT PREFIX_DUMP PREFIX_GET SOCKET_GET OPTIONS_GET STATUS STATS".split()
)
MODULE_CALL = re.compile(rf"^_IOC\([_|A-Z]+, {MAGIC:#x}, (0x[0-9a-f]+), 0x[0-9a-f]+\)")
NAMES = {number: name for name, (number, _, _) in CALLS.items()}


def traced(words: Sequence[str], log: Path) -> subprocess.CompletedProcess[str]:
    """Run a command under strace, its children too."""
    command = ["strace", "-f", "--seccomp-bpf", "-y", "-s", "64", "-e", f"trace={TRACED}", "-o", str(log), *words]
    return subprocess.run(command, capture_output=True, text=True)


def writes(lines: Iterable[str]) -> Iterator[str]:
    """The calls that changed something outside the process, but for what it printed."""
    for line in lines:
        found = CALL.match(line)
        if found is None or int(found[3]) < 0:
            continue
        call, arguments = found[1], found[2]
        if _changes(call, arguments):
            yield line.strip()


def _changes(call: str, arguments: str) -> bool:
    if call == "fchown" and "-wal>, 0, 0" in arguments:
        # As root, SQLite gives a log that it opens the owner that the database has, and the log.
        return False
    if call in CHANGES:
        return True
    if call in OPENS:
        # SQLite opens a log that is there for writing and creating, whatever it means to do; its writes are seen.
        # The module's device is opened for all of its calls, which are seen too.
        return bool(re.search(r"O_(WRONLY|TRUNC|CREAT)|O_RDWR", arguments)) and not re.search(
            rf'-wal"|"/dev/(null|tty)"|"{DEVICE}"', arguments
        )
    if call in WRITES:
        opened = OPENED.match(arguments)
        return opened is None or opened[1] not in ("1", "2")
    if call in SENDS:
        return "NETLINK" in arguments and not NETLINK_LOOKS.search(arguments)
    if call == "bpf":
        return not BPF_LOOKS.match(arguments)
    return call == "ioctl" and not _looks(arguments.partition(", ")[2])


def _looks(request: str) -> bool:
    """Whether a request of ioctl(2) leaves everything as it was."""
    ours = MODULE_CALL.match(request)
    return NAMES[int(ours[1], 16)] in MODULE_LOOKS if ours else bool(IOCTL_LOOKS.match(request))
