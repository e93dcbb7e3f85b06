# SPDX-License-Identifier: MIT
"""What befalls the driver's pins, printed as JSON: a process that ends, one that is killed, hands of others.

    mishaps.py changes OTHER     OTHER: a compiled program that another one has attached
    mishaps.py gone FOLDER       pins that go without their driver: unmounted, removed by hand, made where they would
                                 not stay; the folder takes a database
    mishaps.py neighbour         another configtron at work on this host, until its standard input ends

Run it apart (tests/support/isolation.py).
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

from configtron.linux import netns
from configtron.linux.libbpf import Map, call
from configtron.model.errors import ConfigtronError
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Changes, Place, Rules
from configtron.service.lease.kernel_rules import marked_state
from configtron.tune.drivers.bpf import cells, controls, layout, pins
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from configtron.tune.drivers.bpf.layout import LayoutRow
from configtron.tune.drivers.bpf.tables import BpfMaps
from configtron.tune.drivers.witness import newest_sockets, witness
from configtron.tune.rules import after
from tests.support.children import child
from tests.support.draws import settings
from tests.support.tune.left import PLACE, nothing_left, placed, serving
from tests.support.waiting import until

Found = dict[str, object]
# linux/tcp.h: absent from Python's socket module.
NOTSENT_LOWAT = 25
FAST = Profile("fast", (("initcwnd", 40), ("tcp_congestion_control", "cubic"), ("tcp_slow_start_after_idle", 0)))
SLOW = Profile("slow", (("initcwnd", 4),))
PREFIXES = {"0.0.0.0/0": "slow", "10.0.0.0/8": "fast", "10.1.2.3/32": "slow", "::/0": "fast", "2001:db8::/48": "slow"}
CHANGES = Changes({"fast": FAST, "slow": SLOW}, PREFIXES, default="slow")
WANTED = after(Rules(), CHANGES)
OURS = "ct_cubic_keep"
OTHERS = {"before": [], "after": [("tcp_congestion_control", "cubic", "reno")]}
# An address of each prefix but 2001:db8::/48: the loopback answers ::1 alone.
OWN_CLIENTS = 4
# The knob is dead: the other program's reno is not the one that keeps its window.
DEAD = [("tcp_slow_start_after_idle", "0", "1")]


@contextmanager
def forked() -> Iterator[bool]:
    """True in a child that ends with the block, False in the parent, which waits for it."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    yield not child
    if not child:
        os._exit(0)


def changes(driver: EbpfDriver, before: str) -> Found:
    found = Found()
    refused(driver, Changes(prefixes={"10.9.0.0/16": "absent"}))
    found["refused at first, nothing made"] = nothing_left() and driver.before() == before
    with forked() as child:
        if child:
            driver.apply(CHANGES)
    found["outlives its process"] = driver.read() == WANTED
    found["nothing changed, same mark"] = driver.mark() == driver.mark()
    found |= foreign_hands(driver)
    found |= larger(driver)
    driver.revert(before)
    driver.revert(before)
    found["reverted"] = nothing_left() and driver.read() == Rules() and driver.mark() == "nothing"
    found |= killed(driver, before)
    found |= refused_at_a_connection(driver)
    driver.revert(before)
    found |= held_by_another(driver, before)
    return found | group_removed() | another_namespace()


def foreign_hands(driver: EbpfDriver) -> Found:
    found = Found()
    folder, mark = pins.folder(PLACE), driver.mark()
    for place, key, value in (("prefixes", layout.CLIENT_BYTES, layout.MATCH.size), ("prefixes4", 4, cells.CELL.size)):
        with closing(Map.pinned(folder / place)) as outer:
            number = struct.unpack("=I", outer.get(bytes(4)) or b"")[0]
            entry = ["key", *["0"] * key, "value", *["0"] * value]
            tried = subprocess.run(["bpftool", "map", "update", "id", str(number), *entry], capture_output=True)
            found[f"{place} are closed to others"] = tried.returncode != 0 and driver.read() == WANTED
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
    found["healed by the next apply"] = driver.read() == WANTED
    mark = driver.mark()
    controls.withdraw(OURS)
    found["congestion control withdrawn"] = driver.mark() != mark
    driver.apply(Changes({"fast": FAST}))
    found["and put in force again"] = driver.mark().split(":")[2] == mark.split(":")[2]
    (folder / pins.LINK).unlink()
    found["unpinned by others"] = driver.mark() == "nothing"
    driver.apply(CHANGES)
    (folder / "profiles").unlink()
    found["a map unpinned"] = driver.mark() == "nothing" and driver.read() == Rules()
    driver.apply(CHANGES)
    found["pinned again"] = driver.read() == WANTED
    return found


