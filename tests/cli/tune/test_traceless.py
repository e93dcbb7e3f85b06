# SPDX-License-Identifier: MIT
"""`plan` writes nothing anywhere: proved by tracing its system calls, on a stack where it would have much to do."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from configtron.db.tuning import Tuning
from configtron.model.tuning import Place
from configtron.tune.drivers import DRIVERS, load
from tests.support.tracing import traced, writes
from tests.support.tune_sandbox import tune_sandbox

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
