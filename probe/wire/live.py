# SPDX-License-Identifier: MIT
"""The sockets of one vantage: hearing with kernel time and true segment sizes, sending from any source address.

Hearing   AF_PACKET on the vantage's interface, with the virtio header (PACKET_VNET_HDR), which alone shows how large
          the wire segments of an offloaded frame were; SO_TIMESTAMPNS, so that our own slowness is not measured; a
          filter on our address and port range; a large buffer, and its drop counter.
Sending   A raw IP socket with our own header. The kernel routes it and asks for neighbours; the source address needs
          not be the kernel's. The mark distinguishes our packets from the kernel's (isolation.py).

Sockets are made inside the vantage's network namespace and stay there; the thread returns to its own.
"""

from __future__ import annotations

import errno
import socket
import struct

from configtron.linux import packet
from configtron.linux.netns import inside
from configtron.model.errors import BadInput, Missing
from configtron.model.nouns import Vantage
from configtron.probe.wire.filter import compile_filter
from configtron.probe.wire.frames import packed

# 32 MiB hold about 40 000 small frames (768 bytes each as the kernel counts), several seconds
# of 1000 connections a second.
RECEIVE_BUFFER_BYTES = 32 << 20
# On every packet that we send and on no other, so a rule can distinguish ours from the kernel's.
MARK = 0xC0F1

# linux/if_packet.h, linux/socket.h, linux/if_ether.h, linux/sched.h, linux/in6.h: absent from Python's socket module.
_SO_RCVBUFFORCE, _SO_TIMESTAMPNS, _SO_MARK = 33, 35, 36
_CLONE_NEWNET, _IPV6_HDRINCL = 0x40000000, 36
# Link types with an Ethernet header: Ethernet and loopback (linux/if_arp.h).
_ETHERNET_LIKE = (1, 772)
# virtio_net_hdr, then the Ethernet header.
_VNET_BYTES, _ETHERNET_BYTES = 10, 14
_HEADERS_BYTES = _VNET_BYTES + _ETHERNET_BYTES
# The largest super-frame (GSO_MAX_SIZE with BIG TCP is 512 kB; ordinary ones stay below 64 kB).
_BUFFER_BYTES = 1 << 19
_ANCILLARY_BYTES = socket.CMSG_SPACE(16)
_TIMESPEC = struct.Struct("qq")

# When the kernel stamped it (wall clock, ns), IP packet, its original length, gso_size.
Arrival = tuple[int, bytes, int, int]
# Frames taken over before the first of them is answered: their copying takes a tenth of a millisecond.
AT_ONCE = 16


class Unsuitable(Missing):
    """An interface whose frames cannot be read."""


class VantageSockets:
    """One vantage's sockets, used from one thread."""

    def __init__(self, vantage: Vantage, ports: range) -> None:
        self.vantage = vantage
        # Source addresses, by their length in bytes.
        self.sources = {
            size: packed(address) if address else b""
            for size, address in ((4, vantage.source_address), (16, vantage.source_address6))
        }
        # When nothing waited in the buffer, by the pump's clock.
        self.empty_ns = 0
        try:
            with inside(vantage.netns):
                self._ear = _listening(vantage, ports)
                self._mouth4 = _speaking(vantage, socket.AF_INET)
                self._mouth6 = _speaking(vantage, socket.AF_INET6) if vantage.source_address6 else None
        except PermissionError:
            raise Missing("raw sockets need CAP_NET_RAW and CAP_NET_ADMIN; run as root") from None
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)

    def fileno(self) -> int:
        """Return the socket that becomes readable."""
        return self._ear.fileno()

    def hear(self) -> list[Arrival]:
        """Return frames that have arrived, in order, at most `AT_ONCE`; fewer, if no more are there."""
        receive, buffers, view, buffer = self._ear.recvmsg_into, [self._buffer], self._view, self._buffer
        flags = socket.MSG_DONTWAIT | socket.MSG_TRUNC
        heard: list[Arrival] = []
        while len(heard) < AT_ONCE:
            try:
                size, ancillary, _, source = receive(buffers, _ANCILLARY_BYTES, flags)
            except BlockingIOError:
                break
            except OSError as problem:
                if problem.errno == errno.ENETDOWN:
                    break
                raise
            if source[2] == socket.PACKET_OUTGOING or not ancillary:
                continue
            seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2])
            gso_size = buffer[4] | buffer[5] << 8 if buffer[1] else 0
            start = _HEADERS_BYTES
            while buffer[start - 2] == 0x81 and buffer[start - 1] == 0:
                start += 4
            heard.append((seconds * 1_000_000_000 + nanoseconds, bytes(view[start:size]), size - start, gso_size))
        return heard

    def send(self, packet: bytes, address: str) -> None:
        """Send an IP packet; raises OSError as the kernel does."""
        if packet[0] >> 4 == 4:
            self._mouth4.sendto(packet, (address, 0))
        elif self._mouth6 is not None:
            self._mouth6.sendto(packet, (address, 0))
        else:
            raise OSError(errno.EADDRNOTAVAIL, "vantage has no IPv6 source address")

    def drops(self) -> int:
        """Return frames that the capture socket lost since the last call."""
        return packet.dropped(self._ear)

    def close(self) -> None:
        """Close the sockets."""
        for mouth in (self._ear, self._mouth4, self._mouth6):
            if mouth is not None:
                mouth.close()


def _listening(vantage: Vantage, ports: range) -> socket.socket:
    ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    # The filter stands before the socket is bound, so nothing else ever gets in.
    packet.attach_filter(ear, compile_filter(expression(vantage, ports)))
    ear.setsockopt(packet.SOL_PACKET, packet.VNET_HDR, 1)
    ear.setsockopt(packet.SOL_PACKET, packet.IGNORE_OUTGOING, 1)
    ear.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    ear.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
    try:
        ear.bind((vantage.interface, packet.ETH_P_ALL))
    except OSError as problem:
        ear.close()
        raise BadInput(f"vantage {vantage.name!r}: interface {vantage.interface!r}: {problem.strerror}") from None
    if vantage.interface and ear.getsockname()[3] not in _ETHERNET_LIKE:
        ear.close()
        raise Unsuitable(
            f"vantage {vantage.name!r}: {vantage.interface} is not an Ethernet-like interface; use one that is"
        )
    return ear


def expression(vantage: Vantage, ports: range) -> str:
    """Return the capture filter: TCP to our address and port range. libpcap cannot follow IPv6 extension headers; the
    codec does, so packets with any pass."""
    low, high = ports.start, ports.stop - 1
    four = f"(ip and tcp and dst host {vantage.source_address} and dst portrange {low}-{high})"
    # Next header at byte 6; behind 40 bytes of header TCP's destination port at 2.
    mine = f"ip6[6] != 6 or (ip6[42:2] >= {low} and ip6[42:2] <= {high})"
    six = f"(ip6 and dst host {vantage.source_address6} and ({mine}))"
    return " or ".join(e for e, wanted in ((four, vantage.source_address), (six, vantage.source_address6)) if wanted)


def _speaking(vantage: Vantage, family: socket.AddressFamily) -> socket.socket:
    mouth = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
    if family == socket.AF_INET:
        mouth.setsockopt(socket.IPPROTO_IP, socket.IP_HDRINCL, 1)
    else:
        mouth.setsockopt(socket.IPPROTO_IPV6, _IPV6_HDRINCL, 1)
    mouth.setsockopt(socket.SOL_SOCKET, _SO_MARK, MARK)
    if vantage.interface:
        mouth.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, vantage.interface.encode() + b"\0")
    return mouth
