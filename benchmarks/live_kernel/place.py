# SPDX-License-Identifier: MIT
"""Servers, router and access networks of the experiment, each in a network namespace of the guest.

    n0 n1 ...    access networks: clients of one /24 each, behind one link whose queues are a condition's
    (here)       the router: what goes down to a network queues here, what goes up queues in the network
    web0 ...     servers: nginx, the driver under test, an agent's readers

A policer is a token bucket with room for one frame before it: the kernel's tbf, not the player of the testbed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from configtron.lab.internet import links
from configtron.lab.internet.links import splitmix64
from configtron.lab.internet.nginx import nginx_temporary
from configtron.lab.testbed import servers
from configtron.lab.testbed.conditions import Condition, LinkDirection
from configtron.lab.testbed.families import named
from configtron.lab.testbed.network import BUFFER_OF_WINDOW, FRAME_BYTES, queues
from configtron.lab.testbed.pages import PageModel
from configtron.lab.testbed.wires import CONGESTION_CONTROLS, ENDS, EVERYWHERE, UP
from configtron.linux.netns import enter
from configtron.linux.qdisc import Qdisc, Qdiscs, differences, netem
from configtron.model.errors import Mismatch, Missing
from tests.support import ROOT

# Where the servers' files, sockets and databases are.
FOLDER = Path("/run/live")
# A program that has not opened its port by then has failed.
PATIENCE_S = 30.0
# Of the endpoint that takes beacons, behind nginx.
ENDPOINT = 9315


@dataclass(frozen=True)
class AccessNetwork:
    """The network of one prefix. condition: a name of the lab's conditions; clients: how many addresses load pages."""

    number: int
    continent: str
    condition: str
    clients: int

    @property
    def netns(self) -> str:
        """The name of its namespace."""
        return f"n{self.number}"

    @property
    def prefix(self) -> str:
        """The prefix of its clients."""
        return f"10.{100 + self.number // 250}.{self.number % 250}.0/24"

    def address(self, client: int) -> str:
        """Return the address of one of its clients, from 0."""
        return f"{self.prefix.rpartition('.')[0]}.{client + 1}"

    def drawn(self, seed: int) -> Condition:
        """Return its condition; where that has a spread, rate and delay of this network."""
        return named(self.condition).drawn(splitmix64(seed * 1000 + self.number))


class Wires:
    """All links, raised. `put` changes a network's condition."""

    def __init__(self, networks: Sequence[AccessNetwork], hosts: int, seed: int) -> None:
        """Errors: `Missing`, `Mismatch`."""
        self.networks, self._seed = tuple(networks), seed
        _router()
        for number in range(hosts):
            _host(number)
        for network in networks:
            _access(network)
        self._down = Qdiscs()
        self._up = {network.netns: Qdiscs(network.netns) for network in networks}
        for network in networks:
            self.put(network)

    def put(self, network: AccessNetwork, squeezed: int = 0) -> None:
        """Put a network's condition in force, read back. squeezed: bytes, the most that its queue down holds, where
        that is less; 0: as the condition has it. Errors: `Mismatch`."""
        condition = network.drawn(self._seed)
        chance = splitmix64(condition.salt ^ splitmix64(self._seed + network.number))
        down = condition.down
        if squeezed and down.queue_bytes:
            down = replace(down, queue_bytes=min(down.queue_bytes, squeezed))
        for device, way, of, number in (
            (f"g{network.number}", down, self._down, 0), ("eth0", condition.up, self._up[network.netns], 1),
        ):  # fmt: skip
            wanted = way_queues(way, splitmix64(chance + number))
            of.put({device: wanted})
            if wrong := differences(wanted, of.read()[device]):
                raise Mismatch(f"{network.netns} {condition.name}: {device}: {'; '.join(wrong)}")
        window = round(BUFFER_OF_WINDOW * condition.window_bytes)
        room = f"4096 {min(131_072, window)} {window}" if window else dict(ENDS)["net/ipv4/tcp_rmem"]
        links.sysctl(network.netns, [("net/ipv4/tcp_rmem", room)])

    def close(self) -> None:
        """Close the sockets to the kernel."""
        for one in (self._down, *self._up.values()):
            one.close()


def way_queues(way: LinkDirection, seed: int) -> tuple[Qdisc, ...]:
    """Return one direction as queueing disciplines, a policer as a bucket with room for one frame before it."""
    if way.kind != "policer":
        return queues(way, seed)
    rate = round(way.rate_kbit * 1e3 / 8 * FRAME_BYTES / 1500)
    bucket = Qdisc(0x100000, 0x10001, "tbf", {"rate": rate, "burst": way.bucket_bytes, "limit": FRAME_BYTES})
    leaf = Qdisc(0x200000, 0x100001, "bfifo", {"limit": FRAME_BYTES})
    return (netem(delay_ms=way.delay_ms, seed=seed, loss=way.loss), bucket, leaf)


