"""Raise a world, check it, hide what it is made of, run a command in it, and hand on the command's exit code.

    python3 -m configtron.lab.guest WORLD.json -- COMMAND [ARGUMENT ...]

Runs as root where it may do as it likes: in a guest, or in private mount and network namespaces of a host. Layout:

    v-na ... v-au   one namespace a vantage: eth0 with the region's delay, half of it each way
    (here)          the router between all links; the command runs here
    f-nginx ...     one namespace a server program: wildcard sockets, a local route for all its addresses
    dns             the name server, an address for each region's view

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

from configtron.errors import BadInput, ConfigtronError, Missing
from configtron.lab import box, farms, links, sockops
from configtron.lab.shares import CONGESTION_CONTROLS
from configtron.lab.world import Farm, Link, World, read

GROUP_ROOT, PINS_ROOT = Path("/run/cgroup"), Path("/run/bpf")
GROUP, PINS, BOX_PINS = GROUP_ROOT / "servers", PINS_ROOT / "lab", PINS_ROOT / "box"
# Where the command finds its vantages once the world's folder is hidden.
VANTAGES = Path("/run/vantages.toml")
# A program that has not opened its ports by then has failed; Node needs a second of real time on a slow machine.
SERVERS_PATIENCE_S = 60.0
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x00020000, 0x4000, 0x40000
_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: Sequence[str]) -> int:
    if len(arguments) < 3 or arguments[1] != "--":
        print("usage: python3 -m configtron.lab.guest WORLD.json -- COMMAND [ARGUMENT ...]", file=sys.stderr)
        return 2
    path = Path(arguments[0]).resolve()
    running: list[subprocess.Popen[bytes]] = []
    try:
        if not path.exists():
            raise BadInput(f"{path}: no such world; a guest sees the host's files except those under /tmp and /run")
        raise_world(read(path), path.parent, running)
        return _run(arguments[2:], hidden=(path.parent, farms.FOLDER))
    except ConfigtronError as error:
        print(f"configtron.lab.guest: {error}", file=sys.stderr, flush=True)
        return error.code
    finally:
        for process in running:
            # its whole session: a killed master leaves workers behind
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in running:
            process.wait()


def raise_world(world: World, programs: Path, running: list[subprocess.Popen[bytes]]) -> None:
    """Everything up and checked, or an error; started processes are added to `running`."""
    _mount("none", GROUP_ROOT, "cgroup2")
    _mount("none", PINS_ROOT, "bpf")
    _lay_out(world)
    _router()
    for link in world.links:
        _raise_vantage(link)
    for farm in world.farms:
        _raise_farm(farm)
    _raise_name_server(world)
    sockops.load(programs / sockops.OBJECT, PINS, GROUP)
    sockops.fill(PINS, world.settings)
    if not sockops.attached(GROUP):
        raise Missing(f"no sock_ops program is attached to {GROUP}")
    _raise_boxes(world, programs / box.OBJECT)
    _start_servers(world, running)


def _lay_out(world: World) -> None:
    """The world's files in a memory file system of their own."""
    _mount("none", farms.FOLDER, "tmpfs")
    for name, text in world.files:
        path = farms.FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for size in world.pages:
        folder = farms.page(size)
        folder.mkdir(parents=True)
        (folder / "index.html").write_bytes(page_text(size))
    # nothing in the answers may depend on when the world was raised
    for path in sorted((farms.FOLDER / "www").rglob("*")):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    shutil.copyfile(farms.FOLDER / "vantages.toml", VANTAGES)


def page_text(size: int) -> bytes:
    """A page of exactly that many bytes in which no two lines are equal."""
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


def _router() -> None:
    links.ip("", ["link set lo up"])
    links.sysctl("", [("net/ipv4/ip_forward", "1"), ("net/ipv4/conf/all/rp_filter", "0")])
    present = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    absent = {name for name, _ in CONGESTION_CONTROLS} - set(present)
    if absent:
        raise Missing(f"this kernel has no congestion control {', '.join(sorted(absent))}")


def _mac(kind: int, number: int, end: int) -> str:
    """A locally administered address that says what it belongs to."""
    return f"02:00:00:{kind:02x}:{number:02x}:{end:02x}"


def _pair(netns: str, router_interface: str, kind: int, number: int, router_address: str, own: Sequence[str]) -> None:
    """A namespace, its eth0, and the router's end; neighbours are permanent, so nobody asks by ARP."""
    inner, outer = _mac(kind, number, 1), _mac(kind, number, 2)
    links.ip("", [
        f"netns add {netns}",
        f"link add {router_interface} address {outer} type veth peer name eth0 address {inner} netns {netns}",
        f"addr add {router_address} dev {router_interface}",
        f"link set {router_interface} up",
    ])  # fmt: skip
    gateway = router_address.split("/")[0]
    links.ip(netns, [
        "link set lo up",
        *(f"addr add {address} dev eth0" for address in own),
        "link set eth0 up",
        f"neigh replace {gateway} lladdr {outer} dev eth0 nud permanent",
        f"route add default via {gateway} dev eth0",
    ])  # fmt: skip
    links.without_offloads("", router_interface)
    links.without_offloads(netns, "eth0")


def _neighbours(router_interface: str, mac: str, addresses: Sequence[str]) -> None:
    links.ip("", [f"neigh replace {a} lladdr {mac} dev {router_interface} nud permanent" for a in addresses])


