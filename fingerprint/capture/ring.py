# SPDX-License-Identifier: MIT
"""An interface -> frames, as they pass: a ring that the kernel fills and we empty, block by block.

Question   How can a program capture every TCP header of a busy interface in memory that does not grow?
Method     AF_PACKET with TPACKET_V3: the kernel writes frames that pass the filter, cut to the snap length, into blocks
           that we have mapped; a full block, or one that is old enough, is ours until we hand it back. A block is
           copied out and handed back at once, so that the kernel seldom waits; its records are then columns, as a
           file's are.
Reads as   `Frames`, stamped in nanoseconds by the kernel's wall clock and shown by one that no step moves
           (`configtron/linux/clock.py`); how many frames were lost since the ring was opened, and how many stamps a
           step of the wall clock made unsure.
           Dropped: the VLAN tag that the card took off, since networks are not told apart; checksum states.
Why not    libpcap: it uses the same ring, but hands over one packet a call, and a call into Python costs more than all
           that is done with a packet afterwards. Its compiler of filters is used (by the caller that opens a ring).
Differs    from libpcap on interfaces without Ethernet header: there the kernel takes the link header off, and frames
           are IP packets. On loopback each packet passes twice; only its arrival is taken, as libpcap does.
Source     packet(7); Documentation/networking/packet_mmap.rst; include/uapi/linux/if_packet.h
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import select
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from configtron.fingerprint.passive.columns import PADDING, Frames
from configtron.fingerprint.passive.link import ETHERNET, RAW
from configtron.linux import packet
from configtron.linux.clock import SteadyClock
from configtron.model.errors import BadInput, Missing

# A block is retired when it is this old.
RETIRE_MS = 100
# linux/if_arp.h.
_ARPHRD_ETHERNET, _ARPHRD_LOOPBACK = 1, 772
# linux/sockios.h, linux/if.h.
_SIOCGIFFLAGS, _SIOCGIFHWADDR, _IFF_UP = 0x8913, 0x8927, 1
# The bits of a block's status by which it is ours.
_USER = 1
# struct tpacket_block_desc: version, offset; then status, packets, first packet, length.
_BLOCK = struct.Struct("=IIIIII")
_STATUS_AT = 8
# struct tpacket3_hdr, as far as we read it.
_RECORD = np.dtype(
    [("next", "=u4"), ("sec", "=u4"), ("nsec", "=u4"), ("kept", "=u4"), ("length", "=u4"), ("status", "=u4"),
     ("mac", "=u2"), ("net", "=u2")]
)  # fmt: skip
Stamps = np.ndarray[Any, np.dtype[np.int64]]


class RingSize(NamedTuple):
    """How much a ring holds: blocks of so many bytes.

    32 MiB hold some 150 000 packets of 128 bytes, a second of a busy server. A frame's place need only be large enough
    for the kernel's check: blocks hold records of any length.
    """

    block_bytes: int = 1 << 20
    blocks: int = 32
    frame_bytes: int = 1 << 11


USUAL_SIZE = RingSize()


def interfaces() -> list[str]:
    """Return names of this namespace's interfaces."""
    return [name for _, name in socket.if_nameindex()]


