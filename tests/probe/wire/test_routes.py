# SPDX-License-Identifier: MIT
"""Which way a target is met: by the kernel's routes, one target at a time, on a host with several interfaces; and where
a vantage stands: what it names is kept and checked, what it leaves out comes from the routes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from configtron.model.errors import NOTHING, REFUSED, BadInput, Refused
from configtron.model.nouns import Target, Vantage
from configtron.probe.wire.namespaces import ip
from configtron.probe.wire.routes import Route, is_local, route_to
from configtron.probe.wire.vantage_address import checked_vantage
from tests.support.namespaces import own_namespace, throwaway
from tests.support.pumped import in_namespace
from tests.support.waiting import PATIENCE_S

SERVER = """
import socket, threading
one = socket.create_server(("", 80), backlog=128)
print("ready", flush=True)
while True:
    peer, _ = one.accept()
    threading.Thread(target=lambda peer=peer: (peer.recv(4096), peer.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: "
        b"60000\\r\\n\\r\\n" + b"x" * 60000), peer.close()), daemon=True).start()
"""
INTERFACES = 3


class Crossroads(NamedTuple):
    """A host, and three networks around it: its address in each, and a server there; one is behind a gateway."""

    host: str
    here: list[str]
    servers: list[str]


@pytest.fixture(scope="module")
def crossroads() -> Iterator[Crossroads]:
    with ExitStack() as stack:
        host, here, servers = stack.enter_context(throwaway("host")), [], []
        for n in range(INTERFACES):
            there = stack.enter_context(throwaway(f"net{n}"))
            ip("link", "add", f"up{n}", "type", "veth", "peer", "name", "eth0", "netns", there, netns=host)
            for netns, device, address in ((host, f"up{n}", f"10.9.{n}.2"), (there, "eth0", f"10.9.{n}.1")):
                ip("addr", "add", f"{address}/24", "dev", device, netns=netns)
                ip("link", "set", device, "up", netns=netns)
            server = f"10.9.{n}.1"
            if n == 2:
                # Beyond a gateway, and reached from a second address of the host.
                server = "10.77.0.1"
                ip("addr", "add", f"{server}/32", "dev", "lo", netns=there)
                ip("addr", "add", "10.9.2.9/24", "dev", "up2", netns=host)
                ip("route", "add", "10.77.0.0/16", "via", "10.9.2.1", "src", "10.9.2.9", netns=host)
            here.append("10.9.2.9" if n == 2 else f"10.9.{n}.2")
            servers.append(server)
            process = subprocess.Popen(
                ["ip", "netns", "exec", there, sys.executable, "-c", SERVER], stdout=subprocess.PIPE
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        yield Crossroads(host, here, servers)


def probe(netns: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    allowed = folder / "allowed"
    allowed.write_text("10.0.0.0/8\n203.0.113.0/24\n")
    command = ["ip", "netns", "exec", netns, sys.executable, "-m", "configtron", "--db", str(folder / "us.db"), "probe",
               "-w", str(allowed), "--profile", "quick", "--tests", "icw", "-f", "jsonl", *words]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


@pytest.mark.root
def test_each_target_is_met_by_its_own_interface(crossroads: Crossroads, tmp_path: Path) -> None:
    done = probe(crossroads.host, tmp_path, *crossroads.servers)
    rows = {row["target"]["host"]: row["observations"] for row in map(json.loads, done.stdout.splitlines())}
    windows = {host: rows[host]["icw"].get("value") for host in crossroads.servers}
    assert windows == dict.fromkeys(crossroads.servers, 10), done.stderr
    assert done.returncode == 0


@pytest.mark.root
def test_a_target_without_route_says_so(crossroads: Crossroads, tmp_path: Path) -> None:
    done = probe(crossroads.host, tmp_path, "203.0.113.7")
    assert done.returncode != 0 and "has no route to 203.0.113.7" in done.stderr
    done = probe(crossroads.host, tmp_path, "203.0.113.7", crossroads.servers[1])
    rows = {row["target"]["host"]: row["observations"] for row in map(json.loads, done.stdout.splitlines())}
    assert rows["203.0.113.7"]["address"]["reason"] == "no-source-address"
    assert rows[crossroads.servers[1]]["icw"]["value"] == 10


@pytest.mark.root
def test_the_kernels_answer(crossroads: Crossroads) -> None:
    for n, (here, server) in enumerate(zip(crossroads.here, crossroads.servers, strict=True)):
        assert route_to(server, netns=crossroads.host) == Route(f"up{n}", here, False)
    assert route_to("203.0.113.9", netns=crossroads.host) is None
    assert route_to(crossroads.servers[0], netns=crossroads.host, source="10.9.1.2") == Route("up0", "10.9.1.2", False)
    assert route_to(crossroads.servers[0], netns=crossroads.host, interface="nope0") is None
    assert is_local("10.9.2.9", crossroads.host) and not is_local("10.9.2.8", crossroads.host)


@pytest.mark.root
def test_an_interface_that_is_named_gives_its_own_address(crossroads: Crossroads) -> None:
    bare = Vantage("a", "A", crossroads.host, "up1")
    found = checked_vantage(bare, [Target("x", crossroads.servers[1])])
    assert (found.interface, found.source_address) == ("up1", "10.9.1.2")


def test_this_host_is_met_on_loopback() -> None:
    assert route_to("127.0.0.1") == Route("lo", "127.0.0.1", True)
    assert route_to("127.0.0.1", source="127.0.0.2") == Route("lo", "127.0.0.2", True)
    assert is_local("127.0.0.1") and not is_local("203.0.113.9")


@pytest.mark.root
def test_no_packet_leaves_with_an_address_of_another_program(crossroads: Crossroads, tmp_path: Path) -> None:
    vantages = tmp_path / "vantages.toml"
    vantages.write_text('[[vantage]]\nname = "a"\nsource_address = "203.0.113.9"\n')
    counter = "/sys/class/net/up1/statistics/tx_packets"
    quiet = False
    # the kernel itself sends neighbour discovery now and then, but not each time
    for _ in range(4):
        before = in_namespace(crossroads.host, "cat", counter)
        for words in (("--source-ip", "203.0.113.9"), ("--vantages", str(vantages))):
            done = probe(crossroads.host, tmp_path, crossroads.servers[1], *words)
            assert done.returncode == REFUSED != NOTHING
            (line,) = [line for line in done.stderr.splitlines() if line.startswith("configtron:")]
            assert "203.0.113.9 is not configured on this host" in line and "nothing was sent" in line
        quiet = quiet or in_namespace(crossroads.host, "cat", counter) == before
    assert quiet


LOCAL = [Target("127.0.0.1", "127.0.0.1")]


@pytest.mark.parametrize("given", ["", "127.0.0.2"])
def test_what_is_left_open_stays_open_for_each_target(given: str) -> None:
    """`route_to` decides: servers of this host are met on loopback (`test_routes.py`)."""
    vantage = Vantage("a", "A", source_address=given)
    assert checked_vantage(vantage, LOCAL) == vantage
    assert checked_vantage(Vantage("a", "A", interface="lo"), LOCAL).source_address == "127.0.0.1"


@pytest.mark.parametrize(
    ("named", "error", "says"),
    [
        ({"netns": "nope"}, BadInput, "no network namespace 'nope'"),
        ({"interface": "nope0", "source_address": "127.0.0.1"}, BadInput, "no device 'nope0'"),
        # addresses of another program
        ({"source_address": "203.0.113.9"}, Refused, "203.0.113.9 is not configured on this host"),
        ({"source_address6": "2001:db8:7::9"}, Refused, "2001:db8:7::9 is not configured on this host"),
    ],
)
def test_what_does_not_exist_is_stated_at_once(named: dict[str, str], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        checked_vantage(Vantage("a", "A", **named), LOCAL)


@pytest.mark.root
def test_an_address_of_each_version_that_is_asked_for() -> None:
    names = [Target("a.example")]
    with own_namespace() as (vantage, _):
        bare = Vantage("a", "A", netns=vantage.netns, interface="eth0")
        six = checked_vantage(bare, names, (6,))
        assert (six.source_address, six.interface) == ("", "eth0") and six.source_address6.endswith("::2")
        both = checked_vantage(bare, names, (4, 6))
        assert both.source_address.endswith(".2") and both.source_address6.endswith("::2")
        assert checked_vantage(bare, names).source_address6 == ""


@pytest.mark.root
def test_a_vantage_of_a_namespace_is_kept() -> None:
    with own_namespace() as (vantage, _):
        assert checked_vantage(vantage, []) == vantage
