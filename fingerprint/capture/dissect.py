# SPDX-License-Identifier: MIT
"""Scapy's dissectors for frames that the column reader does not know: they find the outermost IP header.

Scapy is an extra of its own (`configtron[craft]`). It is imported when the first such frame comes, and only with the
layers that such frames need. It reads some thousand frames a second; a frame that the columns know does not come here.
NFLOG, which Scapy lacks, is read below. An IP header that an ICMP error quotes is no packet.

Source     https://www.tcpdump.org/linktypes/LINKTYPE_NFLOG.html; Scapy's documentation, "Adding new protocols"
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from configtron.fingerprint.passive.link import PPPOE, RAW
from configtron.fingerprint.passive.tunnels import NO_IP

# Bytes of a frame that are dissected: no stack of tunnel headers is longer, and the columns read the rest.
HEAD_BYTES = 512
NFLOG, NFLOG_PAYLOAD = 239, 9
IPV4, IPV6, MPLS_UNICAST, MPLS_MULTICAST = 0x0800, 0x86DD, 0x8847, 0x8848
# Scapy's classes for bytes that no layer knows, and for what is encrypted.
OPAQUE = frozenset(("Raw", "Dot11Encrypted"))
# Layers of one frame that are followed: a crafted frame may have no end of them.
LAYERS_MOST = 64


class Dissector:
    """A callable: (link type, a frame's bytes) -> bytes before the outermost IP header; -1 if none is found, `NO_IP` if
    Scapy knows every header and none is IP's.

    lacks     import error -> a sentence that says how to install the missing package
    missing   that sentence after the first call, if Scapy is not installed; every call then returns -1
    """

    def __init__(self, lacks: Callable[[ModuleNotFoundError], object] = str) -> None:
        self.missing = ""
        self._lacks = lacks
        self._find: Callable[[int, bytes], int] | None = None

    def __call__(self, link: int, data: bytes) -> int:
        """Return the bytes before the outermost IP header of the frame; -1 if none is found, or no Scapy; `NO_IP`."""
        if self._find is None and not self.missing:
            try:
                self._find = _finder()
            except ModuleNotFoundError as error:
                self.missing = str(self._lacks(error))
        return -1 if self._find is None else self._find(link, data[:HEAD_BYTES])


def _finder() -> Callable[[int, bytes], int]:
    """Import Scapy's layers without its warnings, and return the search for IP headers."""
    logging.getLogger("scapy").setLevel(logging.CRITICAL)
    from scapy.config import conf
    from scapy.contrib.chdlc import CHDLC
    from scapy.contrib.mpls import MPLS
    from scapy.layers import dot11, ppi
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import SNAP, Dot1AD, Dot1Q, Ether
    from scapy.layers.ppp import PPPoE
    from scapy.packet import bind_layers

    # Imported for their effect: they register themselves with Scapy.
    assert dot11 and ppi
    lower = ((Ether, "type"), (Dot1Q, "type"), (Dot1AD, "type"), (SNAP, "code"), (CHDLC, "proto"))
    upper = ((MPLS_UNICAST, MPLS), (MPLS_MULTICAST, MPLS), (PPPOE, PPPoE), (IPV4, IP), (IPV6, IPv6))
    for below, name in lower:
        for number, above in (*upper, (0x8100, Dot1Q), (0x88A8, Dot1AD)):
            bind_layers(below, above, **{name: number})
    links = {link: _behind(first) for link, first in conf.l2types.num2layer.items()}

    def find(link: int, data: bytes) -> int:
        skip, link = (_nflog_payload(data), RAW) if link == NFLOG else (0, link)
        frame = links.get(link)
        found = -1 if frame is None else _outermost(data[skip:], frame(data[skip:]), (IP, IPv6))
        return found + skip if found >= 0 else found

    return find


def _behind(first: Any) -> Any:
    """Return a layer without header that has `first` as payload: Scapy keeps a payload it cannot read as raw bytes."""
    from scapy.packet import Packet

    class CapturedFrame(Packet):  # type: ignore[misc, unused-ignore]
        """Of one link type."""

        fields_desc = []

        def guess_payload_class(self, payload: bytes) -> Any:
            """Return the class of the link type."""
            return first

    return CapturedFrame


def _outermost(data: bytes, packet: Any, kinds: tuple[type, ...]) -> int:
    """Return bytes before the first layer of those kinds; without one, `NO_IP` if no layer is raw or encrypted, else
    -1. What ICMP quotes is of classes derived from those."""
    layer, unknown = packet, False
    for _ in range(LAYERS_MOST):
        if not layer:
            break
        if type(layer) in kinds:
            return data.find(layer.original)
        unknown = unknown or not OPAQUE.isdisjoint(kind.__name__ for kind in type(layer).__mro__)
        layer = layer.payload
    return -1 if unknown or layer else NO_IP


def _nflog_payload(data: bytes) -> int:
    """Return where the packet begins in Linux's netfilter log: after a header, attributes follow, in the byte order of
    the host, little-endian here, padded to four bytes; one is the packet. Without it: the end."""
    at = 4
    while at < len(data) and int.from_bytes(data[at + 2 : at + 4], "little") & 0x7FFF != NFLOG_PAYLOAD:
        at += max(int.from_bytes(data[at : at + 2], "little"), 4) + 3 & ~3
    return at + 4