def _raise_vantage(link: Link) -> None:
    own = (f"{link.kernel_address}/24",)
    _pair(link.netns, link.router_interface, 60, link.number, f"{link.router_address}/24", own)
    _neighbours(link.router_interface, _mac(60, link.number, 1), (link.kernel_address, link.prober_address))
    # the prober's address is not the kernel's: what comes for it must not be sent on
    links.sysctl(link.netns, [("net/ipv4/ip_forward", "0"), ("net/ipv4/conf/all/rp_filter", "0")])
    if link.rtt_ms or link.loss_percent:
        ends = (("", link.router_interface, 0), (link.netns, "eth0", 1))
        for netns, interface, end in ends:
            seed = link.seed * 2 + end
            links.netem(
                netns,
                interface,
                delay_ms=link.rtt_ms / 2,
                loss_percent=link.loss_percent,
                reorder_percent=link.reorder_percent,
                seed=seed,
            )


def _raise_farm(farm: Farm) -> None:
    own, router = f"10.62.{farm.number}.1", f"10.62.{farm.number}.254"
    _pair(farm.netns, farm.router_interface, 62, farm.number, f"{router}/24", (f"{own}/24",))
    _neighbours(farm.router_interface, _mac(62, farm.number, 1), (own,))
    links.ip("", [f"route add {farm.prefix} via {own} dev {farm.router_interface}"])
    rules = [f"route add local {farm.prefix} dev lo"]
    for route in farm.routes:
        rules.append(f"rule add from {route.prefix} lookup {route.table}")
        metrics = f"rto_min {route.rto_min_ms}ms advmss {route.advmss}"
        rules.append(f"route add default via {router} dev eth0 table {route.table} {metrics}")
    links.ip(farm.netns, rules)
    _check_routes(farm)
    links.sysctl(farm.netns, farm.sysctls)


def _raise_boxes(world: World, program: Path) -> None:
    """Middleboxes, where there is work for one: packets elsewhere pay nothing for them."""
    if not (world.rules or world.twins):
        return
    box.load(program, BOX_PINS)
    box.fill(BOX_PINS, world.rules, world.twins)
    for farm in world.farms:
        rules = [rule for address, rule in world.rules if farm.holds(address)]
        if rules:
            box.attach(BOX_PINS, farm.netns, "eth0", ingress="to_server", egress="from_server")
        if any(rule.delays for rule in rules):
            box.keep_departure_times(farm.netns, "eth0")
    for link in world.links if world.twins else ():
        box.attach(BOX_PINS, "", link.router_interface, ingress="balance", egress="unbalance")


def _check_routes(farm: Farm) -> None:
    shown = subprocess.run(["ip", "-netns", farm.netns, "rule"], capture_output=True, text=True).stdout
    for route in farm.routes:
        if f"from {route.prefix} lookup {route.table}" not in shown:
            raise Missing(f"{farm.netns}: no rule for {route.prefix}")
        table = ["ip", "-netns", farm.netns, "route", "show", "table", str(route.table)]
        text = subprocess.run(table, capture_output=True, text=True).stdout
        # iproute2 prints whole seconds as "1s"
        rto_min = f"{route.rto_min_ms // 1000}s" if route.rto_min_ms % 1000 == 0 else f"{route.rto_min_ms}ms"
        if f"rto_min lock {rto_min}" not in text or f"advmss {route.advmss}" not in text:
            raise Missing(f"{farm.netns}: table {route.table} shows {text.strip()!r}")


def _raise_name_server(world: World) -> None:
    own = [f"{link.resolver}/24" for link in world.links]
    _pair("dns", "r-dns", 61, 0, "10.61.0.254/24", own)
    _neighbours("r-dns", _mac(61, 0, 1), [link.resolver for link in world.links])


def _start_servers(world: World, running: list[subprocess.Popen[bytes]]) -> None:
    for farm in world.farms:
        running.append(_start(farm.netns, farms.command(farm.name, farm.program, sys.executable), GROUP))
    name_server = (sys.executable, str(farms.SERVERS / "names.py"), str(farms.FOLDER / "zones.json"))
    running.append(_start("dns", name_server, None))
    deadline = time.monotonic() + SERVERS_PATIENCE_S
    waiting = [(farm.netns, port) for farm in world.farms for port in (80, 443)]
    while waiting:
        waiting = [(netns, port) for netns, port in waiting if not links.listens(netns, port)]
        dead = [process for process in running if process.poll() is not None]
        if dead or time.monotonic() > deadline:
            raise Missing(f"servers failed: {[p.args for p in dead]}, not listening: {waiting}\n{_log()}")
        time.sleep(0.05)


def _log() -> str:
    """What the servers said, for the error message."""
    return "".join(path.read_text()[-2000:] for path in sorted(farms.FOLDER.glob("*.log")))


def _start(netns: str, command: Sequence[str], group: Path | None) -> subprocess.Popen[bytes]:
    """A server in its namespace and control group; what it prints goes to a log beside its configuration."""

    def settle() -> None:
        if group:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        links.enter(netns)

    with (farms.FOLDER / f"{netns}.log").open("wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=settle, start_new_session=True
        )


def _run(command: Sequence[str], hidden: Sequence[Path]) -> int:
    """The command, with empty folders where the truth lies; the servers keep seeing theirs."""

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
