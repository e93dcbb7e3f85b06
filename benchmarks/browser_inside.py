# SPDX-License-Identifier: MIT
"""In the guest: one condition's cells, each loaded by our client and by Chromium; a line of JSON per cell.

python -m benchmarks.browser_inside PROGRAM CONDITION REPEATS PAGE...     (benchmarks/browser.py boots it)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path

from configtron.lab.testbed import families, loads, model, network, servers
from configtron.lab.testbed.browser import Browser
from configtron.lab.testbed.stack import ServerStack
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from configtron.model.errors import ConfigtronError
from configtron.model.nouns import Profile
from configtron.tune.drivers import load as driver

# Congestion control, initial window, the servers' queue: what the papers found to matter most, each beside the default.
STACKS = (
    ("cubic", 10, "pfifo_fast"), ("cubic", 1, "pfifo_fast"), ("cubic", 30, "pfifo_fast"), ("cubic", 10, "fq"),
    ("bbr", 10, "fq"), ("bbr", 30, "fq"), ("vegas", 10, "pfifo_fast"), ("reno", 10, "pfifo_fast"),
)  # fmt: skip
# A load that has not ended by then is noted as a failure.
LIMIT_S = 300.0


def main(program: str, condition_name: str, repeats: int, names: Sequence[str]) -> None:
    """Write down every cell as it is done."""
    known = model.shipped()
    held = [known[name] for name in names]
    condition = families.named(condition_name)
    testbed = network.raise_testbed(condition, sorted({origin for page in held for origin in page.origins}))
    with ExitStack() as entered, (Path(GUEST_OUTPUT) / "cells").open("w") as out:
        entered.enter_context(servers.start(held, netns=network.SERVERS))
        client = entered.enter_context(loads.PageClient(held, testbed.addresses, program, netns=network.CLIENT))
        stack = ServerStack(testbed, driver)
        # one browser at a time: two would have each other's timers
        for http in loads.VERSIONS:
            with Browser(held, testbed.addresses, http=http, netns=network.CLIENT) as browser:
                for row, page in cells(stack, names):

                    def ours(seed: int, page: str = page, http: str = http) -> tuple[str, float]:
                        found = client.load(page, http=http, seed=seed, limit_s=LIMIT_S)
                        return found.failed, found.plt_ms

                    def theirs(seed: int, page: str = page, browser: Browser = browser) -> tuple[str, float]:
                        found = browser.load(page, seed=seed, limit_s=LIMIT_S)
                        return found.failed, found.plt_ms

                    cell: dict[str, object] = {"condition": condition_name, "page": page, "http": http, "stack": row}
                    for who, load in (("ours", ours), ("browser", theirs)):
                        samples = []
                        for seed in range(repeats):
                            testbed.change(condition, seed=seed)
                            samples.append(load(seed))
                        cell[who] = samples
                    out.write(json.dumps(cell) + "\n")
                    out.flush()
    testbed.close()


def cells(stack: ServerStack, names: Sequence[str]) -> Iterator[tuple[tuple[str, int, str], str]]:
    """Every stack, put in force, with every page."""
    for row, name in product(STACKS, names):
        control, window, pacing = row
        settings = (("tcp_congestion_control", control), ("initcwnd", window), ("pacing", pacing))
        stack.apply(Profile("/".join(map(str, row)), settings))
        yield row, name


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    except ConfigtronError as error:
        sys.exit(f"browser_inside: {error}")
