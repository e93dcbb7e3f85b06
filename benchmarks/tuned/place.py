# SPDX-License-Identifier: MIT
"""Where the demonstration stands: the guest is the server, its clients sit in prefixes of their own behind one gateway.

    fibre, cable, satellite, six, other     a namespace each, half of its round trip by netem on each way
    gateway                                 the only next hop that the server has
    (here)                                  the server: nginx, the guest's own first network namespace

Nothing here is tuned but one thing: tcp_no_metrics_save=1, or what one connection leaves in the kernel's tcp_metrics
would colour the next one's first flight, with or without a driver.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from ipaddress import ip_network
from pathlib import Path
from typing import NamedTuple

from configtron.lab.internet import links
from configtron.lab.internet.nginx import nginx_temporary
from configtron.linux.netns import inside

SERVER4, SERVER6 = "10.9.0.2", "2001:db8:9::2"
GATEWAY4, GATEWAY6 = "10.9.0.1", "2001:db8:9::1"
PORT = 80
# The page holds two of the longest first flights (30 segments of 1448 bytes), so that a flight ends by its window.
PAGE_BYTES = 100_000
# Asked for; net.core.rmem_max allows what it allows, more than the page.
RECEIVE_BYTES = 1 << 20
# An untouched Linux server (RFC 6928; the fragment of the lab's kernel).
UNTOUCHED = ("cubic", 10)
# A program that has not opened its ports by then has failed.
PATIENCE_S = 30.0
# The slowest client's last FIN is acknowledged by then: two of its round trips, and a delayed ACK.
SETTLE_S = 2.0
FOLDER = Path("/run/tuned")
# Head and body in full segments, and a send buffer that holds the page: buffers of 32 kB end in a short segment, and a
# server that its send buffer stops shows no growth; a window is exact only where neither ended the flight.
NGINX = """daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    {temporary}
    server {{ listen {port} sndbuf=200k; listen [::]:{port} sndbuf=200k; root {folder}/page; }}
}}
"""


class Client(NamedTuple):
    """One client: its prefix, its round trip, and what its connections are to get ("" is the untouched stack)."""

    name: str
    prefix: str
    rtt_ms: int
    congestion: str = ""
    initcwnd: int = 0

    @property
    def address(self) -> str:
        """The second address of its prefix; the first is the gateway's."""
        return str(ip_network(self.prefix)[2])

    @property
    def gateway(self) -> str:
        """The gateway's address within the prefix."""
        return str(ip_network(self.prefix)[1])

    @property
    def profile(self) -> str:
        """The name of its profile."""
        return self.name if self.congestion else ""

    @property
    def tuned(self) -> tuple[str, int]:
        """Congestion control and initial window as they should be seen while a driver is in force."""
        return (self.congestion, self.initcwnd) if self.congestion else UNTOUCHED


# Windows stay below 45 segments: a Linux client's first ACK offers no room for more. `other` is in no rule, and must
# look the same all the time.
CLIENTS = (
    Client("fibre", "192.0.2.0/24", 20, "cubic", 30),
    Client("cable", "198.51.100.0/24", 60, "bbr", 20),
    Client("satellite", "203.0.113.0/24", 600, "vegas", 4),
    Client("six", "2001:db8:6::/64", 40, "reno", 16),
    Client("other", "10.8.0.0/24", 40),
)  # fmt: skip


@contextmanager
def raised(clients: Sequence[Client]) -> Iterator[None]:
    """Gateway, clients and nginx, until the block ends."""
    _gateway()
    for client in clients:
        _client(client)
    server = _nginx()
    try:
        yield
    finally:
        server.terminate()
        server.wait()


