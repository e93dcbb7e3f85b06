# SPDX-License-Identifier: MIT
"""Window clamps in the kernel's TCP metrics cache: deleted after the route that set them is gone.

Question   The kernel copies a locked `cwnd` of a route into its metrics of a client (`ip tcp_metrics`), and applies
           that for an hour, even after the route has changed. How do a client's new connections lose the clamp together
           with the rules that set it?
Method     The metrics are listed (generic netlink, family tcp_metrics). An entry is deleted if it has a clamp of ours
           and its client's route no longer carries that clamp.
Fails as   Nothing is deleted if the kernel has no such metrics, or refuses to list them: then entries only age.
           Dropped: the entry's own source address, since a prefix's routes have one clamp for all sources.
Differs    from flushing all: other clients' metrics stay. A deleted entry loses its round-trip time too, which the
           kernel measures again.
Source     linux/net/ipv4/tcp_metrics.c (tcpm_suck_dst, TCP_METRICS_TIMEOUT), linux/tcp_metrics.h; ip-tcp_metrics(8)
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from contextlib import suppress

from configtron.linux.netlink import ACK, DUMP, GENERIC, Netlink, NetlinkError, attribute, attributes
from configtron.tune.drivers.route.routes import match

# struct genlmsghdr: command, version, reserved
_COMMAND = struct.Struct("=BBH")
_CONTROLLER = GENERIC  # GENL_ID_CTRL, which lists the families
_GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 3, 1, 2
_GET, _DELETE = 1, 2
_ADDRESS4, _ADDRESS6, _VALUES = 1, 2, 6
_CWND = 4  # TCP_METRIC_CWND, counted from 1
# RTAX_CWND
_CLAMP = 7


def forget(net: Netlink, netns: str, clamps: Collection[int]) -> int:
    """Delete the metrics of clients with one of these clamps (segments) that their route lost; return how many."""
    if not clamps:
        return 0
    with Netlink(netns, GENERIC) as generic:
        family = _family(generic)
        stale = [address for address, clamp in _remembered(generic, family) if clamp in clamps
                 and not _has(net, address, clamp)]  # fmt: skip
        for address in stale:
            kind = _ADDRESS4 if len(address) == 4 else _ADDRESS6
            _answers(generic, family, _DELETE, attribute(kind, address), ACK)
    return len(stale)


def _has(net: Netlink, address: bytes, clamp: int) -> bool:
    found = match(net, 4 if len(address) == 4 else 6, address)
    return found is not None and dict(found.way.metrics).get(_CLAMP) == clamp


def _family(generic: Netlink) -> int:
    for body in _answers(generic, _CONTROLLER, _GET_FAMILY, attribute(_FAMILY_NAME, b"tcp_metrics\0"), ACK):
        return int(struct.unpack("=H", attributes(body, _COMMAND.size)[_FAMILY_ID])[0])
    return 0


def _remembered(generic: Netlink, family: int) -> Iterator[tuple[bytes, int]]:
    """Yield (packed address, clamp in segments) of each client whose metrics have a clamp."""
    for body in _answers(generic, family, _GET, b"", DUMP) if family else ():
        found = attributes(body, _COMMAND.size)
        address = found.get(_ADDRESS4) or found.get(_ADDRESS6)
        window = attributes(found.get(_VALUES, b"")).get(_CWND)
        if address and window:
            yield address, int(struct.unpack("=I", window)[0])


def _answers(generic: Netlink, family: int, command: int, body: bytes, flags: int) -> list[bytes]:
    """Return the messages that answer a command; none if the kernel refuses it."""
    with suppress(NetlinkError):
        return generic.dump(family, _COMMAND.pack(command, 1, 0) + body, flags=flags, torn_ok=True)
    return []
