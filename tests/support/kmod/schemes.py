# SPDX-License-Identifier: MIT
"""Runs as root inside a guest: one congestion control after another under the module, with ECN and without.

Question   Does each congestion control come and go under the module without a reference lost or one too many?
Method     Load its module and ours; a profile with it for 127.0.0.0/8; clients over loopback, which where asked delays,
           loses and (with ECN) marks; change parameters, assign profiles, choose others, reset meanwhile; close
           everything; unload ours, then its. References come from /proc/modules, names from getsockopt(2).
Reads as   one row a congestion control and ECN: what its connections ran, references before and after, `ok` or why not.
Source     net/ipv4/tcp_cong.c, tcp_dctcp.c of Linux 6.12
"""

from __future__ import annotations

import errno
import os
import random
import socket
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from configtron.tune.drivers.kmod.abi import FLAGS, KEY_OF
from configtron.tune.drivers.kmod.device import Device
from configtron.tune.drivers.kmod.module_units import packed
from tests.support.tune.two_hosts import congestion_control

Row = dict[str, object]

IPV4 = Path("/proc/sys/net/ipv4")
PLAIN = "reno"  # in every kernel, and no module
# Those that the module must refuse, and how: they need ECN.
REFUSED = {"dctcp": errno.EPROTONOSUPPORT}
# Those of planted/replacing.c that replace their operations when a connection begins: what runs then.
REPLACED = {"rep_init": "rep_other"}
PLANTED = ("rep_init", "rep_release", "rep_late", "lost_get", "lost_put")
# Modules that another one calls: loaded before it.
NEEDS = {"yeah": "vegas"}
# A batch of connections is open at the same time; each is sent so much.
BATCH = 50
SENT = 30_000
# The last connections wait for their ACK, the last versions for RCU.
PATIENCE_S = 30
# struct tcp_info of linux/tcp.h: the byte of options, of which 8 is TCPI_OPT_ECN
OPTIONS_AT, ECN = 5, 8
DEFAULT = "tcp_congestion_control"


def references(module: str) -> int | None:
    """How many hold a module; None when it is not loaded."""
    for line in Path("/proc/modules").read_text().splitlines():
        name, _, count, *_ = line.split()
        if name == module:
            return int(count)
    return None


def insert(path: Path) -> bool:
    """Whether the module is there to be loaded and now is."""
    if not path.exists():
        return False
    if references(path.stem) is None:
        subprocess.run(["insmod", str(path)], check=True)
    return True


def remove(module: str) -> str:
    """ "" when it is gone, else the last message of rmmod."""
    until = time.monotonic() + PATIENCE_S
    while True:
        done = subprocess.run(["rmmod", module], capture_output=True, text=True)
        if not done.returncode:
            return ""
        if time.monotonic() > until:
            return done.stderr.strip()
        time.sleep(0.2)


def file_of(folder: Path, name: str) -> Path:
    return folder / ("replacing.ko" if name in PLANTED else f"tcp_{name}.ko")


def names(folder: Path) -> list[str]:
    """Every congestion control that this kernel has built in or as a module in `folder`."""
    built_in = (IPV4 / "tcp_available_congestion_control").read_text().split()
    files = (path.stem.removeprefix("tcp_") for path in folder.glob("tcp_*.ko"))
    return sorted({*built_in, *files} - {"configtron", *PLANTED, "rep_other"})


@contextmanager
def link(lossy: bool) -> Iterator[None]:
    """A loopback that is a network: a millisecond, losses, marks instead of losses where ECN was agreed on."""
    if not lossy:
        yield
        return
    subprocess.run("tc qdisc add dev lo root netem delay 1ms loss 1% ecn limit 10000".split(), check=True)
    yield
    subprocess.run("tc qdisc del dev lo root".split(), check=True)


def every(folder: Path, connections: int, lossy: bool) -> list[Row]:
    """A row for each congestion control and ECN; ends after the first that leaves the module behind."""
    rows: list[Row] = []
    wanted = [*names(folder), *(("rep_init", "rep_release") if (folder / "replacing.ko").exists() else ())]
    with link(lossy):
        for name in wanted:
            rows += one(folder, name, connections)
            if references("configtron") is not None:
                break
    return rows


def one(folder: Path, name: str, connections: int) -> list[Row]:
    """Load, use with ECN and without, unload."""
    (IPV4 / DEFAULT).write_text(PLAIN)
    insert(folder / f"tcp_{NEEDS.get(name, '')}.ko")
    path = file_of(folder, name)
    module = path.stem if insert(path) else ""
    insert(folder / "configtron.ko")
    with Device() as device:
        rows = used(device, name, module, connections)
        device.flush()
        for number in device.profiles():
            device.delete_profile(number)
        (IPV4 / DEFAULT).write_text(PLAIN)
    left = [word for which in ("configtron", module) if which and (word := remove(which))]
    if NEEDS.get(name) and not left:
        remove(f"tcp_{NEEDS[name]}")
    rows[-1]["unload"] = "; ".join(left) or "gone"
    if left:
        rows[-1]["result"] = "not unloaded"
    return rows