def another_table(driver: EbpfDriver, outer: Map, number: int) -> Found:
    """The table itself is closed, its place is not: a table put there by another process is seen."""
    found, mark = Found(), driver.mark()
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


def larger(driver: EbpfDriver) -> Found:
    """More prefixes than a table has room for: a larger one, with all that the smaller one held."""
    found, before = Found(), driver.read()
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


def killed(driver: EbpfDriver, before: str) -> Found:
    """SIGKILL when all is written and nothing is attached yet."""
    found = Found()
    for mend in ("apply", "revert"):
        with forked() as child, patch.object(EbpfDriver, "_attach", lambda *_: os.kill(os.getpid(), signal.SIGKILL)):
            if child:
                driver.apply(CHANGES)
        found[f"killed before {mend}: pins left, nothing in force"] = not nothing_left() and driver.read() == Rules()
        if mend == "apply":
            driver.apply(CHANGES)
            found["the next apply mends it"] = driver.read() == WANTED
        driver.revert(before)
        found[f"revert after {mend} leaves nothing"] = nothing_left()
    return found


def refused_at_a_connection(driver: EbpfDriver) -> Found:
    """Values that the kernel will not take, let through on purpose: none of them is lost without a word."""
    # two options that REFUSED says the kernel denies to BPF, and a time-out beyond what it allows
    layout.ROWS = (*layout.ROWS, LayoutRow("quickack", 6, 12), LayoutRow("busy_poll", 1, 46))
    refused: dict[str, Value] = {"min_rto": 0.4, "quickack": 1, "busy_poll": 50}
    asked = (("initcwnd", 7), *refused.items(), ("notsent_lowat", 5), ("tcp_congestion_control", "cubic"))
    driver.apply(Changes({"p": Profile("p", asked[:1])}, {"127.0.0.0/8": "p"}))
    # a socket belongs to the group that its maker was in
    with BpfMaps(pins.folder(PLACE)) as tables, serving():
        tables.set_profiles({"p": Profile("p", asked)}, 100)
        with connection() as served:
            counted = driver.refusals()
            taken = served.getsockopt(socket.IPPROTO_TCP, NOTSENT_LOWAT) == 5
    wanted = dict.fromkeys(refused, (1, os.strerror(errno.EINVAL)))
    return {"the others are set": taken, "what is refused is counted": counted == wanted}


@contextmanager
def connection(host: str = "127.0.0.1") -> Iterator[socket.socket]:
    """A connection to a server at the loopback: the server's end."""
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as server:
        with socket.create_connection(server.getsockname()[:2]), server.accept()[0] as served:
            yield served


