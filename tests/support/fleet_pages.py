# SPDX-License-Identifier: MIT
"""Visitors of a simulated fleet, and the readers of their page loads: connections, log lines, beacons, liars, floods.

A web server outlives its host's agent; its log lines and the beacons go to the product's readers while those run. A
tenth of the clients send what their own connections disprove. `Visit` is what the judge knows: nothing of it came
through the product.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from configtron.intake.pageloads.http_framing import HttpRequest
from configtron.intake.pageloads.intake import BEACON_PATH
from configtron.intake.pageloads.plan_book import ClientAsked, PlanBook
from configtron.service.outcomes.batch_bytes import MOST_OF_QUESTION, decoded, encoded, question_of
from configtron.service.outcomes.counts_report import CountsReport
from configtron.service.outcomes.page_outcomes import PageOutcomes
from configtron.service.outcomes.root_reader import OutcomeClock, RootReader
from tests.support.fleet_kernel import Beginning

if TYPE_CHECKING:
    from tests.support.fleet_hosts import Host
    from tests.support.fleet_world import World

# ns; s that a row waits for its page's second beacon, shorter than the product's so that runs may be short.
S, SETTLE_S = 10**9, 3.0
# Chance of a visit per host and step; of a second page on its connection; of a liar among clients.
VISITS, SECOND, LIARS = 0.35, 0.2, 0.1
# Datagrams that the kernel queues for the log's socket.
QUEUE = 512
LIES = ("fast", "slow", "clock", "replay", "changed", "guessed")


@dataclass(frozen=True)
class Client:
    """A visitor: address, the prefix that records have of it, round trip, and whether it lies."""

    address: str
    prefix: str
    rtt_us: int
    lies: bool


@dataclass
class Visit:
    """One page load as the world saw it.

    begun      what the kernel gave its connection; None: nothing of ours applied
    start_s    world's time of the handshake; boot_ns, wall_ns: by the host's clocks
    is_up      whether the agent ran at the handshake; boots: which start of the host it was
    logged     whether its log line reached the reader's socket
    posted_s   world's time of its first beacon; None: none was sent
    refused    the endpoint's answer to that was not 204
    """

    number: int
    host: str
    client: Client
    begun: Beginning | None
    start_s: float
    boot_ns: int
    wall_ns: int
    is_up: bool
    boots: int
    page: int = 1
    logged: bool = False
    token: str = ""
    plt_ms: float = 0.0
    lie: str = ""
    posted_s: float | None = None
    refused: bool = False
    expected: tuple[str, int | None, bool, str] | None = None
    propensity: float | None = None
    places: list[tuple[int, int, bytes]] = field(default_factory=list)

    @property
    def site(self) -> str:
        """Return a name that no other page has: rows carry it."""
        return f"s{self.number}.example"


def clients(world: World) -> list[Client]:
    """Return visitors in prefixes that maps list, in some that they do not, and of a human's."""
    rng, found = world.rng, []
    networks = [f"198.51.{at}.0/24" for at in rng.sample(range(40), 8)]
    networks += [f"2001:db8:{at:x}::/48" for at in rng.sample(range(1, 9), 2)]
    networks += ["203.0.113.0/24", "192.0.2.0/24"]
    for text in networks:
        network = ip_network(text)
        for at in rng.sample(range(1, 250), 4):
            address = ip_address(int(network.network_address) + (at << (64 if network.version == 6 else 0)))
            found.append(Client(str(address), text, rng.randrange(3_000, 150_000), rng.random() < LIARS))
    return found


