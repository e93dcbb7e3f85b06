# SPDX-License-Identifier: MIT
"""Open connections whose client's class changed: which they are, and the socket options that they get.

Question   Which accepted connections are open, and which options are to be set on one, so that it has what a new
           connection of its client would have?
Method     inet_diag lists them with cookie and inode; a socket is borrowed from its process (pidfd_getfd(2)), and its
           cookie compared. The target of an option is the new profile's value, or the listener's where the profile
           leaves the option alone. An option is set only if its value now is the listener's or one of our profiles':
           another value was set by the program, and stays.
Reads as   `SocketChange`: before and after of each option that differs.
Fails as   Skipped: connections that this host opened, that no process holds, or that a program outside the place's
           listeners and control group holds. Settings without a socket option are named by `beyond`.
Differs    from `Mover.move`, which sets all connections of all clients, and from `open_connections`, which takes the
           rules away.
Source     sock_diag(7), pidfd_getfd(2), tcp(7), socket(7)
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from configtron.linux.proc import ESTABLISHED, borrowed
from configtron.linux.sock_diag import Diag
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Place
from configtron.tune.drivers.bpf.layout import PACED_UNBOUNDED, kernel_name
from configtron.tune.drivers.open_connections import LASTING, Lasting, chosen
from configtron.tune.drivers.socket_options import CONTROL, OPTIONS, as_options, cookie_of, option_value, set_option

Values = Mapping[str, Value]
# Options whose value the kernel moves by itself: what stands there does not show who set it.
_MOVING = frozenset(("window_clamp",))
# include/net/tcp_states.h
_CLOSE_WAIT = 8


class OpenClient(NamedTuple):
    """An accepted connection: SO_COOKIE, inode, local port, its client's address (v4-mapped as IPv4) and port, and the
    attributes of inet_diag that were asked for."""

    cookie: int
    inode: int
    port: int
    address: IPv4Address | IPv6Address
    client_port: int = 0
    shown: Mapping[int, bytes] = {}


def open_clients(place: Place, asked: int = 0) -> list[OpenClient]:
    """Return the accepted connections of a place that a process holds. Errors: `Missing`, `NetlinkError`."""
    with closing(Diag(place.netns)) as diag:
        ports = {one.local_port for one in diag.listening()}
        found = diag.connections(asked)
    holds = chosen(place)
    return [
        OpenClient(one.cookie, one.inode, one.local_port, _client(one.remote), one.remote_port, one.attributes)
        for one in found
        if one.inode and one.state in (ESTABLISHED, _CLOSE_WAIT) and one.local_port in ports
        and holds(one.local_port, _client(one.local).packed, one.inode)
    ]  # fmt: skip


def _client(packed: bytes) -> IPv4Address | IPv6Address:
    found = ip_address(packed)
    return getattr(found, "ipv4_mapped", None) or found


def lent(clients: Iterable[OpenClient]) -> Iterator[tuple[OpenClient, socket.socket]]:
    """Yield connections with a socket of ours for each; the caller closes it. Errors: `Missing`."""
    by_inode = {one.inode: one for one in clients}
    for inode, descriptor in borrowed(by_inode.keys()):
        one = socket.socket(fileno=descriptor)
        if cookie_of(one) == by_inode[inode].cookie:
            yield by_inode[inode], one
        else:
            # The inode is another socket's by now.
            one.close()


class OptionChanger:
    """Options that profiles of a driver set, and what stands in their place without one.

    wraps      the driver's own congestion controls stand in place of the kernel's (ebpf)
    profiles   all that the rules in force may give: an option that none of them sets is never touched
    """

    def __init__(self, place: Place, profiles: Iterable[Profile], *, wraps: bool) -> None:
        self._wraps = wraps
        options = [self._options(profile) for profile in profiles]
        self._ours = {knob: {one[knob] for one in options if knob in one} for one in options for knob in one}
        self._listeners = self._of_listeners(place)

    def _options(self, profile: Profile) -> dict[str, Value]:
        """Return knob -> value as a socket option of the settings that an open connection can have."""
        found = {knob: value for knob, value in as_options(profile).items() if knob in OPTIONS or knob == CONTROL}
        if ("pacing", "fq") in profile.settings:
            found.setdefault("max_pacing_rate", PACED_UNBOUNDED)
        if self._wraps and CONTROL in found:
            found[CONTROL] = kernel_name(dict(profile.settings))
        return {knob: value if knob == CONTROL else int(str(value)) for knob, value in found.items()}

    def _of_listeners(self, place: Place) -> dict[int, dict[str, Value]]:
        """Return port -> options of its listener."""
        with closing(Diag(place.netns)) as diag:
            ports = {one.inode: one.local_port for one in diag.listening() if one.inode}
        found: dict[int, dict[str, Value]] = {}
        for inode, descriptor in borrowed(ports.keys()):
            with socket.socket(fileno=descriptor) as one:
                found.setdefault(ports[inode], {knob: option_value(one, knob) for knob in self._ours})
        return found

    def difference(self, one: socket.socket, port: int, profile: Profile) -> tuple[dict[str, Value], dict[str, Value]]:
        """Return (knob -> value now, knob -> value to set) where they differ. Errors: `OSError`."""
        listener = self._listeners.get(port, {})
        target = listener | self._options(profile)
        before, given = dict[str, Value](), dict[str, Value]()
        for knob, value in target.items():
            now, unset = option_value(one, knob), 0 if knob == CONTROL else OPTIONS[knob].unset
            # A listener's 0 stands for a value that the kernel chooses.
            plain = now not in self._ours[knob] if knob in _MOVING else now == listener.get(knob)
            if now == value or (plain and not value) or not (plain or now in self._ours[knob]):
                continue
            before[knob], given[knob] = now, value or unset
        return before, given


def beyond(driver: str, profile: Profile) -> Counter[str]:
    """Return the settings of a driver's profile that outlast a connection's beginning and have no socket option."""
    return Counter(knob for knob, _ in profile.settings if knob in LASTING.get(driver, Lasting((), ())).own)


def put(one: socket.socket, values: Values) -> Counter[str]:
    """Set options on a borrowed socket; return those that the kernel refused."""
    return Counter(knob for knob, value in values.items() if not set_option(one, knob, value))