def _gateway() -> None:
    links.ip("", ["netns add gateway", "link add eth0 type veth peer name server netns gateway"])
    links.sysctl("gateway", [("net/ipv4/ip_forward", "1"), ("net/ipv6/conf/all/forwarding", "1")])
    links.sysctl("", [("net/ipv4/tcp_no_metrics_save", "1")])
    links.ip("gateway", [
        f"addr add {GATEWAY4}/24 dev server", f"addr add {GATEWAY6}/64 dev server nodad", "link set server up",
    ])  # fmt: skip
    links.ip("", [
        f"addr add {SERVER4}/24 dev eth0", f"addr add {SERVER6}/64 dev eth0 nodad", "link set eth0 up",
        f"route add default via {GATEWAY4}", f"route add default via {GATEWAY6}",
    ])  # fmt: skip
    links.without_offloads("", "eth0")
    links.without_offloads("gateway", "server")


def _client(client: Client) -> None:
    """Half of the round trip on each way; without IPv6 duplicate address detection."""
    length, nodad = client.prefix.rpartition("/")[2], "nodad" if ":" in client.prefix else ""
    links.ip("", [f"netns add {client.name}"])
    links.ip(client.name, [f"link add eth0 type veth peer name {client.name} netns gateway"])
    for netns, device, address in (("gateway", client.name, client.gateway), (client.name, "eth0", client.address)):
        links.ip(netns, [f"addr add {address}/{length} dev {device} {nodad}", f"link set {device} up"])
        links.without_offloads(netns, device)
        links.netem(netns, device, delay_ms=client.rtt_ms / 2, seed=1)
    links.ip(client.name, ["link set lo up", f"route add default via {client.gateway}"])


def _nginx() -> subprocess.Popen[bytes]:
    (FOLDER / "page").mkdir(parents=True)
    # nginx's workers run without privileges, and must get there.
    FOLDER.chmod(0o755)
    (FOLDER / "page" / "index.html").write_bytes(b"<p>configtron</p>\n" * (PAGE_BYTES // 18))
    file = FOLDER / "nginx.conf"
    file.write_text(NGINX.format(folder=FOLDER, port=PORT, temporary=nginx_temporary(f"{FOLDER}/")))
    return started_nginx(file)


def started_nginx(file: Path) -> subprocess.Popen[bytes]:
    """nginx with that configuration, once it listens at PORT; its log is beside the file. Errors: `SystemExit`."""
    log = file.with_name("nginx.log")
    server = subprocess.Popen(["nginx", "-c", str(file), "-e", str(log)])
    deadline = time.monotonic() + PATIENCE_S
    while not links.listens("", PORT):
        if server.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"nginx failed: {log.read_text()}")
        time.sleep(0.05)
    return server


def fetched(clients: Sequence[Client]) -> dict[str, str]:
    """Every client gets the page; the congestion control of each, by `ss -ti` at the server while they stand."""
    with ExitStack() as stack:
        for client in clients:
            with inside(client.name):
                server = SERVER6 if ":" in client.prefix else SERVER4
                connection = stack.enter_context(_connected(server))
            got(connection)
        output = subprocess.check_output(["ss", "-tinHO", "state", "established", "sport", "=", f":{PORT}"], text=True)
    time.sleep(SETTLE_S)
    return {client.name: congestion(output, client.address) for client in clients}


def _connected(server: str) -> socket.socket:
    """A connection whose receive window never stops the server: the growth of its own window proves the first one."""
    connection = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    connection.settimeout(PATIENCE_S)
    connection.connect((server, PORT))
    return connection


def got(connection: socket.socket, path: str = "/", **fields: str) -> None:
    """Ask for a page over a connection, with these fields of the head, and read it whole. Errors: `HTTPException`."""
    asked = HTTPConnection("server")
    asked.sock = connection
    asked.request("GET", path, headers={name.replace("_", "-"): value for name, value in fields.items()})
    asked.getresponse().read()


def congestion(output: str, address: str) -> str:
    """What `ss -tinHO` names as the congestion control of that client's connection; "-" if it shows none."""
    for line in output.splitlines():
        words = line.split()
        # Recv-Q, Send-Q, local, peer, then the congestion control and its figures.
        peer = words[3].rpartition(":")[0].strip("[]").removeprefix("::ffff:")
        if peer == address:
            return next((word for word in words[4:] if ":" not in word and word not in ("ts", "sack", "ecn")), "-")
    return "-"