def held_by_another(driver: EbpfDriver, before: str) -> Found:
    """A program attached without leave for others, as old tools do."""
    pins.mount()
    program, group = str(pins.BPFFS / "other"), str(pins.group(PLACE))
    subprocess.run(["bpftool", "prog", "load", sys.argv[2], program, "type", "sockops"], check=True)
    subprocess.run(["bpftool", "cgroup", "attach", group, "cgroup_sock_ops", "pinned", program], check=True)
    found: Found = {"held by another": refused(driver, CHANGES)}
    driver.revert(before)
    subprocess.run(["bpftool", "cgroup", "detach", group, "cgroup_sock_ops", "pinned", program], check=True)
    for order in ("before", "after"):  # with leave
        if order == "after":
            driver.apply(CHANGES)
        subprocess.run(
            ["bpftool", "cgroup", "attach", group, "cgroup_sock_ops", "pinned", program, "multi"], check=True
        )
        driver.apply(CHANGES)
        named = [line for line in driver.ask(WANTED).unasked if " other (id " in line]
        found[f"another {order} ours is named"] = len(named) == 1 and f" runs {order} ours" in named[0]
        newest = newest_sockets()
        with serving(), connection("::1"), connection():
            clients, ours = witness(driver, WANTED, newest)
        # the profile of IPv4 leaves the congestion control to others
        wrong = [(one.knob, one.applied, one.found.partition(":")[0]) for one in clients.differences]
        found[f"what another {order} ours sets"] = clients.connections == 2 and wrong == OTHERS[order]
        shown = [(one.knob, one.applied, one.found.partition(":")[0]) for one in ours.differences]
        found[f"a connection of our own shows another {order} ours"] = ours.asked == OWN_CLIENTS and shown == [
            *OTHERS[order] * 2,
            *(DEAD if OTHERS[order] else ()),
        ]
        driver.revert(before)
        subprocess.run(["bpftool", "cgroup", "detach", group, "cgroup_sock_ops", "pinned", program], check=True)
    os.unlink(program)
    found["no process, nothing to say"] = driver.ask(WANTED).differences == ()
    with child(["unshare", "--net", "sleep", "60"]) as away:
        (Path(group) / "cgroup.procs").write_text(str(away.pid))
        until(lambda: bool(driver.ask(WANTED).differences))
        away.kill()
    found["reverted beside another"] = nothing_left()
    return found


@contextmanager
def named_namespace() -> Iterator[EbpfDriver]:
    """A driver for a named network namespace."""
    # `ip netns` must not write names that the host would see
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    subprocess.run(["ip", "netns", "add", "other"], check=True)
    yield EbpfDriver(Place(netns="other", cgroup=PLACE.cgroup))
    subprocess.run(["ip", "netns", "delete", "other"], check=True)


def another_namespace() -> Found:
    """A driver for a named network namespace: connections there, and there only."""
    slow, windows, moved = Changes({"slow": SLOW}, {"127.0.0.0/8": "slow"}), dict[str, int](), {}
    with named_namespace() as there:
        subprocess.run(["ip", "-n", "other", "link", "set", "lo", "up"], check=True)
        before = there.before()
        there.apply(slow)
        with serving():
            for name in ("", "other"):
                with netns.inside(name), connection() as served:
                    windows[name], moved[name] = settings(served)[0], there.move()
        found: Found = {"set there, not here": windows == {"": 10, "other": 4}}
        found["moved there, not here"] = moved == {"": (0, 0), "other": (1, 1)}
        found["nothing stands here"] = EbpfDriver(PLACE).read() == Rules() != there.read()
        subprocess.run(["ip", "netns", "delete", "other"], check=True)
        gone = "other" in there.missing() and there.read() == Rules() and not nothing_left()
        found["a namespace that is gone"] = gone
        subprocess.run(["ip", "netns", "add", "other"], check=True)
        found["another one of that name"] = there.missing() == "" and there.read() == Rules()
        there.apply(slow)
        found["is set anew"] = there.read().prefixes == {"127.0.0.0/8": "slow"}
    there.revert(before)
    return {**found, "reverted after it": nothing_left()}


def group_removed() -> Found:
    """The control group goes while a program is attached: a service that was stopped."""
    short = Place(cgroup=f"{PLACE.cgroup}/short")
    group = pins.group(PLACE) / "short"
    group.mkdir()
    driver = EbpfDriver(short)
    before = driver.before()
    driver.apply(CHANGES)
    group.rmdir()
    found: Found = {"a group that is gone": "short" in driver.missing() and driver.read() == Rules()}
    group.mkdir()
    found["another one of its name"] = driver.read() == Rules() and driver.mark() == "nothing"
    group.rmdir()
    driver.revert(before)
    found["reverted without it"] = nothing_left()
    return found