def used(device: Device, name: str, module: str, connections: int) -> list[Row]:
    try:
        numbers = profiles(device, name)
    except OSError as error:
        row: Row = {"cc": name, "ecn": "-", "connections": 0, "refused": os.strerror(error.errno or 0)}
        row["result"] = "ok, refused" if REFUSED.get(name) == error.errno else "refused"
        return [row]
    (IPV4 / DEFAULT).write_text("configtron")
    return [churned(device, name, module, connections, numbers, ecn) for ecn in (False, True)]


def profiles(device: Device, name: str) -> list[int]:
    """Two profiles, of which one has the congestion control and every client."""
    numbers = [device.new_profile(name), device.new_profile("another")]
    device.set_settings(numbers[0], {KEY_OF["tcp_congestion_control"]: name, KEY_OF["initcwnd"]: 20})
    device.set_settings(numbers[1], {KEY_OF["tcp_congestion_control"]: PLAIN})
    device.set_prefixes(packed({"127.0.0.0/8": numbers[0]}))
    return numbers


def churned(device: Device, name: str, module: str, connections: int, numbers: list[int], ecn: bool) -> Row:
    (IPV4 / "tcp_ecn").write_text(str(int(ecn)))
    (IPV4 / "tcp_ecn_fallback").write_text("0")  # a SYN that is lost and repeated asks for it again
    row: Row = {"cc": name, "ecn": "on" if ecn else "off", "module": module or "built in"}
    with socket.socket() as at:
        at.bind(("127.0.0.1", 0))
        at.listen(2 * BATCH)
        before = held(module)
        ran: Counter[str] = Counter()
        chance = random.Random(connections)
        agreed = 0
        for start in range(0, connections, BATCH):
            agreed += batch(device, at, numbers, min(BATCH, connections - start), ran, chance)
        settled(device, numbers, module, before)
        after = held(module)
    row |= {"connections": connections, "ecn agreed": agreed, "ran": dict(ran), "before": before, "after": after}
    row["alive"] = alive(device, numbers)
    return row | {"result": verdict(row, name, ecn)}


def held(module: str) -> list[int | None]:
    """References to the congestion control's module and to ours."""
    return [references(module) if module else None, references("configtron")]


def settled(device: Device, numbers: list[int], module: str, before: list[int | None]) -> None:
    """Connections end a moment after they are closed, some after a timer."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s and (held(module) != before or alive(device, numbers)):
        time.sleep(0.1)


def alive(device: Device, numbers: list[int]) -> int:
    """Connections that the module counts as begun and not as ended."""
    stats = [device.stats(number) for number in numbers]
    return sum(each["opened"] - each["closed"] for each in stats)


def verdict(row: Row, name: str, ecn: bool) -> str:
    if row["ran"] != {REPLACED.get(name, name): row["connections"]}:
        return "runs another"
    if row["ecn agreed"] != (row["connections"] if ecn else 0):
        return "ECN is not as set"
    if row["alive"]:
        return "connections counted as alive"
    return "ok" if row["before"] == row["after"] else "references"


def batch(
    device: Device, at: socket.socket, numbers: list[int], many: int, ran: Counter[str], chance: random.Random
) -> int:
    """Connections that begin together, move data while something is done to each, and end; how many agreed on ECN."""
    agreed = 0
    with ExitStack() as ends:
        pairs = [(ends.enter_context(client), ends.enter_context(served)) for client, served in begun(at, many)]
        for _, served in pairs:
            ran[congestion_control(served)] += 1
            agreed += bool(served.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[OPTIONS_AT] & ECN)
            served.send(bytes(SENT), socket.MSG_DONTWAIT)
        for client, served in pairs:
            received = 0
            while received < SENT and (got := client.recv(SENT)):
                received += len(got)
                with suppress(OSError):
                    disturb(device, served, numbers, chance)
    return agreed


def begun(at: socket.socket, many: int) -> Iterator[tuple[socket.socket, socket.socket]]:
    for last in range(1, many + 1):
        client = socket.socket()
        client.settimeout(PATIENCE_S)
        client.bind((f"127.3.0.{last}", 0))
        client.connect(at.getsockname())
        yield client, at.accept()[0]


def disturb(device: Device, served: socket.socket, numbers: list[int], chance: random.Random) -> None:
    """What a connection may meet in its life; most meet nothing."""
    which = chance.randrange(12)
    if which == 0:
        device.assign(served.fileno(), chance.choice([0, *numbers]))
    elif which == 1:
        served.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, chance.choice([PLAIN, "configtron"]).encode())
    elif which == 2:
        settings = device.settings(numbers[0]) | {KEY_OF["initcwnd"]: chance.randrange(1, 40)}
        device.set_settings(numbers[0], settings)
    elif which == 3:
        served.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # ends with a reset
    elif which == 4:
        device.set_options(FLAGS["ENABLED"], 0, PLAIN)
