# SPDX-License-Identifier: MIT
"""Visitors of an access network: page loads by the lab's client from their own addresses, and a beacon for each."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.live_kernel.place import AccessNetwork, server_address
from configtron.lab.testbed import plan
from configtron.lab.testbed.loads import VERSIONS, Load
from configtron.lab.testbed.pages import PageModel
from configtron.linux.netns import enter, inside
from configtron.model.errors import Missing

# s after which a load has failed; between two loads of a network, mean of an exponential.
LIMIT_S, PAUSE_S = 60.0, 1.0
# A beacon that is not answered by then is lost.
BEACON_S = 20.0
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"


class Visited(NamedTuple):
    """A page load as the client saw it. begin_s: by CLOCK_BOOTTIME, before it; plt_ms None: it failed."""

    network: int
    client: int
    page: str
    http: str
    server: int
    begin_s: float
    end_s: float
    plt_ms: float | None
    failed: str
    token: str
    ports: tuple[int, ...]


class Visitors:
    """The clients of one network, one page load at a time.

    server_of   the server of a client now
    seen        gets each load
    """

    def __init__(self, network: AccessNetwork, pages: Mapping[str, PageModel], hosts: int, program: str, seed: int,
                 server_of: Callable[[int], int], seen: Callable[[Visited], None]) -> None:  # fmt: skip
        self.network, self.pages = network, pages
        self._server_of, self._seen = server_of, seen
        self._chance = random.Random(f"{seed} {network.number}")
        # some visitors come often
        self._weights = [self._chance.lognormvariate(0.0, 0.5) for _ in range(network.clients)]
        path = Path(tempfile.mkdtemp(prefix="visits-")) / "plan"
        path.write_text("".join(_plan(pages, number) for number in range(hosts)))
        self._process = subprocess.Popen([program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         preexec_fn=lambda: enter(network.netns))  # fmt: skip
        self._number = 0

    async def visit(self, over: Callable[[], bool]) -> None:
        """Load pages until `over`. Errors: `Missing` when the client ended."""
        chance = self._chance
        await asyncio.sleep(chance.random() * 2 * PAUSE_S)
        while not over():
            client = chance.choices(range(len(self._weights)), self._weights)[0]
            page, http = chance.choice(sorted(self.pages)), chance.choice(VERSIONS)
            pause_s = chance.expovariate(1 / PAUSE_S)
            await self._one(client, page, http)
            await asyncio.sleep(pause_s)

    async def _one(self, client: int, page: str, http: str) -> None:
        self._number += 1
        source, server = self.network.address(client), self._server_of(client)
        begin_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        words = f"{page}-{server} {http} {self._number} {LIMIT_S:g} first {source}\n"
        load = await self._answer(words)
        end_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        plt_ms = None if load.failed else load.plt_ms
        self._seen(Visited(self.network.number, client, page, http, server, begin_s, end_s, plt_ms, load.failed,
                           load.token, load.ports))  # fmt: skip
        if load.token and not load.failed:
            await self._beacon(load, source, server, self.pages[page].origins[0])

    async def _answer(self, words: str) -> Load:
        """Return what the client reports of the load that it is asked for."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(words.encode())
        self._process.stdin.flush()
        loop.add_reader(self._process.stdout.fileno(), done.set)
        try:
            await done.wait()
        finally:
            loop.remove_reader(self._process.stdout.fileno())
        line = self._process.stdout.readline()
        if not line:
            raise Missing(f"the page-load client of {self.network.netns} ended with code {self._process.wait()}")
        return Load.from_json(line.decode())

    async def _beacon(self, load: Load, source: str, server: int, host: str) -> None:
        """Send what a browser's script sends, over the same network; lost where it does not come through."""
        asked_ms, first_ms, _ = load.times[0]
        identity = f"{self.network.number}-{self._number}"
        form = {"v": 1, "id": identity, "t": load.token, "w": "load", "cs": 0.0, "ce": load.connect_ms,
                "qs": asked_ms, "ps": first_ms, "le": load.plt_ms}  # fmt: skip
        body = json.dumps(form).encode()
        head = "\r\n".join((
            "POST /configtron/beacon HTTP/1.1", f"Host: {host}", f"Origin: https://{host}", f"User-Agent: {AGENT}",
            "Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close", "", "",
        ))  # fmt: skip
        with inside(self.network.netns):
            connection = socket.socket()
        loop = asyncio.get_running_loop()
        with connection:
            connection.setblocking(False)
            connection.bind((source, 0))
            try:
                async with asyncio.timeout(BEACON_S):
                    await loop.sock_connect(connection, (server_address(server), 80))
                    await loop.sock_sendall(connection, head.encode() + body)
                    while await loop.sock_recv(connection, 4096):
                        pass
            except (OSError, TimeoutError):
                return

    def close(self) -> None:
        """End the client."""
        self._process.kill()
        self._process.communicate()


def _plan(pages: Mapping[str, PageModel], number: int) -> str:
    """Return the plan of all pages from one server, their names with its number."""
    address = {origin: server_address(number) for page in pages.values() for origin in page.origins}
    lines = plan.text(pages.values(), address).splitlines()
    return "\n".join(f"{line}-{number}" if line.startswith("page ") else line for line in lines) + "\n"
