# SPDX-License-Identifier: MIT
"""Inside a guest: open connections of a prefix get another profile of the module, and their own one back. JSON.

python3 -m tests.support.tune.kmod_retuned configtron.ko
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from configtron.db.tuning import Tuning
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place
from configtron.service.lease.context import context_of
from configtron.service.lease.retuning import OpenRetuner, SocketTarget
from configtron.tune.drivers.kmod.kmod_driver import KmodDriver
from configtron.tune.drivers.pidfd_options import OpenClient
from tests.support.tune.kmod_net import PORT4, complaints, connected, control, default, drained, hosts, listener, load

NEAR = Profile("near", (("tcp_congestion_control", "vegas"), ("notsent_lowat", 5000), ("min_rto", 0.05)))
FAR = Profile("far", (("tcp_congestion_control", "bbr"), ("priority", 3)))
CLIENTS = {"changes": "10.1.0.9", "changes too": "10.1.0.10", "another prefix": "10.2.0.9", "no prefix": "10.9.0.9"}
RULES = Changes({"near": NEAR, "far": FAR}, {"10.1.0.0/16": "near", "10.2.0.0/16": "near"})
LOWAT, PRIORITY = (6, 25), (1, 12)


def targets(found: Sequence[OpenClient]) -> Mapping[int, SocketTarget]:
    prefix = "10.1.0.0/16"
    return {one.cookie: SocketTarget(prefix, "a", "b", FAR) for one in found if one.address in ip_network(prefix)}


def main(module: str) -> None:
    load(module)
    found: dict[str, Any] = {}
    with hosts(), tempfile.TemporaryDirectory() as folder, Tuning(Path(folder) / "tune.db") as journal:
        place = Place("s")
        driver = KmodDriver(place)
        time.sleep(3)
        before = driver.before()
        driver.apply(RULES)
        at = listener(PORT4)
        ends = {name: connected(at, client, PORT4) for name, client in CLIENTS.items()}

        def seen() -> dict[str, Any]:
            return {name: [control(served), driver.assigned(served.fileno()), served.getsockopt(*LOWAT),
                           served.getsockopt(*PRIORITY)] for name, (_, served) in ends.items()}  # fmt: skip

        here = OpenRetuner(context_of(journal), driver, place)
        found["begun"] = seen()
        found["text"], found["changed"] = here.retune(targets, [NEAR, FAR]).text, seen()
        found["back"], found["after"] = here.put_back().put_back, seen()
        driver.revert(before)
        for one in (*(one for pair in ends.values() for one in pair), at):
            with suppress(OSError):
                one.close()
        default("cubic")
    found["unload"], found["complaints"] = drained(), complaints()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
