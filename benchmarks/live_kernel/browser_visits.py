# SPDX-License-Identifier: MIT
"""Visitors with a real browser: headless Chromium loads the pages, and the product's own script sends the beacons.

One browser at a time in the whole guest (two would have each other's timers), in one access network after another, for
one version of HTTP and one server. A client is an address of its network: the route that the browser's connections take
has it as its source. What is kept of a load is the browser's own load event, as DevTools reports it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.live_kernel.place import AccessNetwork, server_address
from benchmarks.live_kernel.visits import AGENT, Visited
from configtron.lab.internet import links
from configtron.lab.testbed import servers
from configtron.lab.testbed.browser import Browser, Visit
from configtron.lab.testbed.loads import VERSIONS
from configtron.lab.testbed.pages import PageModel

# Loads of one browser, before the next network's.
LOADS = 8
# s after a page's last object within which its beacon has been answered; s within which a load ends.
BEACON_S, LIMIT_S = 4.0, 60.0
END, SCRIPT = b"</body></html>", b'<script src="/configtron/beacon.js" async></script></body></html>'


def name_script(pages: Sequence[PageModel]) -> None:
    """Have the documents of pages that are laid out name the script that sends beacons."""
    for page in pages:
        path = Path(f"{servers.FOLDER}/www/{page.origins[0]}{page.objects[0].path}")
        path.write_bytes(path.read_bytes().replace(END, SCRIPT))


class ReportingBrowser(Browser):
    """A browser that leaves a page only when its beacon was answered. loaded_s: when its load event was, by DevTools'
    clock, after the request for its document; 0: it came not."""

    loaded_s, _asked_s = 0.0, 0.0

    def _visit(self, page: PageModel, session: str, seed: int, limit_s: float) -> Visit:
        # a headless browser names itself, and programs are no visitors
        self._call("Network.setUserAgentOverride", {"userAgent": AGENT}, session)
        self.loaded_s, self._asked_s = 0.0, 0.0
        visit = super()._visit(page, session, seed, limit_s)
        deadline, beacon = time.monotonic() + BEACON_S, ""
        while event := self._next(deadline):
            params = event.get("params", {})
            if event.get("method") == "Network.requestWillBeSent" and params["request"]["url"].endswith("/beacon"):
                beacon = params["requestId"]
            if event.get("method") == "Network.loadingFinished" and params["requestId"] == beacon:
                break
        return visit

    def _next(self, deadline: float) -> dict[str, Any] | None:
        event = super()._next(deadline)
        params = {} if event is None else event.get("params", {})
        if (
            event is not None
            and event.get("method") == "Network.requestWillBeSent"
            and params.get("type") == "Document"
        ):
            self._asked_s, self.loaded_s = params["timestamp"], 0.0
        if event is not None and event.get("method") == "Page.loadEventFired":
            self.loaded_s = params["timestamp"] - self._asked_s
        return event


class BrowserVisitors:
    """The clients of all networks, one page load at a time."""

    def __init__(self, networks: Sequence[AccessNetwork], pages: Mapping[str, PageModel], hosts: int, seed: int,
                 seen: Callable[[Visited], None]) -> None:  # fmt: skip
        self.networks, self.pages, self._hosts, self._seen = networks, pages, hosts, seen
        self._chance = random.Random(f"{seed} browsers")
        self._over: Callable[[], bool] = lambda: False

    async def visit(self, over: Callable[[], bool]) -> None:
        """Load pages until `over`."""
        self._over = over
        await asyncio.to_thread(self._run)

    def _run(self) -> None:
        turns = cycle([(network, http) for network in self.networks for http in VERSIONS])
        for turn, (network, http) in enumerate(turns):
            if self._over():
                return
            self._browse(network, http, turn % self._hosts)

    def _browse(self, network: AccessNetwork, http: str, server: int) -> None:
        """Load some pages by a browser of its own."""
        address = {origin: server_address(server) for page in self.pages.values() for origin in page.origins}
        clients = [client for client in range(network.clients) if client % self._hosts == server]
        with ReportingBrowser(self.pages.values(), address, http=http, netns=network.netns) as browser:
            for _ in range(LOADS):
                if self._over():
                    return
                client, page = self._chance.choice(clients), self._chance.choice(sorted(self.pages))
                way = f"route replace default via 10.8.{network.number}.1 src {network.address(client)}"
                links.ip(network.netns, [way])
                begin_s = time.clock_gettime(time.CLOCK_BOOTTIME)
                visit = browser.load(page, limit_s=LIMIT_S)
                end_s = time.clock_gettime(time.CLOCK_BOOTTIME)
                loaded_ms = None if visit.failed else browser.loaded_s * 1e3
                self._seen(Visited(network.number, client, page, http, server, begin_s, end_s, loaded_ms, visit.failed,
                                   "", ()))  # fmt: skip

    def close(self) -> None:
        """End: its thread has ended already."""
