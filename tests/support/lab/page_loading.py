# SPDX-License-Identifier: MIT
"""Runs in a guest: loads pages on the testbed and writes each load's line; test_page_loads.py orders and judges.

python -m tests.support.lab.page_loading PROGRAM SERVER RTT_MS RATE_KBIT LOSS REPEATS PAGE...
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from configtron.lab.testbed import loads, model, network, servers
from configtron.lab.testbed.conditions import Condition, LinkDirection
from configtron.lab.testbed.pages import PageModel, PageObject
from configtron.lab.uml.enclosure import GUEST_OUTPUT

# Less than a load of it takes.
SHORT_LIMIT_S = 0.1


def main(
    program: str, server: str, rtt_ms: float, rate_kbit: float, loss: float, repeats: int, names: list[str]
) -> None:
    """Every page over both versions, then failures of each kind and a load after them."""
    held = [page for name, page in model.shipped().items() if name in names]
    queue = max(46_000, round(rate_kbit * rtt_ms / 8))
    way = LinkDirection(rate_kbit=rate_kbit, delay_ms=rtt_ms / 2, loss=loss, queue_bytes=queue)
    condition = Condition("test", way, replace(way, rate_kbit=0, queue_bytes=0, loss=0))
    origins = sorted({origin for page in held for origin in page.origins})
    testbed = network.raise_testbed(condition, origins)
    # a page that the servers do not have, and one of which they have another size
    absent = PageModel("absent", held[0].origins, (PageObject("/absent/index.html", 9000, "html"),))
    wrong = replace(held[0], gaps_ms=(), objects=(replace(held[0].objects[0], size=999_999),))
    with (
        (Path(GUEST_OUTPUT) / "loads").open("w") as out,
        servers.start(held, program=server, netns=network.SERVERS),
        loads.PageClient([*held, absent], testbed.addresses, program=program, netns=network.CLIENT) as client,
        loads.PageClient([wrong], testbed.addresses, program=program, netns=network.CLIENT) as liar,
    ):

        def note(load: loads.Load) -> None:
            out.write(json.dumps(asdict(load)) + "\n")

        for repeat in range(repeats):
            for page in held:
                for http in loads.VERSIONS:
                    testbed.change(condition, seed=repeat)
                    note(client.load(page.name, http=http, seed=repeat))
        for http in loads.VERSIONS:
            note(client.load("absent", http=http))
            note(liar.load(held[0].name, http=http))
            note(client.load(held[0].name, http=http, limit_s=SHORT_LIMIT_S))
            note(client.load(held[0].name, http=http))


if __name__ == "__main__":
    words = sys.argv[1:]
    main(words[0], words[1], float(words[2]), float(words[3]), float(words[4]), int(words[5]), words[6:])
