# SPDX-License-Identifier: MIT
"""Real servers on this host, as shipped, to be probed: nginx, Apache, h2o, Caddy, HAProxy, lighttpd, nghttpd.

    python -m tests.support.servers [NAME...]      raises them, prints their addresses, stops all on Ctrl-C

All live in one network namespace of our own, each at its own address, in clear on port 80 and with TLS on 443 (a leaf
certificate and its authority), with a page longer than any initial window. Beside it stands a second namespace: the
vantage to probe them from, whose source address no kernel owns. Both are gone afterwards. Nothing else is touched.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from configtron.lab.internet.certificates import issue
from configtron.linux.netns import inside
from configtron.model.errors import Missing
from configtron.model.nouns import Target, Vantage
from configtron.probe.wire.namespaces import addresses, ip
from tests.support.namespaces import own_namespace, throwaway
from tests.support.waiting import PATIENCE_S

TEMPLATES = Path(__file__).with_name("servers")
# 146 kB hold a window of 100 segments of 1460 bytes, the largest that CDNs are known to use; and some more.
PAGE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Server:
    """How to run one: `command` with @ADDRESS@, @FOLDER@ and @CONFIG@ filled in; the last is made from `template`."""

    name: str
    package: str
    command: tuple[str, ...]
    template: str = ""
    second: tuple[str, ...] = ()


SERVERS = {
    row.name: row
    for row in (
        Server("nginx", "nginx", ("nginx", "-e", "stderr", "-c", "@CONFIG@"), "nginx.conf"),
        Server("apache", "apache2", ("apache2", "-f", "@CONFIG@", "-D", "FOREGROUND"), "apache.conf"),
        Server("h2o", "h2o", ("h2o", "-c", "@CONFIG@"), "h2o.yaml"),
        Server("caddy", "caddy", ("caddy", "run", "--adapter", "caddyfile", "--config", "@CONFIG@"), "Caddyfile"),
        Server("haproxy", "haproxy", ("haproxy", "-db", "-f", "@CONFIG@"), "haproxy.cfg"),
        Server("lighttpd", "lighttpd", ("lighttpd", "-D", "-f", "@CONFIG@"), "lighttpd.conf"),
        Server(
            "nghttpd",
            "nghttp2-server",
            ("nghttpd", "-a", "@ADDRESS@", "-d", "@FOLDER@/page", "443", "@FOLDER@/key.pem", "@FOLDER@/chain.pem"),
            second=("nghttpd", "-a", "@ADDRESS@", "-d", "@FOLDER@/page", "--no-tls", "80"),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Raised:
    """What stands: where to look from, and what to look at. nghttpd speaks only HTTP/2, in clear too."""

    vantage: Vantage
    clear: tuple[Target, ...]
    tls: tuple[Target, ...]


@contextmanager
def raised(names: Sequence[str] = tuple(SERVERS)) -> Iterator[Raised]:
    """The named servers, answering; stopped on every exit path."""
    with ExitStack() as stack:
        netns = stack.enter_context(throwaway("servers"))
        vantage, gateway = stack.enter_context(own_namespace(netns, name="host"))
        device = addresses(netns)[gateway]
        net = gateway.rpartition(".")[0]
        targets = []
        for number, name in enumerate(names):
            # .1 to .3 are the link's own.
            address = f"{net}.{10 + number}"
            ip("addr", "add", f"{address}/32", "dev", device, netns=netns)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"configtron-{name}-")))
            stack.enter_context(running(SERVERS[name], address, folder, netns))
            targets.append(Target(f"{name}.test", address, 80, "/", name))
        tls = tuple(Target(t.host, t.address, 443, t.path, t.provider) for t in targets)
        yield Raised(vantage, tuple(targets), tls)


@contextmanager
def running(server: Server, address: str, folder: Path, netns: str) -> Iterator[None]:
    if shutil.which(server.command[0]) is None:
        raise Missing(f"{server.name} is not installed; run: apt-get install {server.package}")
    _furnish(folder, server, address)
    with (folder / "console").open("wb") as console, ExitStack() as stack:
        for command in filter(None, (server.command, server.second)):
            # Should this process be killed, its servers go too.
            argv = ["setpriv", "--pdeathsig", "TERM", "ip", "netns", "exec", netns]
            argv += [_filled(word, server, address, folder) for word in command]
            stack.enter_context(_process(argv, console.fileno(), folder))
        for port in (80, 443):
            _await(server, netns, address, port, folder / "console")
        yield


@contextmanager
def _process(argv: list[str], console: int, folder: Path) -> Iterator[None]:
    # Caddy keeps its state under HOME; it goes with the folder.
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder)}
    with ended(subprocess.Popen(argv, stdout=console, stderr=console, env=environment)):
        yield


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the process after the block: SIGTERM, and SIGKILL where that does not help within five seconds."""
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _furnish(folder: Path, server: Server, address: str) -> None:
    """Page, certificate and configuration, readable by the user that the server becomes."""
    folder.chmod(0o755)
    page = folder / "page"
    page.mkdir()
    (page / "index.html").write_bytes(b"<!doctype html><title>page</title>".ljust(PAGE_BYTES, b"."))
    certificate = issue(1, f"{server.name} on this host", [f"{server.name}.test"])
    (folder / "chain.pem").write_text(certificate.chain)
    (folder / "key.pem").write_text(certificate.key)
    (folder / "both.pem").write_text(certificate.chain + certificate.key)
    if server.template:
        text = (TEMPLATES / server.template).read_text()
        (folder / server.template).write_text(_filled(text, server, address, folder))


def _filled(text: str, server: Server, address: str, folder: Path) -> str:
    places = {"@ADDRESS@": address, "@FOLDER@": str(folder), "@HOST@": f"{server.name}.test"}
    places["@CONFIG@"] = str(folder / server.template)
    for place, value in places.items():
        text = text.replace(place, value)
    return text


def _await(server: Server, netns: str, address: str, port: int, console: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with inside(netns), socket.socket() as probe:
            if probe.connect_ex((address, port)) == 0:
                return
        time.sleep(0.05)
    raise Missing(f"{server.name} does not listen on port {port}; its output:\n{console.read_text()}")


def main(names: Sequence[str]) -> None:
    """Raise, print, wait."""
    with raised(names or tuple(SERVERS)) as standing:
        v = standing.vantage
        print(f"vantage: netns {v.netns}, interface {v.interface}, source address {v.source_address}")
        for target in standing.clear:
            print(f"{target.provider:8} {target.address}  http://{target.host}/ https://{target.host}/")
        sys.stdout.flush()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: sys.exit(0))
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
