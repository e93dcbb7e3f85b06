# SPDX-License-Identifier: MIT
"""Runs in a guest: what a testbed would do for each load that had neither netlink nor a client that stays.

    python -m benchmarks.testbed_naive CLIENT forks|client TIMES

forks   a link's change by programs: `tc` for each queueing discipline of both ways, and once more to read them back
client  a page-load client started for a load of the smallest page, and ended
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from configtron.lab.testbed import loads, model, network, servers
from configtron.lab.testbed.families import named
from configtron.lab.testbed.network import Testbed
from configtron.lab.testbed.wires import TO_CLIENT, TO_SERVERS

SMALLEST, LINK = "search", "hotcloud:5/50/0"
CHANGE = (
    f"qdisc replace dev {TO_CLIENT} root handle 1: netem delay 25ms limit 100000",
    f"qdisc replace dev {TO_CLIENT} parent 1:1 handle 10: tbf rate 5mbit burst 1600 limit 50000",
    f"qdisc replace dev {TO_CLIENT} parent 10:1 handle 20: bfifo limit 50000",
    f"qdisc replace dev {TO_SERVERS} root handle 1: netem delay 25ms limit 100000",
    "-s qdisc show",
)


def by_forks(testbed: Testbed, client: str) -> None:
    """One change."""
    for words in CHANGE:
        subprocess.run(["tc", *words.split()], check=True, stdout=subprocess.DEVNULL)


def by_new_client(testbed: Testbed, client: str) -> None:
    """One load."""
    with loads.PageClient([model.shipped()[SMALLEST]], testbed.addresses, client, netns=network.CLIENT) as fresh:
        assert not fresh.load(SMALLEST).failed


WAYS: dict[str, Callable[[Testbed, str], None]] = {"forks": by_forks, "client": by_new_client}


def main(client: str, what: str, times: int) -> None:
    """One of `WAYS`, so many times."""
    page = model.shipped()[SMALLEST]
    testbed = network.raise_testbed(named(LINK), page.origins)
    with servers.start([page], netns=network.SERVERS):
        for _ in range(times):
            WAYS[what](testbed, client)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