def _router() -> None:
    links.sysctl("", [*EVERYWHERE, ("net/ipv4/ip_forward", "1"), ("net/unix/max_dgram_qlen", "512")])
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
    available = allowed.with_name("tcp_available_congestion_control").read_text().split()
    # the module's own must be allowed, too, where a namespace is to have it as its default
    wanted = {*CONGESTION_CONTROLS, *(name for name in available if name == "configtron")}
    allowed.write_text(" ".join(sorted(wanted)))
    if set(allowed.read_text().split()) != wanted:
        raise Missing(f"congestion controls: {allowed.read_text().strip()}")


def _pair(netns: str, outer: str, net: str, more: Iterable[str] = ()) -> None:
    """A namespace, a device in it, the router's end of it; net: the first three numbers of both addresses."""
    number = int(net.rpartition(".")[2]) + 256 * int(net.split(".")[1])
    macs = [f"02:00:00:{number >> 8 & 255:02x}:{number & 255:02x}:{end:02x}" for end in (1, 2)]
    links.ip("", [
        f"netns add {netns}",
        f"link add {outer} address {macs[1]} type veth peer name eth0 address {macs[0]} netns {netns}",
        f"addr add {net}.1/24 dev {outer}", f"link set {outer} {UP}",
        f"neigh replace {net}.2 lladdr {macs[0]} dev {outer} nud permanent",
    ])  # fmt: skip
    links.sysctl(netns, ENDS)
    links.ip(netns, [
        f"addr add {net}.2/24 dev eth0", f"link set eth0 {UP}", "link set lo up",
        f"neigh replace {net}.1 lladdr {macs[1]} dev eth0 nud permanent", f"route add default via {net}.1", *more,
    ])  # fmt: skip
    links.without_offloads("", outer)
    links.without_offloads(netns, "eth0")


def _host(number: int) -> None:
    _pair(f"web{number}", f"s{number}", f"10.9.{number}")


def _access(network: AccessNetwork) -> None:
    """Every address of the prefix is the namespace's own; the router sends them all there."""
    net = f"10.8.{network.number}"
    _pair(network.netns, f"g{network.number}", net, [f"route add local {network.prefix} dev lo"])
    links.ip("", [f"route add {network.prefix} via {net}.2"])


def server_address(number: int) -> str:
    """Return the address of a server."""
    return f"10.9.{number}.2"


def documented() -> str:
    """Return the lines for nginx's `http` block as docs/learn.md has them."""
    found = re.search(r"```nginx\n(.*?)^server \{", (ROOT / "docs" / "learn.md").read_text(), re.S | re.M)
    assert found
    return found[1]


def nginx_configuration(number: int, hosts: Sequence[str], tls: Path) -> str:
    """Return a server's configuration: the documented log and header, pages by TLS, beacons by both."""
    folder = FOLDER / f"web{number}"
    beacons = f"location /configtron/ {{ proxy_pass http://127.0.0.1:{ENDPOINT}; " \
              "proxy_set_header X-Real-IP $remote_addr; }"  # fmt: skip
    rows = "\n".join(
        f"server {{ listen 443 ssl http2; server_name {host}; root {servers.FOLDER}/www/{host}; {beacons} "
        f"ssl_certificate {tls}/{host}.pem; ssl_certificate_key {tls}/{host}.key; }}"
        for host in hosts
    )
    log = documented().replace("/run/configtron/outcomes.log", str(folder / "log"))
    return f"""daemon off;
user root;
pid {folder}/nginx.pid;
worker_processes 1;
events {{ worker_connections 4096; accept_mutex off; }}
http {{
include /etc/nginx/mime.types;
{log}
sendfile on;
tcp_nopush on;
send_timeout {servers.PATIENT_S}s;
ssl_protocols TLSv1.2 TLSv1.3;
ssl_session_tickets off;
ssl_session_cache off;
open_file_cache max=10000 inactive=1d;
{nginx_temporary(f"{folder}/")}
server {{ listen 80; root {folder}; {beacons} }}
{rows}
}}
"""


class WebProgram:
    """nginx in a server's namespace, and in a control group of its name, for the driver that acts on one."""

    def __init__(self, number: int, pages: Mapping[str, PageModel], tls: Path, group: Path) -> None:
        self.netns, self.group = f"web{number}", group
        folder = FOLDER / self.netns
        folder.mkdir(parents=True, exist_ok=True)
        self._config, self._log = folder / "nginx.conf", folder / "nginx.log"
        self._config.write_text(nginx_configuration(number, servers.hosts_of(pages.values()), tls))
        self._process: subprocess.Popen[bytes] | None = None
        group.mkdir(exist_ok=True)

    def start(self) -> None:
        """Start it, and wait until it listens. Errors: `Missing` with its own words."""

        def begin() -> None:
            (self.group / "cgroup.procs").write_text(str(os.getpid()))
            enter(self.netns)

        words = ["nginx", "-c", str(self._config), "-e", str(self._log)]
        self._process = subprocess.Popen(words, start_new_session=True, preexec_fn=begin)
        deadline = time.monotonic() + PATIENCE_S
        while not links.listens(self.netns, 443):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Missing(f"nginx of {self.netns} does not listen: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it, its workers too."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
