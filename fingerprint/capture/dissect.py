# SPDX-License-Identifier: MIT
"""Scapy's dissectors for frames that the column reader does not know: they find the innermost IP header.

Scapy is an extra of its own (`configtron[craft]`). It is imported when the first such frame comes, and only with the
layers that tunnels need. It reads some thousand frames a second; a frame that the columns know does not come here. Two
encapsulations that Scapy lacks are declared below as Scapy layers: NFLOG and 802.1BR's E-tag.

Source     https://www.tcpdump.org/linktypes/LINKTYPE_NFLOG.html; IEEE 802.1BR 12; Scapy's documentation, "Adding new
           protocols"
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

# Bytes of a frame that are dissected: no stack of tunnel headers is longer, and the columns read the rest.
HEAD_BYTES = 512
NFLOG, NFLOG_PAYLOAD = 239, 9
IPV4, IPV6, MPLS_UNICAST, MPLS_MULTICAST, PPPOE, E_TAG = 0x0800, 0x86DD, 0x8847, 0x8848, 0x8864, 0x893F
# Layers of one frame that are followed: a crafted frame may have no end of them.
LAYERS_MOST = 64


class Dissector:
    """A callable: (link type, a frame's bytes) -> bytes before the innermost IP header, or -1 if there is none.

    lacks     import error -> a sentence that says how to install the missing package
    missing   that sentence after the first call, if Scapy is not installed; every call then returns -1
    """

    def __init__(self, lacks: Callable[[ModuleNotFoundError], object] = str) -> None:
        self.missing = ""
        self._lacks = lacks
        self._find: Callable[[int, bytes], int] | None = None

    def __call__(self, link: int, data: bytes) -> int:
        """Return the bytes before the innermost IP header of the frame; -1 if there is none, or no Scapy."""
        if self._find is None and not self.missing:
            try:
                self._find = _finder()
            except ModuleNotFoundError as error:
                self.missing = str(self._lacks(error))
        return -1 if self._find is None else self._find(link, data[:HEAD_BYTES])


def _finder() -> Callable[[int, bytes], int]:
    """Import Scapy's layers without its warnings, add the two that it lacks, and return the search for IP headers."""
    logging.getLogger("scapy").setLevel(logging.CRITICAL)
    from scapy.config import conf
    from scapy.contrib import erspan
    from scapy.contrib.mpls import MPLS
    from scapy.layers import dot11, ppi
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import GRE, SNAP, CookedLinux, Dot1AD, Dot1Q, Ether
    from scapy.layers.ppp import PPPoE
    from scapy.packet import bind_layers

    # Imported for their effect: they register themselves with Scapy.
    assert erspan and dot11 and ppi
    tag, nflog = _e_tag(), _nflog()
    lower = ((Ether, "type"), (Dot1Q, "type"), (Dot1AD, "type"), (CookedLinux, "proto"), (SNAP, "code"), (tag, "type"))
    upper = ((MPLS_UNICAST, MPLS), (MPLS_MULTICAST, MPLS), (PPPOE, PPPoE), (E_TAG, tag), (IPV4, IP), (IPV6, IPv6))
    for below, name in (*lower, (GRE, "proto")):
        for number, above in (*upper, (0x8100, Dot1Q), (0x88A8, Dot1AD)):
            bind_layers(below, above, **{name: number})
    links = {link: _behind(first) for link, first in {NFLOG: nflog, **conf.l2types.num2layer}.items()}

    def find(link: int, data: bytes) -> int:
        frame = links.get(link)
        return -1 if frame is None else _innermost(frame(data), (IP, IPv6))

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


def _innermost(packet: Any, kinds: tuple[type, ...]) -> int:
    """Return bytes before the last layer of those kinds; -1 if there is none."""
    at, found, layer = 0, -1, packet
    for _ in range(LAYERS_MOST):
        if not layer:
            break
        if isinstance(layer, kinds):
            found = at
        at += len(layer.raw_packet_cache or b"")
        layer = layer.payload
    return found


def _e_tag() -> Any:
    """Return 802.1BR's tag: two words of E-channel identifiers, their extensions, and the type of the next header."""
    from scapy.fields import ByteField, ShortField, XShortField
    from scapy.packet import Packet

    class ETag(Packet):  # type: ignore[misc, unused-ignore]
        """Behind Ethernet type 0x893F."""

        name = "E-tag"
        fields_desc = [
            ShortField("ingress", 0), ShortField("channel", 0), ByteField("ingress_more", 0),
            ByteField("channel_more", 0), XShortField("type", IPV4),
        ]  # fmt: skip

    return ETag


def _nflog() -> Any:
    """Return Linux's netfilter log: a header, then attributes of which one is the packet."""
    from scapy.fields import ByteField, ConditionalField, LEShortField, ShortField, StrLenField
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6
    from scapy.packet import NoPayload, Packet

    class Attribute(Packet):  # type: ignore[misc, unused-ignore]
        """Length and kind in the byte order of the host, little-endian here; padded to four bytes."""

        name = "NFLOG attribute"
        fields_desc = [
            LEShortField("size", 4), LEShortField("kind", 0),
            ConditionalField(
                StrLenField("value", b"", length_from=lambda one: max(one.size - 4, 0) + 3 & ~3),
                lambda one: one.kind & 0x7FFF != NFLOG_PAYLOAD,
            ),
        ]  # fmt: skip

        def guess_payload_class(self, payload: bytes) -> Any:
            """Return the packet behind its attribute; else the next attribute."""
            if self.kind & 0x7FFF != NFLOG_PAYLOAD:
                return Attribute
            return {4: IP, 6: IPv6}.get(payload[0] >> 4 if payload else 0, NoPayload)

    class Nflog(Packet):  # type: ignore[misc, unused-ignore]
        """The header of a frame."""

        name = "NFLOG"
        fields_desc = [ByteField("family", 0), ByteField("version", 0), ShortField("resource", 0)]

        def guess_payload_class(self, payload: bytes) -> Any:
            """Return its first attribute."""
            return Attribute

    return Nflog