class PageReaders:
    """One start of an agent's readers: the product's, with the host's clocks."""

    def __init__(self, host: Host, boot: str, sequence: int = 0) -> None:
        self.host = host
        self.book = PlanBook(host.draws)
        clock = OutcomeClock(host.boot_ns, host.wall_ns)
        self.reader = RootReader(host.web, host.web, self.book, clock=clock)  # type: ignore[arg-type]
        self._asked: list[ClientAsked] = []
        self.pages = PageOutcomes(
            host.name, boot, host.keep_rows, self._ask, settle_ns=round(SETTLE_S * S), clock=clock
        )
        self.rows = 0

    def turn(self) -> None:
        """Take the plan that is in force, then what the kernel and the web server have."""
        applier = self.host.applier
        assert applier is not None
        applier.activations.pass_on(self.book, self.host.boot_ns())
        for asked in question_of(encoded(self._asked)):
            self.reader.ask(asked)
        self._asked = []
        batch = decoded(encoded(self.reader.turn()))
        self.host.world.may_kill()
        self.pages.turn(batch)

    def _ask(self, asked: ClientAsked) -> bool:
        """Take a question for the process with rights: one datagram a turn."""
        if len(self._asked) >= MOST_OF_QUESTION:
            return False
        self._asked.append(asked)
        return True

    def report(self) -> None:
        """Log what became of lines, records and beacons since the start."""
        for about, counts in (("log lines and records", self.reader.counts), ("page loads", self.pages.counts)):
            CountsReport(about).turn(counts, now=True)

    def post(self, body: bytes, client: Client, path: str = BEACON_PATH) -> int:
        """Hand a request of the web server to the endpoint; return the answer's status."""
        head = {"x-real-ip": client.address, "user-agent": "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0",
                "referer": "https://www.example.org/"}  # fmt: skip
        request = HttpRequest("POST", path, "", head, body, True)
        status, admitted = self.pages.intake.request(request, bytes((127, 0, 0, 1)), self.host.boot_ns())
        if admitted is not None:
            self.pages.admit(admitted)
        return status


class WebServer:
    """A host's web server: log lines that wait at the reader's socket, beside the kernel's records."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._lines: deque[tuple[bytes, int, int]] = deque()
        self.lost_lines = 0

    def log(self, line: bytes) -> bool:
        """Send a line; False: no reader, or its queue is full."""
        if self.host.core is None or len(self._lines) >= QUEUE:
            self.lost_lines += 1
            return False
        self._lines.append((line, self.host.boot_ns(), self.host.wall_ns()))
        return True

    def lines(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield the lines that wait."""
        while self._lines:
            yield self._lines.popleft()

    def access(self) -> str:
        """Return the socket's name."""
        return f"the socket of {self.host.name}"

    def answer(self, counts: Mapping[str, int]) -> None:
        """No process sends a test line here."""

    def forget(self) -> None:
        """The socket has gone with its process."""
        self._lines.clear()

    def records(self) -> Iterator[object]:
        return self.host.records()

    def lost_records(self) -> int:
        return self.host.lost_records()


