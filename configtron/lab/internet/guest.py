# SPDX-License-Identifier: MIT
"""Raise a world, check it, hide what it is made of, run a command in it, and hand on the command's exit code.

    python3 -m configtron.lab.internet.guest WORLD.json -- COMMAND [ARGUMENT ...]

Runs as root where it may do as it likes: in a guest, or in private mount and network namespaces of a host. The
namespaces are topology.py's; the command runs in the router's.

Every setting is read back; one that is not as asked ends the guest with exit code 5 and a sentence.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from configtron.lab.internet import links, middlebox, server_pools, sockops, topology
from configtron.lab.internet.world import GuestInternet, read
from configtron.linux.netns import enter
from configtron.model.errors import BadInput, ConfigtronError, Missing

GROUP_ROOT, PINS_ROOT = Path("/run/cgroup"), Path("/run/bpf")
GROUP, PINS, MIDDLEBOX_PINS = GROUP_ROOT / "servers", PINS_ROOT / "lab", PINS_ROOT / "middlebox"
# Where the command finds its vantages once the world's folder is hidden.
VANTAGES = Path("/run/vantages.toml")
# A program that has not opened its ports by then has failed; Node needs a second of real time on a slow machine.
SERVERS_PATIENCE_S = 60.0
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x00020000, 0x4000, 0x40000
_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: Sequence[str]) -> int:
    if len(arguments) < 3 or arguments[1] != "--":
        print("usage: python3 -m configtron.lab.internet.guest WORLD.json -- COMMAND [ARGUMENT ...]", file=sys.stderr)
        return 2
    path = Path(arguments[0]).resolve()
    running: list[subprocess.Popen[bytes]] = []
    try:
        if not path.exists():
            raise BadInput(f"{path}: no such world; a guest sees the host's files except those under /tmp and /run")
        raise_world(read(path), path.parent, running)
        return _run(arguments[2:], hidden=(path.parent, server_pools.FOLDER))
    except ConfigtronError as error:
        print(f"configtron.lab.internet.guest: {error}", file=sys.stderr, flush=True)
        return error.code
    finally:
        for process in running:
            # its whole session: a killed master leaves workers behind
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in running:
            process.wait()


def raise_world(world: GuestInternet, programs: Path, running: list[subprocess.Popen[bytes]]) -> None:
    """Everything up and checked, or an error; started processes are added to `running`."""
    _mount("none", GROUP_ROOT, "cgroup2")
    _mount("none", PINS_ROOT, "bpf")
    _lay_out(world)
    topology.raise_all(world)
    sockops.load(programs / sockops.OBJECT, PINS, GROUP)
    sockops.fill(PINS, world.settings)
    if not sockops.attached(GROUP):
        raise Missing(f"no sock_ops program is attached to {GROUP}")
    _raise_middleboxes(world, programs / middlebox.OBJECT)
    _start_servers(world, running)


def _lay_out(world: GuestInternet) -> None:
    """The world's files in a memory file system of their own."""
    _mount("none", server_pools.FOLDER, "tmpfs")
    for name, text in world.files:
        path = server_pools.FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for size in world.pages:
        folder = server_pools.page(size)
        folder.mkdir(parents=True)
        (folder / "index.html").write_bytes(page_text(size))
    # nothing in the answers may depend on when the world was raised
    for path in sorted((server_pools.FOLDER / "www").rglob("*")):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    shutil.copyfile(server_pools.FOLDER / "vantages.toml", VANTAGES)


def page_text(size: int) -> bytes:
    """Return a page of exactly that many bytes in which no two lines are equal."""
    line = "<p>line {:06d} of a page that a laboratory made; no two lines are equal</p>\n"
    text = "".join(line.format(n) for n in range(size // len(line.format(0)) + 1))
    return text[:size].encode()


def _mount(source: str, target: Path, kind: str) -> None:
    """Mount a file system unless one is there already."""
    target.mkdir(parents=True, exist_ok=True)
    if os.path.ismount(target):
        return
    if _libc.mount(source.encode(), str(target).encode(), kind.encode(), 0, None):
        raise Missing(f"cannot mount {kind} on {target}: {os.strerror(ctypes.get_errno())}; run as root")


def _raise_middleboxes(world: GuestInternet, program: Path) -> None:
    """Middleboxes, where there is work for one: packets elsewhere pay nothing for them."""
    if not (world.rules or world.second_backends):
        return
    middlebox.load(program, MIDDLEBOX_PINS)
    middlebox.fill(MIDDLEBOX_PINS, world.rules, world.second_backends)
    for pool in world.server_pools:
        rules = [rule for address, rule in world.rules if pool.holds(address)]
        if rules:
            middlebox.attach(MIDDLEBOX_PINS, pool.netns, "eth0", ingress="to_server", egress="from_server")
        if any(rule.delays for rule in rules):
            middlebox.keep_departure_times(pool.netns, "eth0")
    for link in world.links if world.second_backends else ():
        middlebox.attach(MIDDLEBOX_PINS, "", link.router_interface, ingress="balance", egress="unbalance")


def _start_servers(world: GuestInternet, running: list[subprocess.Popen[bytes]]) -> None:
    for pool in world.server_pools:
        running.append(_start(pool.netns, server_pools.command(pool.name, pool.program, sys.executable), GROUP))
    name_server = (sys.executable, str(server_pools.SERVERS / "names.py"), str(server_pools.FOLDER / "zones.json"))
    running.append(_start("dns", name_server, None))
    deadline = time.monotonic() + SERVERS_PATIENCE_S
    waiting = [(pool.netns, port) for pool in world.server_pools for port in (80, 443)]
    while waiting:
        waiting = [(netns, port) for netns, port in waiting if not links.listens(netns, port)]
        dead = [process for process in running if process.poll() is not None]
        if dead or time.monotonic() > deadline:
            raise Missing(f"servers failed: {[p.args for p in dead]}, not listening: {waiting}\n{_log()}")
        time.sleep(0.05)


def _log() -> str:
    """Return the ends of the servers' logs, for the error message."""
    return "".join(path.read_text()[-2000:] for path in sorted(server_pools.FOLDER.glob("*.log")))


def _start(netns: str, command: Sequence[str], group: Path | None) -> subprocess.Popen[bytes]:
    """Return a server in its namespace and control group; what it prints goes to a log beside its configuration."""

    def settle() -> None:
        if group:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        enter(netns)

    with (server_pools.FOLDER / f"{netns}.log").open("wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=settle, start_new_session=True
        )


def _run(command: Sequence[str], hidden: Sequence[Path]) -> int:
    """Return the command, with empty folders where the truth lies; the servers keep seeing theirs."""

    def blind() -> None:
        if _libc.unshare(CLONE_NEWNS) or _libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None):
            raise OSError(ctypes.get_errno(), "cannot make the mounts private")
        for folder in hidden:
            if _libc.mount(b"none", str(folder).encode(), b"tmpfs", 0, None):
                raise OSError(ctypes.get_errno(), f"cannot hide {folder}")

    sys.stdout.flush()
    code = subprocess.run(command, preexec_fn=blind).returncode
    refused = sockops.refusals(PINS)
    if refused:
        raise Missing(f"the kernel refused {refused} socket settings: the world was not as its truth says")
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