class Ring:
    """An interface being listened to. `program(link)` gives the filter (classic BPF) for that link type."""

    def __init__(self, interface: str, program: Callable[[int], bytes], size: RingSize = USUAL_SIZE) -> None:
        self.interface, self.size = interface, size
        self.dropped = self.unsure = 0
        self._clock = SteadyClock()
        self._empty_ns = self._clock.now_ns()
        self._next, self._number = 0, 1
        self._copy = np.zeros(size.block_bytes + PADDING, np.uint8)
        kind, self.link = _look(interface)
        self._socket = _socket(kind)
        try:
            self._map = self._open(program(self.link), loopback=kind == _ARPHRD_LOOPBACK)
        except OSError as error:
            self._socket.close()
            raise BadInput(f"{interface}: {error.strerror}") from error
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN | select.POLLERR)

    def _open(self, code: bytes, *, loopback: bool) -> mmap.mmap:
        ear = self._socket
        size = self.size
        frames = size.block_bytes // size.frame_bytes * size.blocks
        ring = struct.pack("=7I", *size, frames, RETIRE_MS, 0, 0)
        mapped = packet.receive_ring(ear, packet.TPACKET_V3, ring, size.block_bytes * size.blocks)
        # The filter stands before the socket is bound, so nothing else ever gets in.
        packet.attach_filter(ear, code)
        if loopback:
            ear.setsockopt(packet.SOL_PACKET, packet.IGNORE_OUTGOING, 1)
        ear.bind((self.interface, packet.ETH_P_ALL))
        return mapped

    def hear(self, timeout_s: float) -> Iterator[Frames]:
        """Yield the frames received, a block at a time; wait up to the time given. Frames hold until the next."""
        before_ns = self._clock.now_ns()
        if not self._ready():
            # Blocks are handed over when they are full, or this old.
            self._empty_ns = before_ns - 2 * RETIRE_MS * 1_000_000
            self._wait(timeout_s)
        while self._ready():
            begin = self._next * self.size.block_bytes
            _, _, _, packets, first, length = _BLOCK.unpack_from(self._map, begin)
            self._copy[:length] = np.frombuffer(self._map, np.uint8, length, begin)
            # Not before the copy: from here on the kernel writes there again.
            struct.pack_into("=I", self._map, begin + _STATUS_AT, 0)
            self._next = (self._next + 1) % self.size.blocks
            if packets:
                yield self._frames(packets, first)

    def _ready(self) -> bool:
        return bool(_BLOCK.unpack_from(self._map, self._next * self.size.block_bytes)[2] & _USER)

    def _wait(self, timeout_s: float) -> None:
        for _, event in self._poll.poll(max(timeout_s, 0) * 1000):
            if event & select.POLLERR:
                code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                # An interface that went down may come back; one that is gone does not.
                if code == errno.ENETDOWN and self.interface not in interfaces():
                    raise Missing(f"{self.interface}: the interface is gone")

    def _frames(self, packets: int, at: int) -> Frames:
        begins, words = [], self._copy.data[: self.size.block_bytes].cast("I")
        for _ in range(packets):
            begins.append(at)
            at += words[at >> 2]
        begin = np.asarray(begins, np.int64)
        size = _RECORD.itemsize
        records = np.ndarray((len(self._copy) - size + 1,), f"V{size}", self._copy, 0, (1,))[begin].view(_RECORD)
        stamps = self._steady(records["sec"].astype(np.int64) * 1_000_000_000 + records["nsec"])
        number, self._number = self._number, self._number + packets
        return Frames(
            self._copy, begin + records["mac"], records["kept"].astype(np.int64), records["length"].astype(np.int64),
            stamps, np.full(packets, self.link, np.int64), number,
        )  # fmt: skip

    def now_ns(self) -> int:
        """Return the time, on the clock of the frames' stamps."""
        return self._clock.now_ns()

    def _steady(self, stamps: Stamps) -> Stamps:
        """Return the kernel's stamps on a clock that no step of the wall clock moves."""
        self._clock.measure()
        shift_ns = self._clock.shift_ns(self._empty_ns)
        if shift_ns is not None:
            return stamps + shift_ns
        found = [self._clock.steady_ns(stamp, self._empty_ns) for stamp in stamps.tolist()]
        self.unsure += sum(not sure for _, sure in found)
        return np.array([at for at, _ in found], np.int64)

    def drops(self) -> int:
        """Return frames lost for want of room, since the ring was opened."""
        self.dropped += packet.dropped(self._socket)
        return self.dropped

    def close(self) -> None:
        """Stop listening."""
        self._map.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _socket(kind: int) -> socket.socket:
    form = socket.SOCK_RAW if kind in (_ARPHRD_ETHERNET, _ARPHRD_LOOPBACK) else socket.SOCK_DGRAM
    try:
        return socket.socket(socket.AF_PACKET, form, 0)
    except PermissionError:
        raise Missing("listening to an interface needs CAP_NET_RAW; run as root") from None


def _look(interface: str) -> tuple[int, int]:
    """Return (kind of hardware, link type that its frames have here)."""
    # Not from /sys: that shows the namespace it was mounted in, which need not be this thread's.
    request = struct.pack("16s24x", interface.encode()[:15])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            (flags,) = struct.unpack_from("=H", fcntl.ioctl(asked, _SIOCGIFFLAGS, request), 16)
            (kind,) = struct.unpack_from("=H", fcntl.ioctl(asked, _SIOCGIFHWADDR, request), 16)
    except OSError:
        names = ", ".join(interfaces())
        raise BadInput(f"{interface}: no such interface here; there are: {names}; a watch listens to one") from None
    if not flags & _IFF_UP:
        raise BadInput(f"{interface}: the interface is down; run: ip link set {interface} up")
    return kind, ETHERNET if kind in (_ARPHRD_ETHERNET, _ARPHRD_LOOPBACK) else RAW
