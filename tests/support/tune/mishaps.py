# SPDX-License-Identifier: MIT
"""What befalls the driver's pins, printed as JSON: a process that ends, one that is killed, hands of others.

mishaps.py     run it apart (tests/support/isolation.py)
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

from configtron.linux import netns
from configtron.linux.libbpf import Map, call
from configtron.model.errors import ConfigtronError
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place, Rules
from configtron.tune.drivers.bpf import cells, controls, layout, pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.drivers.bpf.layout import LayoutRow
from configtron.tune.drivers.bpf.tables import BpfMaps
from configtron.tune.rules import after
from tests.support.tune.left import PLACE, nothing_left, placed
from tests.support.tune.sockets import INFO

# linux/tcp.h: absent from Python's socket module.
NOTSENT_LOWAT = 25
FAST = Profile("fast", (("initcwnd", 40), ("tcp_congestion_control", "cubic"), ("tcp_slow_start_after_idle", 0)))
SLOW = Profile("slow", (("initcwnd", 4),))
PREFIXES = {"0.0.0.0/0": "slow", "10.0.0.0/8": "fast", "10.1.2.3/32": "slow", "::/0": "fast", "2001:db8::/48": "slow"}
CHANGES = Changes({"fast": FAST, "slow": SLOW}, PREFIXES, default="slow")


@contextmanager
def forked() -> Iterator[bool]:
    """True in a child that ends with the block, False in the parent, which waits for it."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    yield not child
    if not child:
        os._exit(0)


