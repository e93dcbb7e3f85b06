# SPDX-License-Identifier: MIT
"""Inside a guest in real time: a flush of many prefixes, killed on its way, and others at the tables; prints JSON.

python3 -m tests.support.tune.kmod_flush configtron.ko
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

from configtron.tune.drivers.kmod.device import Device
from configtron.tune.drivers.kmod.module_units import packed
from tests.support.tune.kmod_net import complaints, drained, load

PREFIXES = 300_000


def filled(kmod: Device, made: int) -> None:
    kmod.set_prefixes(packed({f"{16 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.0/24": made for i in range(PREFIXES)}))


def begun(kmod: Device) -> None:
    """Wait until a flush has removed something."""
    while kmod.status()["prefixes"] == PREFIXES:
        time.sleep(0.001)


def killed(kmod: Device, made: int) -> list[int]:
    """Left by a flush that was killed: by status, by dump, by the profile; then removed by the next, and left."""
    filled(kmod, made)
    ready, says = os.pipe()
    child = os.fork()
    if not child:
        os.write(says, b"x")
        kmod.flush()
        os._exit(0)
    os.read(ready, 1)
    begun(kmod)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    left = [kmod.status()["prefixes"], len(kmod.dump()), kmod.stats(made)["prefixes"]]
    return [*left, kmod.flush(), kmod.status()["prefixes"]]


def meanwhile(kmod: Device, made: int) -> dict[str, Any]:
    """Calls that change the tables while a flush is under way, and what becomes of a prefix set then."""
    filled(kmod, made)
    removed: list[int] = []
    with Device() as other:
        flushes = threading.Thread(target=lambda: removed.append(other.flush()))
        flushes.start()
        begun(kmod)
        kmod.set_prefixes(packed({"10.0.0.0/24": made}))
        calls = 0
        while kmod.status()["prefixes"] > 1:  # as the kernel has it: a thread may end long after its call
            kmod.delete_profile(kmod.new_profile("quick"))
            calls += 1
        flushes.join()
    stays = "stays" if kmod.status()["prefixes"] == 1 else "is gone"
    kmod.flush()
    return {"calls": calls, "set meanwhile": stays, "removed": removed[0]}


def main(module: str) -> None:
    load(module)
    found: dict[str, Any] = {"prefixes": PREFIXES}
    with Device() as kmod:
        made = kmod.new_profile("p")
        found |= {"killed": killed(kmod, made), "meanwhile": meanwhile(kmod, made)}
    found |= {"unload": drained(), "complaints": complaints()}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