def gone(driver: EbpfDriver, before: str) -> Found:
    found = Found()
    driver.apply(CHANGES)
    with pins.opened(pins.folders(PLACE)[0] / pins.LINK) as descriptor:
        call("bpf_link_detach", descriptor)
    found["detached: pins are ours still"] = driver.read() == Rules() and marked_state(driver).startswith("1 folders")
    driver.revert(before)
    found["detached and reverted"] = nothing_left() and marked_state(driver) == ""
    driver.apply(CHANGES)
    subprocess.run(["umount", str(pins.BPFFS)], check=True)
    found["unmounted: nothing in force"] = driver.read() == Rules() and driver.mark() == "nothing"
    found["its control is left"] = OURS in controls.registered()
    driver.revert(before)
    found["and reverted"] = nothing_left() and pins.BPFFS not in pins.mounts("bpf")
    driver.apply(CHANGES)
    shutil.rmtree(pins.ROOT)
    found["removed by hand: nothing in force"] = driver.read() == Rules() and OURS in controls.registered()
    driver.apply(CHANGES)
    found["adopted by the next apply"] = driver.read() == WANTED and OURS in driver.mark()
    shutil.rmtree(pins.ROOT)
    driver.revert(before)
    found["reverted after a hand"] = nothing_left()
    return {**found, **others_at_once(driver, before), **would_not_stay(Path(sys.argv[2]))}


def others_at_once(driver: EbpfDriver, before: str) -> Found:
    """Another configtron takes its last program back, or puts the same control in force, while this one applies."""
    found, attach = Found(), EbpfDriver._attach

    def withdrawn(self: EbpfDriver, here: Path) -> None:
        controls.withdraw(OURS)
        attach(self, here)

    with patch.object(EbpfDriver, "_attach", withdrawn):
        driver.apply(CHANGES)
    found["withdrawn before the program was there"] = OURS in controls.registered()
    with patch.object(controls, "registered", return_value=set[str]()):
        controls.register(OURS)
    found["registered by two"] = OURS in controls.registered()
    driver.revert(before)
    return found


def would_not_stay(folder: Path) -> Found:
    """In the mount namespace that `ip netns exec` makes for one command."""
    tune = [sys.executable, "-m", "configtron", "--db", str(folder / "db"), "tune", "--driver", "ebpf"]

    def run(*words: str, inside: bool = False) -> subprocess.CompletedProcess[str]:
        command = ["ip", "netns", "exec", "other", *tune] if inside else tune
        return subprocess.run([*command, *words], capture_output=True, text=True)

    with named_namespace() as there:
        run("profile", "set", "slow", "initcwnd=4")
        run("prefix", "set", "10.0.0.0/8", "slow")
        refused = run("apply", "--keep", inside=True)
        found: Found = {"apply in ip netns exec": [refused.returncode, refused.stderr]}
        where, slow = ("--netns", "other", "--cgroup", PLACE.cgroup), {"10.0.0.0/8": "slow"}
        found["kept outside it"] = run("apply", *where, "--keep").returncode == 0 and there.read().prefixes == slow
        inside = run("rollback", inside=True)
        found["rollback in ip netns exec says so"] = inside.returncode != 0 and "run it outside" in inside.stderr
        found["and it stands"] = there.read().prefixes == slow
        found["rolled back outside it"] = run("rollback", *where).returncode == 0 and nothing_left()
    return found


def neighbour(driver: EbpfDriver, before: str) -> Found:
    driver.apply(CHANGES)
    print("held", flush=True)
    sys.stdin.read()
    # what the others have put in force and withdrawn meanwhile was not theirs alone
    found: Found = {"in force": driver.read() == WANTED, "its controls too": OURS in controls.registered()}
    driver.revert(before)
    return {**found, "nothing left": nothing_left()}


if __name__ == "__main__":
    play = {"changes": changes, "gone": gone, "neighbour": neighbour}[sys.argv[1]]
    with placed() as here:
        print(json.dumps(play(*here)), flush=True)