def killed_at_the_end(self: EbpfDriver, *_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def results(driver: EbpfDriver) -> dict[str, object]:
    before, found = driver.before(), dict[str, object]()
    refused(driver, Changes(prefixes={"10.9.0.0/16": "absent"}))
    found["refused at first, nothing made"] = nothing_left() and driver.before() == before
    with forked() as child:
        if child:
            driver.apply(CHANGES)
    wanted = after(Rules(), CHANGES)
    found["outlives its process"] = driver.read() == wanted
    found["nothing changed, same mark"] = driver.mark() == driver.mark()
    found |= foreign_hands(driver, wanted)
    mark = driver.mark()
    some = driver.apply(
        Changes(prefixes={"10.0.0.0/8": "slow"}, dropped_prefixes=frozenset({"10.1.2.3/32", "9.9.9.9/32"}))
    )
    found["a change is read back"] = some.prefixes == {"10.0.0.0/8": "slow"}
    found["dropped is gone"] = "10.1.2.3/32" not in driver.read().prefixes
    found["our change, other mark"] = driver.mark() != mark
    found["unknown profile"] = refused(driver, Changes(prefixes={"10.9.0.0/16": "absent"}))
    found["profile in use"] = refused(driver, Changes(dropped_profiles=frozenset({"slow"})))
    found["refused, unchanged"] = driver.read().prefixes.keys() == PREFIXES.keys() - {"10.1.2.3/32"}
    found |= larger(driver)
    driver.revert(before)
    driver.revert(before)
    found["reverted"] = nothing_left() and driver.read() == Rules() and driver.mark() == "nothing"
    found |= killed(driver, before)
    found |= refused_at_a_connection(driver)
    driver.revert(before)
    found |= held_by_another(driver, before)
    return found | group_removed() | another_namespace()


def foreign_hands(driver: EbpfDriver, wanted: Rules) -> dict[str, object]:
    found: dict[str, object] = {}
    folder, mark = pins.folder(PLACE), driver.mark()
    for place, key, value in (("prefixes", layout.CLIENT_BYTES, layout.MATCH.size), ("prefixes4", 4, cells.CELL.size)):
        with closing(Map.pinned(folder / place)) as outer:
            number = struct.unpack("=I", outer.get(bytes(4)) or b"")[0]
            entry = ["key", *["0"] * key, "value", *["0"] * value]
            tried = subprocess.run(["bpftool", "map", "update", "id", str(number), *entry], capture_output=True)
            found[f"{place} are closed to others"] = tried.returncode != 0 and driver.read() == wanted
            found |= another_table(driver, outer, number)
    current = Map.pinned(folder / "current")
    held = current.get(struct.pack("=I", 1)) or b""
    current.put(struct.pack("=I", 1), struct.pack("=I", 0))
    found["a profile taken out of force"] = driver.mark() != mark
    current.put(struct.pack("=I", 1), held)
    current.close()
    found["put back, same mark"] = driver.mark() == mark
    with pins.opened(folder / pins.LINK) as link:
        call("bpf_link_detach", link)
    found["detached by others"] = driver.mark() != mark and driver.read() == Rules()
    driver.apply(CHANGES)
    found["healed by the next apply"] = driver.read() == wanted
    mark = driver.mark()
    controls.withdraw("ct_cubic_keep")
    found["congestion control withdrawn"] = driver.mark() != mark
    driver.apply(Changes({"fast": FAST}))
    found["and put in force again"] = driver.mark().split(":")[2] == mark.split(":")[2]
    (folder / pins.LINK).unlink()
    found["unpinned by others"] = driver.mark() == "nothing"
    driver.apply(CHANGES)
    (folder / "profiles").unlink()
    found["a map unpinned"] = driver.mark() == "nothing" and driver.read() == Rules()
    driver.apply(CHANGES)
    found["pinned again"] = driver.read() == wanted
    return found


def another_table(driver: EbpfDriver, outer: Map, number: int) -> dict[str, object]:
    """The table itself is closed, its place is not: a table put there by another process is seen."""
    found, mark = dict[str, object](), driver.mark()
    with closing(Map(call("bpf_map_get_fd_by_id", number))) as ours:
        if ours.value_bytes == cells.CELL.size:
            other = cells.made(8)
        else:
            other = Map(call("bpf_map_create", 1, b"other", ours.key_bytes, ours.value_bytes, 8, None))
        outer.put(bytes(4), struct.pack("=I", other.descriptor))
        found[f"another table for {number}"] = driver.mark() != mark and driver.read().prefixes != PREFIXES
        outer.put(bytes(4), struct.pack("=I", ours.descriptor))
    other.close()
    found[f"our table again, {number}"] = driver.mark() == mark and driver.read().prefixes == PREFIXES
    return found


def larger(driver: EbpfDriver) -> dict[str, object]:
    """More prefixes than a table has room for: a larger one, with all that the smaller one held."""
    found, before = dict[str, object](), driver.read()
    count = layout.LEAST_ROOM + 1
    four = {f"172.16.{n >> 5}.{(n & 31) << 3}/29": ("slow", "fast")[n & 1] for n in range(count)}
    six = {f"2001:db8:1:{n + 1:x}::/64": ("slow", "fast")[n & 1] for n in range(count)}
    with BpfMaps(pins.folder(PLACE)) as tables:
        for family, many, length in ((0, four, 125), (1, six, 64)):
            small, lengths = tables.room(), tables.lengths()
            driver.apply(Changes(prefixes=many))
            found[f"a larger table, {family}"] = small[family] <= count < tables.room()[family]
            found[f"the other as it was, {family}"] = small[1 - family] == tables.room()[1 - family]
            found[f"it holds all, {family}"] = driver.read() == after(before, Changes(prefixes=many))
            wanted = [*lengths]
            wanted[family] = dict(sorted((wanted[family] | {length: count}).items(), reverse=True))
            found[f"a length more, {family}"] = tables.lengths() == wanted
            driver.apply(Changes(dropped_prefixes=frozenset(many)))
            found[f"and gone again, {family}"] = tables.lengths() == lengths and driver.read() == before
    return found


def refused(driver: EbpfDriver, changes: Changes) -> str:
    try:
        driver.apply(changes)
    except ConfigtronError as error:
        return str(error)
    return ""


def killed(driver: EbpfDriver, before: str) -> dict[str, object]:
    """SIGKILL when all is written and nothing is attached yet."""
    found: dict[str, object] = {}
    for mend in ("apply", "revert"):
        with forked() as child:
            if child:
                EbpfDriver._attach = killed_at_the_end  # type: ignore[assignment]
                driver.apply(CHANGES)
        found[f"killed before {mend}: pins left, nothing in force"] = not nothing_left() and driver.read() == Rules()
        if mend == "apply":
            driver.apply(CHANGES)
            found["the next apply mends it"] = driver.read() == after(Rules(), CHANGES)
        driver.revert(before)
        found[f"revert after {mend} leaves nothing"] = nothing_left()
    return found


def refused_at_a_connection(driver: EbpfDriver) -> dict[str, object]:
    """Values that the kernel will not take, let through on purpose: none of them is lost without a word."""
    found: dict[str, object] = {}
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # two options that REFUSED says the kernel denies to BPF, and a time-out beyond what it allows
    layout.ROWS = (*layout.ROWS, LayoutRow("quickack", 6, 12), LayoutRow("busy_poll", 1, 46))
    refused = {"min_rto": 0.4, "quickack": 1, "busy_poll": 50}
    settings = (("initcwnd", 7), *refused.items(), ("notsent_lowat", 5), ("tcp_congestion_control", "cubic"))
    driver.apply(Changes({"p": Profile("p", settings[:1])}, {"127.0.0.0/8": "p"}))
    with BpfMaps(pins.folder(PLACE)) as tables:
        tables.set_profiles({"p": Profile("p", settings)}, 100)
        # a socket belongs to the group that its maker was in
        (pins.group(PLACE) / "cgroup.procs").write_text("0")
        with socket.create_server(("127.0.0.1", 0)) as server:
            with socket.create_connection(server.getsockname()), server.accept()[0] as served:
                results = driver.refusals()
                found["the others are set"] = served.getsockopt(socket.IPPROTO_TCP, NOTSENT_LOWAT) == 5
        (pins.mounts("cgroup2")[0] / "cgroup.procs").write_text("0")
    found["what is refused is counted"] = results == dict.fromkeys(refused, (1, os.strerror(errno.EINVAL)))
    return found


def held_by_another(driver: EbpfDriver, before: str) -> dict[str, object]:
    """A program attached without leave for others, as old tools do."""
    pins.mount()
    program, group = str(pins.BPFFS / "other"), str(pins.group(PLACE))
    subprocess.run(["bpftool", "prog", "load", sys.argv[1], program, "type", "sockops"], check=True)
    subprocess.run(["bpftool", "cgroup", "attach", group, "cgroup_sock_ops", "pinned", program], check=True)
    found: dict[str, object] = {"held by another": refused(driver, CHANGES)}
    driver.revert(before)
    subprocess.run(["bpftool", "cgroup", "detach", group, "cgroup_sock_ops", "pinned", program], check=True)
    os.unlink(program)
    found["reverted beside another"] = nothing_left()
    return found


def first_window(one: socket.socket) -> int:
    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return int(struct.unpack_from("=I", info, INFO["cwnd"])[0])


def another_namespace() -> dict[str, object]:
    """A driver for a named network namespace: connections there, and there only."""
    # `ip netns` must not write names that the host would see
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    subprocess.run(["ip", "netns", "add", "other"], check=True)
    subprocess.run(["ip", "-n", "other", "link", "set", "lo", "up"], check=True)
    there = EbpfDriver(Place(netns="other", cgroup=PLACE.cgroup))
    before = there.before()
    there.apply(Changes({"slow": SLOW}, {"127.0.0.0/8": "slow"}))
    windows, moved = dict[str, int](), dict[str, tuple[int, int]]()
    (pins.group(PLACE) / "cgroup.procs").write_text("0")
    for name in ("", "other"):
        with netns.inside(name), socket.create_server(("127.0.0.1", 0)) as server:
            with socket.create_connection(server.getsockname()), server.accept()[0] as served:
                windows[name] = first_window(served)
                moved[name] = there.move()
    (pins.mounts("cgroup2")[0] / "cgroup.procs").write_text("0")
    found: dict[str, object] = {"set there, not here": windows == {"": 10, "other": 4}}
    found["moved there, not here"] = moved == {"": (0, 0), "other": (1, 1)}
    found["nothing stands here"] = EbpfDriver(PLACE).read() == Rules() != there.read()
    subprocess.run(["ip", "netns", "delete", "other"], check=True)
    found["a namespace that is gone"] = "other" in there.missing() and there.read() == Rules() and not nothing_left()
    subprocess.run(["ip", "netns", "add", "other"], check=True)
    found["another one of that name"] = there.missing() == "" and there.read() == Rules()
    there.apply(Changes({"slow": SLOW}, {"127.0.0.0/8": "slow"}))
    found["is set anew"] = there.read().prefixes == {"127.0.0.0/8": "slow"}
    subprocess.run(["ip", "netns", "delete", "other"], check=True)
    there.revert(before)
    found["reverted after it"] = nothing_left()
    return found


def group_removed() -> dict[str, object]:
    """The control group goes while a program is attached: a service that was stopped."""
    short = Place(cgroup=f"{PLACE.cgroup}/short")
    group = pins.group(PLACE) / "short"
    group.mkdir()
    driver = EbpfDriver(short)
    before = driver.before()
    driver.apply(CHANGES)
    group.rmdir()
    found: dict[str, object] = {"a group that is gone": "short" in driver.missing() and driver.read() == Rules()}
    group.mkdir()
    found["another one of its name"] = driver.read() == Rules() and driver.mark() == "nothing"
    group.rmdir()
    driver.revert(before)
    found["reverted without it"] = nothing_left()
    return found


def main() -> None:
    with placed() as (driver, _):
        print(json.dumps(results(driver)), flush=True)


if __name__ == "__main__":
    main()
