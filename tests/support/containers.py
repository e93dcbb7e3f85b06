# SPDX-License-Identifier: MIT
"""Hosts of tests: Debian 12 with systemd as its first process, each in a network namespace on one bridge.

A host is a root folder under an overlay in memory, by systemd-nspawn. Commands are run in it by nsenter.
Source     systemd-nspawn(1): --volatile=overlay, --network-namespace-path
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.children import child

NETWORK = "10.98.0"
BOOT_S = 120.0
_RIGHTS = ("--capability=all", "--system-call-filter=bpf perf_event_open add_key keyctl")
_QUIET = ("--quiet", "--register=no", "--keep-unit", "--link-journal=no", "--console=read-only")
_PLACE = ("--resolv-conf=off", "--timezone=off")
# A container's own control groups, and /proc/sys that its systemd may write.
_ENVIRONMENT = {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "1"}


def ran(*words: str) -> str:
    """Return the output of a command. Errors: `CalledProcessError`."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@contextmanager
def network(names: Sequence[str]) -> Iterator[None]:
    """Have a network namespace by each name, on one bridge, with the addresses NETWORK.2 and so on meanwhile."""
    bridge = f"{names[0]}-br"
    with ExitStack() as stack:
        for name in (bridge, *names):
            ran("ip", "netns", "add", name)
            stack.callback(ran, "ip", "netns", "del", name)
            ran("ip", "-n", name, "link", "set", "lo", "up")
        ran("ip", "-n", bridge, "link", "add", "br0", "type", "bridge")
        ran("ip", "-n", bridge, "link", "set", "br0", "up")
        for at, name in enumerate(names, 2):
            ran("ip", "-n", name, "link", "add", "host0", "type", "veth", "peer", "name", f"p{at}", "netns", bridge)
            ran("ip", "-n", bridge, "link", "set", f"p{at}", "master", "br0", "up")
            ran("ip", "-n", name, "addr", "add", f"{NETWORK}.{at}/24", "dev", "host0")
            ran("ip", "-n", name, "link", "set", "host0", "up")
        yield


class Container:
    """One running host."""

    def __init__(self, name: str, leader: int) -> None:
        self.name, self.leader = name, leader

    def done(self, command: str, text: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        """Return how a command of bash ended there that has `text` as its input and `more` in its environment."""
        names = {"HOME": "/root", "TERM": "dumb", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **more}
        words = ["nsenter", "--target", str(self.leader), "--all", "env", "-i"]
        words += [*(f"{name}={value}" for name, value in names.items()), "bash", "-c", f"cd\n{command}"]
        return subprocess.run(words, input=text, capture_output=True, text=True, check=False)

    def run(self, lines: str) -> str:
        """Return what a root shell prints there for these lines. Errors: `SystemExit`, at the first failure."""
        done = self.done("exec bash -e", lines)
        if done.returncode:
            raise SystemExit(f"{self.name}: {lines}\n{done.stdout}{done.stderr}")
        return done.stdout

    def shown(self, unit: str, field: str) -> str:
        """Return a field of a unit."""
        return self.run(f"systemctl show --property {field} --value {unit}").strip()


@contextmanager
def container(root: Path, name: str, bound: Sequence[str]) -> Iterator[Container]:
    """Boot a root in the namespace of this name, with FROM:TO of `bound` to read there; end it afterwards."""
    files = [f"--bind-ro={path}" for path in bound]
    where = [f"--directory={root}", f"--machine={name}", f"--network-namespace-path=/run/netns/{name}"]
    command = ["systemd-nspawn", "--volatile=overlay", "--boot", *where, *_QUIET, *_RIGHTS, *_PLACE, *files]
    environment = {**os.environ, **_ENVIRONMENT}
    with child(command, signal.SIGTERM, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as outer:
        host = Container(name, _booted(outer.pid))
        host.run(f"mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf; echo {name} > /etc/hostname")
        yield host


def _booted(outer: int) -> int:
    """Return the first process of a container once its systemd has started what it starts."""
    by = time.monotonic() + BOOT_S
    while time.monotonic() < by:
        time.sleep(1.0)
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        for leader in children:
            words = ["nsenter", "--target", leader, "--all", "systemctl", "is-system-running"]
            state = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
            if state in ("running", "degraded"):
                return int(leader)
    raise SystemExit(f"a container did not boot within {BOOT_S:.0f} s")
