# SPDX-License-Identifier: MIT
"""Another program takes away all that an agent has in force for 100 000 prefixes; what the agent does, as JSON.

foreign_changes.py ebpf detached     the program at the control group is detached; run it apart (support/isolation.py)
foreign_changes.py ebpf removed      all pins are removed; run it apart
foreign_changes.py kmod MODULE       the module's tables are emptied; in a guest
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

from configtron.linux.libbpf import call
from configtron.linux.netns import inside
from configtron.tune.drivers.bpf import pins
from tests.support.draws import Server, settings
from tests.support.faults.real_fleet import RealFleet, prefixes
from tests.support.tune import kmod_net
from tests.support.tune.left import GROUP, nothing_left, placed, serving
from tests.support.waiting import PATIENCE_S, until

COUNT = 100_000
# A busy machine renews a lease of seconds late.
LEASE_S = 10.0
METRICS = "127.0.0.1:9316"


class Stack(NamedTuple):
    """What is tuned. tune: the verb's options; window: of a new connection of a client that the map tunes; change: what
    another program does; left: whether something of ours is in the kernel."""

    tune: list[str]
    client: str
    ports: tuple[int, ...]
    window: Callable[[], int]
    change: Callable[[], None]
    left: Callable[[], bool]


@contextmanager
def ebpf(how: str) -> Iterator[Stack]:
    """A control group with a server in it."""
    with placed(), serving():
        server, group = Server(), pins.mounts("cgroup2")[0] / GROUP

        def window() -> int:
            client, served = server.connect("127.1.0.5")
            with client, served:
                return settings(served)[0]

        def change() -> None:
            if how == "removed":
                shutil.rmtree(pins.ROOT)
                return
            for link in pins.ROOT.glob(f"*/{pins.LINK}"):
                with pins.opened(link) as opened:
                    call("bpf_link_detach", opened)

        def left() -> bool:
            shown = subprocess.run(["bpftool", "cgroup", "show", str(group)], capture_output=True, text=True).stdout
            return "sock_ops" in shown or not nothing_left()

        yield Stack(["--driver", "ebpf", "--cgroup", GROUP], "127.1.0.0/16", (server.port, server.port + 1), window,
                    change, left)  # fmt: skip


@contextmanager
def kmod(module: str) -> Iterator[Stack]:
    """The namespaces of `kmod_net`."""
    kmod_net.load(module)
    with kmod_net.hosts():
        kmod_net.delayed(0.001)
        listener = kmod_net.listener(kmod_net.PORT4)

        def window() -> int:
            client, served = kmod_net.connected(listener, "10.1.0.5", kmod_net.PORT4)
            with client, served:
                return kmod_net.window(served)

        def change() -> None:
            with kmod_net.device() as device:
                device.flush()

        def left() -> bool:
            with kmod_net.device() as device:
                return bool(device.status()["prefixes"] or device.profiles())

        with inside("s"):
            yield Stack(["--driver", "kmod"], "10.1.0.0/16", (kmod_net.PORT4,), window, change, left)


def metric_s() -> float | None:
    """Return the seconds of the lease by the agent's metrics; None: none are served yet, or no map is in force."""
    try:
        text = urlopen(f"http://{METRICS}/metrics", timeout=PATIENCE_S).read().decode()
    except OSError:
        return None
    found = [line for line in text.splitlines() if line.startswith("configtron_agent_lease_seconds ")]
    return float(found[0].split()[1]) if found else None


def main(stack: Stack, folder: Path) -> dict[str, Any]:
    """Change what is in force, offer another map, wait for longer than the lease, unfreeze."""
    form = {"prefixes": {**prefixes(COUNT - 1), stack.client: "near"}, "ports": stack.ports, "lease_s": LEASE_S}
    fleet, found = RealFleet(folder, stack.tune, form), dict[str, Any]()
    with fleet.manager(), fleet.agent("--metrics", METRICS):
        until(lambda: fleet.held() == "1.1", fleet.logs)
        until(lambda: bool(metric_s()), fleet.logs)
        found["before"] = stack.window()
        stack.change()
        found["noticed_s"] = until(lambda: bool(fleet.lines("another program changed")), fleet.logs)
        found["after"] = stack.window()
        fleet.publish({**form, "prefixes": {**form["prefixes"], "203.0.113.0/24": "near"}})
        until(lambda: bool(fleet.lines("rejects map 1.2: frozen", "manager")), fleet.logs)
        time.sleep(1.5 * LEASE_S)
        found["later"] = stack.window()
        # by the agent's metrics, and of each lease by `tune status`
        status = [
            json.loads(line) for line in fleet.tuned("status", "-f", "jsonl").splitlines() if line.startswith("{")
        ]
        found["leases"] = [metric_s(), *(row["lease_left_s"] for row in status if row["status"] == "leased")]
        found["lines"], found["frozen"] = fleet.lines("another program changed"), fleet.frozen()
        fleet.tuned("unfreeze", "--all")
        found["back_s"] = until(lambda: stack.window() == found["before"], fleet.logs)
    found["end"], found["left"], found["log"] = stack.window(), stack.left(), fleet.log()
    return found


if __name__ == "__main__":
    made = {"ebpf": ebpf, "kmod": kmod}[sys.argv[1]](sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="foreign-") as name, made as stack:
        found = main(stack, Path(name))
    if sys.argv[1] == "kmod":
        found |= kmod_net.ended()
    print(json.dumps(found))
