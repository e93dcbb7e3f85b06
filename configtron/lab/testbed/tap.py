# SPDX-License-Identifier: MIT
"""Packets seen where they leave or reach a device, header by header, without a program woken for each.

Question   When did each packet of each flow pass here, at hundreds of megabits a second, for next to no work?
Method     An AF_PACKET socket whose kernel writes the first bytes of what its filter passes into a ring shared with us.
           A frame of the ring is a row of a table: its fields are columns, read thousands at a time. Stamps are of the
           kernel's clock, which the guest has only one of: two taps' stamps differ by the time a packet took.
Reads as   `Seen`: one row a packet, in the order they passed.
Fails as   `Mismatch` when the kernel had no room for a packet in the ring: a log with holes is none.
Source     packet(7); linux/if_packet.h, struct tpacket2_hdr
"""

from __future__ import annotations

import socket
import struct

import numpy as np
from numpy.typing import NDArray

from configtron.linux import packet
from configtron.linux.netns import inside
from configtron.model.errors import Mismatch

# The header and the packet's first bytes: 80 of the one, 40 of the other, which IP and TCP without options take.
FRAME_BYTES = 128
# A power of two, so that blocks hold whole frames; two seconds at 200 Mbit/s of full packets.
FRAMES = 1 << 15
BLOCK_BYTES = 1 << 16
FREE, OURS = 0, 1
HEADERS_BYTES = 40
# IP's and UDP's headers.
UDP_HEADERS_BYTES = 28

FRAME = np.dtype({
    "names": ["status", "second", "nanosecond", "length", "number", "source", "target", "port", "peer", "sequence",
              "acknowledged", "offset", "flags"],
    "formats": ["<u4", "<u4", "<u4", ">u2", ">u2", ">u4", ">u4", ">u2", ">u2", ">u4", ">u4", "u1", "u1"],
    # the packet begins at 80: struct tpacket2_hdr and a sockaddr_ll, both aligned to 16, and 16 more
    "offsets": [0, 16, 20, 82, 84, 92, 96, 100, 102, 104, 108, 112, 113],
    "itemsize": FRAME_BYTES,
})  # fmt: skip
# source and target: addresses; port and peer: the source's and the target's
PACKET = np.dtype([
    ("at_ns", "<i8"), ("length", "<u2"), ("number", "<u2"), ("port", "<u2"), ("sequence", "<u4"), ("payload", "<u2"),
    ("source", "<u4"), ("target", "<u4"), ("peer", "<u2"), ("acknowledged", "<u4"), ("flags", "u1"),
])  # fmt: skip
COPIED = ("length", "number", "port", "sequence", "source", "target", "peer", "acknowledged", "flags")

Seen = NDArray[np.void]


class Tap:
    """Sees packets from ports `first` to `last` on a device of a namespace. Read it before the ring is full.

    protocol   TCP; or UDP for the datagrams of `datagrams.py`, whose number is read as the sequence number
    """

    def __init__(self, netns: str, device: str, first: int, last: int, protocol: int = socket.IPPROTO_TCP) -> None:
        self._protocol = protocol
        with inside(netns):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        packet.attach_filter(self._socket, packets_from(first, last, protocol))
        ring = struct.pack("IIII", BLOCK_BYTES, FRAMES * FRAME_BYTES // BLOCK_BYTES, FRAME_BYTES, FRAMES)
        self._memory = packet.receive_ring(self._socket, packet.TPACKET_V2, ring, FRAMES * FRAME_BYTES)
        self._frames = np.frombuffer(self._memory, FRAME)
        self._next = 0
        self._read: list[Seen] = []
        # bound last: what is seen is seen through the filter, into the ring
        self._socket.bind((device, packet.ETH_P_ALL))

    def read(self) -> int:
        """Take over what has been seen since; how many packets."""
        count = 0
        while fresh := self._take():
            count += fresh
        return count

    def _take(self) -> int:
        """Return the ring's frames from the next one to its end or the first that is the kernel's."""
        ahead = self._frames[self._next :]
        kept = ahead["status"] & OURS == 0
        count = int(kept.argmax()) if kept.any() else len(ahead)
        if count:
            self._read.append(_packets(ahead[:count], self._protocol))
            ahead["status"][:count] = FREE
            self._next = (self._next + count) % FRAMES
        return count

    def close(self) -> Seen:
        """Everything seen. Errors: `Mismatch` when the ring was full at any time."""
        self.read()
        missed = packet.dropped(self._socket)
        self._socket.close()
        # the columns are views of the memory: they go first
        del self._frames
        self._memory.close()
        if missed:
            raise Mismatch(f"a tap had no room for {missed} packets: its log has holes")
        return np.concatenate(self._read) if self._read else np.zeros(0, PACKET)


def _packets(frames: Seen, protocol: int) -> Seen:
    """Rows of our own out of frames of the ring."""
    found = np.zeros(len(frames), PACKET)
    found["at_ns"] = frames["second"].astype(np.int64) * 1_000_000_000 + frames["nanosecond"]
    for name in COPIED:
        found[name] = frames[name]
    if protocol == socket.IPPROTO_UDP:
        # a datagram's number is right behind UDP's eight bytes, at the offset of TCP's acknowledgement number
        found["sequence"], found["payload"] = frames["acknowledged"], found["length"] - UDP_HEADERS_BYTES
        return found
    # the upper half of the byte: the TCP header's length in words
    headers = 20 + 4 * (frames["offset"] >> 4)
    found["payload"] = found["length"] - headers
    return found


def packets_from(first: int, last: int, protocol: int) -> bytes:
    """Return a filter for one protocol over IPv4 without options, from these ports: the first bytes of each packet."""
    load_byte, load_half, equal, atleast, above, give = 0x30, 0x28, 0x15, 0x35, 0x25, 0x06
    steps = (
        # offsets are from the IP header: the socket is of the kind that has no link header
        (load_byte, 0, 0, 0), (equal, 0, 6, 0x45), (load_byte, 0, 0, 9), (equal, 0, 4, protocol),
        (load_half, 0, 0, 20), (atleast, 0, 2, first), (above, 1, 0, last), (give, 0, 0, HEADERS_BYTES),
        (give, 0, 0, 0),
    )  # fmt: skip
    return b"".join(struct.pack("HBBI", *step) for step in steps)
