# SPDX-License-Identifier: MIT
"""Connections of our own from clients' addresses, over the loopback: what a new client gets. No packet leaves the host.

Question   Rules are in force and read back, but no client is connected. What would one get?
Method     A listener and a client of ours are both bound to the loopback device; the client has an address of the
           prefix (IP_TRANSPARENT). If a socket is bound to a device, Linux takes an address without a route there as
           on-link, and the loopback delivers it here. So the handshake is whole, and programs, module and sysctls
           act on the accepted socket as on any client's. The socket itself tells what it has. If a connection falls
           idle for longer than its time-out, its window tells whether it is kept.
           If the place has a control group, this process is in that group while it makes the listener.
Reads as   For each prefix the knobs that a socket shows, with its values.
Fails as   `OSError`: no right, a firewall on the loopback, a listener that has the port already. `Missing`: nsenter
           brought this process here, so it is in none of the control groups whose programs it would ask about. An IPv6
           answer needs a route over the loopback: ::1 is the only client.
Differs    from `dry_connection.py`: routes to the client have no effect here.
Source     linux/net/ipv4/route.c (ip_route_output_key_hash_rcu: "Assume, that the destination is on link"), ip(7);
           net/ipv4/tcp_output.c (tcp_cwnd_restart)
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from configtron.linux.netns import inside
from configtron.model.errors import Missing
from configtron.model.nouns import Value
from configtron.model.tuning import Place
from configtron.tune.drivers.bpf.pins import group
from configtron.tune.drivers.socket_options import INFO_BYTES, OPTIONS, control_of, told
from configtron.tune.listeners import listeners_of

# linux/in.h, linux/in6.h; absent from Python's socket module.
_TRANSPARENT = {4: (0, 19), 6: (41, 75)}
LOOPBACK = {4: "127.0.0.1", 6: "::1"}
# s; a handshake on the loopback takes less than a millisecond.
_PATIENCE_S = 0.5
# A small segment, so that little data fills a window; bytes of one flight of some fifty segments, and flights.
_SEGMENT, _FLIGHT_BYTES, _FLIGHTS = 536, 28_000, 3
# A window of RFC 6928 is what idle connections keep in any case.
_LEAST_WINDOW = 10
# The kernel halves a window for each time-out; s that a pause takes at most.
_TIMEOUTS, _LONGEST_S = 3, 2.0
IDLE = "tcp_slow_start_after_idle"


class Shown(NamedTuple):
    """What a connection from an address of a scope has: knob -> value."""

    scope: str
    values: Mapping[str, Value]


class Paused(NamedTuple):
    """An accepted connection that is to fall idle, its window before that, and what it has."""

    served: socket.socket
    window: int
    shown: Shown


def _version(address: str) -> int:
    return 6 if ":" in address else 4


def shown_to(place: Place, clients: Collection[tuple[str, str]], idle: Collection[str]) -> Iterator[Shown]:
    """Yield what a connection of each client has: of (scope, address). Connections of the scopes in `idle` fall idle.

    Errors: `OSError`; `BadInput` and `Missing`, where namespace or control group cannot be entered.
    """
    with ExitStack() as stack:
        with inside(place.netns), _joined(place):
            versions = {_version(address) for _, address in clients}
            listening = {version: stack.enter_context(_listener(place, version)) for version in versions}
        paused: list[Paused] = []
        for scope, address in clients:
            with inside(place.netns):
                one, served = _connected(address, listening[_version(address)])
            with ExitStack() as ends:
                ends.enter_context(one)
                ends.enter_context(served)
                shown = Shown(scope, told(_info(served), control_of(served)) | _options(served))
                if scope in idle and (window := _filled(one, served)) > _LEAST_WINDOW:
                    paused.append(Paused(served, window, shown))
                    stack.push(ends.pop_all())
                yield shown
        yield from _after_pause(paused)


@contextmanager
def _joined(place: Place) -> Iterator[None]:
    """This process in the control group of a place; afterwards in its own again."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::")), "")
    if own.startswith(".."):
        raise Missing("this process is outside of the control groups that it sees; run it as a unit, or by docker exec")
    if not place.cgroup.strip("/"):
        yield
        return
    home, process = group(Place(cgroup=own)), str(os.getpid())
    (group(place) / "cgroup.procs").write_text(process)
    try:
        yield
    finally:
        (home / "cgroup.procs").write_text(process)


def _socket(version: int) -> socket.socket:
    one = socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT)
    # It ends with a reset and leaves nothing that waits.
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=2i", 1, 0))
    one.settimeout(_PATIENCE_S)
    return one


def _listener(place: Place, version: int) -> socket.socket:
    """Return a listener at the first free one of the place's ports, at any if it names none. Errors: `OSError`."""
    for at in listeners_of(place.listen) or (None,):
        one = _socket(version)
        try:
            one.bind(((at and at.address) or LOOPBACK[version], at.port if at else 0))
            one.listen()
            return one
        except OSError as error:
            one.close()
            why = error
    raise why


def _connected(address: str, listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    version = _version(address)
    one = _socket(version)
    try:
        if address != LOOPBACK[version]:
            one.setsockopt(*_TRANSPARENT[version], 1)
        one.bind((address, 0))
        one.connect(listener.getsockname())
        return one, listener.accept()[0]
    except OSError:
        one.close()
        raise


def _info(served: socket.socket) -> bytes:
    return served.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)


def _options(served: socket.socket) -> dict[str, Value]:
    found: dict[str, Value] = {knob: option.get(served) for knob, option in OPTIONS.items()}
    return found | {"nagle": 1 - int(str(found["nagle"]))}


def _window(served: socket.socket) -> int:
    return int(str(told(_info(served), "")["cwnd"]))


def _filled(one: socket.socket, served: socket.socket) -> int:
    """Send some flights; return the window then, 0 if they did not arrive in time."""
    served.settimeout(_PATIENCE_S)
    with suppress(OSError):
        for _ in range(_FLIGHTS):
            served.sendall(bytes(_FLIGHT_BYTES))
            left = _FLIGHT_BYTES
            while left:
                left -= len(one.recv(left))
        return _window(served)
    return 0


def _after_pause(paused: Collection[Paused]) -> Iterator[Shown]:
    """Wait until these connections are idle, send one byte on each, and yield whether it lost its window."""
    pauses_s = [_TIMEOUTS * int(str(told(_info(each.served), "")["rto_us"])) / 1e6 for each in paused]
    time.sleep(max((pause_s for pause_s in pauses_s if pause_s <= _LONGEST_S), default=0.0))
    for each, pause_s in zip(paused, pauses_s, strict=True):
        if pause_s <= _LONGEST_S:
            each.served.sendall(b"\0")
            yield Shown(each.shown.scope, {IDLE: int(_window(each.served) < each.window)})
