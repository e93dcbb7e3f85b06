# SPDX-License-Identifier: MIT
"""Where `tune` is tried: a network namespace, a control group and a database of its own, for one driver.

`state` is all that the driver could have changed, as the system's own tools say it, never as the driver does; for kmod
besides what the module itself answers, table by table, but for the numbers it gives its profiles: each has a new one.
Names are this process's: what one that was killed left behind is found by them and taken away.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from configtron.db.tuning import Tuning
from configtron.linux.netns import inside
from configtron.model.nouns import Profile
from configtron.service.lease.processes import end, named
from configtron.tune.drivers.kmod.device import Device

# With the number of the process: what has this name and no such process was left behind.
NAME = "ct-kills-"
SYSCTLS = "/proc/sys/net/ipv4/tcp_{congestion_control,slow_start_after_idle,autocorking,notsent_lowat,rto_min_us}"


class TuneSandbox:
    """A namespace, a control group and a database to play in."""

    def __init__(self, folder: Path, name: str, driver: str) -> None:
        self.folder, self.name, self.driver = folder, name, driver
        self.database = folder / "tune.db"
        where = ["--cgroup", f"/{name}"] if driver == "ebpf" else ["--netns", name]
        self.where = ["--driver", driver, *where]

    def command(self, *words: str) -> list[str]:
        """A command line of `tune`."""
        return [sys.executable, "-m", "configtron", "--db", str(self.database), "-q", "tune", *words]

    def want(self) -> None:
        """Make the database, with something for each driver to do."""
        with Tuning(self.database) as book:
            if self.driver == "sysctl":
                zero = [("tcp_slow_start_after_idle", 0), ("tcp_autocorking", 0)]
                book.set_profiles([Profile("web", (("tcp_congestion_control", "reno"), *zero))])
                book.set_default("web")
                return
            web = Profile("web", (("tcp_congestion_control", "reno"), ("initcwnd", 20)))
            book.set_profiles([web, Profile("small", (("initcwnd", 4),))])
            book.set_prefixes(dict.fromkeys(("10.1.0.0/16", "10.2.0.0/16", "2001:db8::/32"), "web"))
            book.set_prefixes({"10.1.2.0/24": "small"})

    def run(self, *words: str) -> None:
        """Run a command that must succeed."""
        subprocess.run(self.command(*words), check=True, stdout=subprocess.DEVNULL)

    def state(self) -> str:
        """All that a driver could have changed, as the system's own tools say it."""
        if self.driver == "ebpf":
            shown = ["bpftool", "cgroup", "show", str(groups() / self.name)]
            return _output(shown) + "\n".join(sorted(map(str, Path("/sys/fs/bpf").rglob("*"))))
        lines = [_output(["ip", version, "-n", self.name, *what]) for version in ("-4", "-6")
                 for what in (("route", "show", "table", "all"), ("rule",))]  # fmt: skip
        values = _output(["ip", "netns", "exec", self.name, "bash", "-c", f"tail -n +1 {SYSCTLS} 2>/dev/null"])
        return "\n".join((*lines, values, _of_module(self.name) if self.driver == "kmod" else ""))

    def open_acts(self) -> list[tuple[int, str, str]]:
        """Acts that are not over, with their watchdogs. One that never came to write, nor to a watchdog, is."""
        if not self.database.exists():
            return []
        asked = (
            "SELECT id, status, keeper FROM act WHERE status NOT IN ('undone', 'replaced')"
            " AND NOT (status = 'begun' AND keeper = '')"
        )
        connection = sqlite3.connect(self.database, timeout=10)
        try:
            return list(connection.execute(asked))
        finally:
            connection.close()


def _of_module(netns: str) -> str:
    """What the module holds for a namespace: its profiles with their settings, its prefixes, its options."""
    with inside(netns):
        device = Device()
    with device:
        names = device.profiles()
        lines = [f"profile {name} {device.settings(number)}" for number, name in names.items()]
        lines += [f"prefix {prefix.hex()} {names[number]}" for prefix, number in device.dump().items()]
        flags, unmatched, plain = device.options()
        return "\n".join([*sorted(lines), f"options {flags} {names.get(unmatched, '')} {plain}"])


def differs(before: str, after: str) -> list[str]:
    """Lines that came or went."""
    was, found = before.splitlines(), after.splitlines()
    return [f"- {line}" for line in was if line not in found] + [f"+ {line}" for line in found if line not in was]


def groups() -> Path:
    """The root of control groups version 2."""
    from configtron.tune.drivers.bpf.pins import mounts

    return mounts("cgroup2")[0]


def _output(words: Sequence[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True).stdout


@contextmanager
def tune_sandbox(driver: str) -> Iterator[TuneSandbox]:
    """Raise one, and take it away."""
    _sweep()
    name = f"{NAME}{os.getpid()}"
    group = groups() / name
    with tempfile.TemporaryDirectory(prefix="tune-kills-") as folder:
        here = TuneSandbox(Path(folder), name, driver)
        try:
            subprocess.run(["ip", "netns", "add", name], check=True)
            for words in ("link set lo up", "link add d0 type veth peer name d1",
                          "link set d0 addrgenmode none", "link set d1 addrgenmode none up",
                          "addr add 192.0.2.1/24 dev d0", "link set d0 up",
                          "route add default via 192.0.2.254", "-6 addr add 2001:db8:1::1/64 dev d0 nodad",
                          "-6 route add default via 2001:db8:1::fe"):  # fmt: skip
                subprocess.run(["ip", "-n", name, *words.split()], check=True)
            if driver == "ebpf":
                group.mkdir()
            here.want()
            yield here
        finally:
            for _, _, watchdog in here.open_acts():
                end(watchdog, signal.SIGKILL)
            subprocess.run(here.command("rollback", *here.where), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            subprocess.run(["ip", "netns", "del", name])
            if driver == "ebpf":
                group.rmdir()


def _sweep() -> None:
    """Take away what one that was killed left behind."""
    for left in (*Path("/run/netns").glob(f"{NAME}*"), *groups().glob(f"{NAME}*")):
        if not named(int(left.name.removeprefix(NAME))):
            if left.is_dir():
                left.rmdir()
            else:
                subprocess.run(["ip", "netns", "del", left.name], check=False, stderr=subprocess.DEVNULL)
