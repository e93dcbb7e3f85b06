# SPDX-License-Identifier: MIT
"""`plan` writes nothing anywhere: proved by tracing its system calls, on a stack where it would have much to do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from configtron.db.tuning import Tuning
from configtron.model.tuning import Place
from configtron.tune.drivers import DRIVERS, load
from configtron.tune.drivers.kmod.abi import CALLS, DEVICE, MAGIC
from tests.support.tune_sandbox import tune_sandbox

# What a traced process did to the world, read off strace's log: calls that write, and nothing else.

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


# Those whose rules are somewhere else than in this process, best last: what is not here is skipped, and says so.
KERNEL = [name for name in DRIVERS if name != "memory"]


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte code is written by the first import of an installation: not by these."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")


def written(log: Path) -> list[str]:
    return list(writes(log.read_text(errors="replace").splitlines()))


@pytest.mark.root
@pytest.mark.parametrize("driver", KERNEL)
@pytest.mark.parametrize("standing", [False, True])
def test_plan_writes_nothing(driver: str, standing: bool, tmp_path: Path) -> None:
    """With nothing in force, and with something else in force, a watchdog at work and the database open."""
    if lack := load(driver, Place()).missing():
        pytest.skip(lack)
    with tune_sandbox(driver) as here:
        if standing:
            here.run("apply", *here.where, "--lease", "60")
            # a namespace need not be allowed another default congestion control: then the plan is refused
            other = "tcp_slow_start_after_idle=1" if driver == "sysctl" else "tcp_congestion_control=cubic"
            here.run("profile", "set", "web", other)
        before = here.state()
        # Another process may have the database open: then its log is there.
        book = Tuning(here.database) if standing else None
        done = traced(here.command("plan", *here.where, "-f", "jsonl"), tmp_path / "log")
        if book is not None:
            book.close()
        assert done.returncode == 0, done.stderr
        assert done.stdout.count('"kind":"advice"') >= 1
        assert written(tmp_path / "log") == [] and here.state() == before
        # The same eyes see what apply writes.
        # Kept: strace follows the watchdog too, which else would stay for the lease.
        traced(here.command("apply", *here.where, "--keep"), tmp_path / "log")
        assert len(written(tmp_path / "log")) > 3
        here.run("rollback")


@pytest.mark.root
def test_plan_makes_no_database(tmp_path: Path) -> None:
    database = tmp_path / "sub" / "tune.db"
    words = [sys.executable, "-m", "configtron", "--db", str(database), "tune", "plan", "--driver", "memory"]
    assert traced(words, tmp_path / "log").returncode == 0
    assert written(tmp_path / "log") == []
    assert os.listdir(tmp_path) == ["log"]


@pytest.mark.parametrize(
    "line",
    [
        'write(4</x/tune.db>, "x", 1) = 1', '12 pwrite64(4</x/tune.db-wal>, "x"..., 4096, 0) = 4096',
        'openat(AT_FDCWD</x>, "/proc/sys/net/ipv4/tcp_autocorking", O_WRONLY|O_CLOEXEC) = 3</proc/sys>',
        'openat(AT_FDCWD</x>, "/x/tune.db", O_RDWR|O_CREAT, 0644) = 3</x>',
        "sendto(5<NETLINK:[ROUTE:1]>, [{nlmsg_len=44, nlmsg_type=RTM_NEWROUTE, nlmsg_flags=NLM_F_REQUEST}], 44) = 44",
        "bpf(BPF_MAP_UPDATE_ELEM, {map_fd=3</x>}, 32) = 0", "bpf(BPF_LINK_CREATE, {link_create={prog_fd=3}}, 32) = 4",
        "ioctl(3</dev/configtron>, _IOC(_IOC_WRITE, 0xc7, 0x4, 0x48), 0x7ffd) = 0",
        "ioctl(3</dev/configtron>, _IOC(_IOC_READ|_IOC_WRITE, 0xc7, 0x7, 0x18), 0x7ffd) = 0", 'unlink("/x") = 0',
    ],
)  # fmt: skip
def test_what_writes_is_seen(line: str) -> None:
    assert list(writes([line])) == [line]