class Visitors:
    """All clients, and every visit that was made."""

    def __init__(self, world: World) -> None:
        self.world, self.clients = world, clients(world)
        self.visits: list[Visit] = []
        self.flooded: set[tuple[str, str]] = set()
        self._port = 1024

    def step(self) -> None:
        """Let some clients visit."""
        for host in self.world.hosts.values():
            if self.world.rng.random() < VISITS:
                self._visit(host, self.world.rng.choice(self.clients))
            if self.world.fault("flood", 0.002, host.name):
                self._flood(host, self.world.rng.choice(self.clients))

    def _visit(self, host: Host, client: Client) -> None:
        rng = self.world.rng
        self._port = self._port + 1 if self._port < 60_000 else 1024
        begun = host.connect(client, self._port)
        if self._breaks(host, client, begun):
            return
        pages = 2 if rng.random() < SECOND else 1
        at_s = client.rtt_us / 1e6 * rng.uniform(0.5, 0.9)
        port = self._port
        for page in range(1, pages + 1):
            visit = self._planned(host, client, begun, page)
            self._serve(host, visit, port, at_s)
            at_s += visit.plt_ms / 1e3 + rng.uniform(0.3, 2.0)
        end = partial(host.disconnect, begun, host.boots, client.rtt_us, rng.random() < 0.1)
        self.world.later(at_s + rng.uniform(0.1, 3.0), end, host)

    def _breaks(self, host: Host, client: Client, begun: Beginning | None) -> bool:
        """Return whether the connection ends before its page has loaded."""
        return False

    def _planned(self, host: Host, client: Client, begun: Beginning | None, page: int) -> Visit:
        rng = self.world.rng
        visit = Visit(len(self.visits), host.name, client, begun, self.world.now, host.boot_ns(), host.wall_ns(),
                      host.core is not None, host.boots, page)  # fmt: skip
        visit.token = f"{rng.getrandbits(128):032x}"
        visit.plt_ms = round(3.2 * client.rtt_us / 1e3 + rng.uniform(40.0, 900.0), 3)
        if client.lies and rng.random() < 0.7:
            visit.lie = rng.choice(LIES)
            self.world.counts[f"lie: {visit.lie}"] = self.world.counts.get(f"lie: {visit.lie}", 0) + 1
        self.visits.append(visit)
        self.world.judge.visited(host, visit)
        return visit

    def _serve(self, host: Host, visit: Visit, port: int, at_s: float) -> None:
        """The answer, whose line goes to the reader; then the beacon."""
        took_s = self.world.rng.uniform(0.002, 0.03)
        self.world.later(at_s + took_s, partial(self._answered, host, visit, port, took_s), host)
        first = 1 if visit.page == 1 else 0
        after_s = visit.plt_ms / 1e3 - first * 1.5 * visit.client.rtt_us / 1e6 + visit.client.rtt_us / 2e6
        self.world.later(at_s + max(after_s, took_s), partial(self._beacon, host, visit), host)

    def _answered(self, host: Host, visit: Visit, port: int, took_s: float) -> None:
        visit.logged = host.boots == visit.boots and not self.world.fault("line lost", 0.01, host.name)
        if not visit.logged:
            return
        end = f"{host.wall_ns() / 1e9:.3f}"
        line = (f"ctn {visit.token} 192.0.2.1 443 {visit.client.address} {port} {end} {took_s:.3f} {visit.page} {port}"
                f" {visit.client.rtt_us} {visit.site}")  # fmt: skip
        visit.logged = host.web.log(line.encode())

    def _beacon(self, host: Host, visit: Visit) -> None:
        if host.boots != visit.boots:
            return
        body = self._body(visit)
        visit.posted_s = self.world.now
        status = host.post(body, visit.client)
        visit.refused = status != 204
        if visit.lie in ("replay", "changed") or self.world.rng.random() < 0.3:
            second = body if visit.lie != "changed" else self._body(replace(visit, plt_ms=visit.plt_ms * 0.9))
            if visit.lie == "replay":
                second = self._body(visit, name="other")
            wait_s = self.world.rng.uniform(0.05, 2 * SETTLE_S)
            self.world.later(wait_s, partial(self._again, host, second, visit.client), host)

    def _again(self, host: Host, body: bytes, client: Client) -> None:
        host.post(body, client)

    def _body(self, visit: Visit, name: str = "") -> bytes:
        """Return the beacon of our script; a liar's says what is not."""
        rtt_ms, load_ms, token = visit.client.rtt_us / 1e3, visit.plt_ms, visit.token
        if visit.lie == "fast":
            load_ms = rtt_ms * 0.5
        elif visit.lie == "slow":
            load_ms = visit.plt_ms + 60_000.0
        elif visit.lie == "guessed":
            token = f"{self.world.rng.getrandbits(128):032x}"
        first = visit.page == 1
        marks = {"cs": 0.1, "ce": 0.1 + rtt_ms if first else 0.1, "qs": min(0.2 + rtt_ms * first, load_ms / 2)}
        if visit.lie == "fast":
            marks = {}
        if visit.lie == "clock":
            marks["ps"] = -5.0
        form = {"v": 1, "id": name or f"i{visit.number}", "t": token, "w": "load", "nt": "navigate", "le": load_ms}
        return json.dumps({**form, **marks, "hh": None}).encode()

    def _flood(self, host: Host, client: Client) -> None:
        """More beacons from one address than pages explain, none of which names a page."""
        self.flooded.add((host.name, client.address))
        for at in range(200):
            form = {"v": 1, "id": f"f{at}", "t": f"{self.world.rng.getrandbits(128):032x}", "w": "load", "le": 500.0}
            host.post(json.dumps(form).encode(), client)
