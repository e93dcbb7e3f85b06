# SPDX-License-Identifier: MIT
"""AF_PACKET: receive filters, receive rings and their losses.

Source     packet(7); linux/if_packet.h, linux/if_ether.h; Documentation/networking/packet_mmap.rst
"""

from __future__ import annotations

import ctypes
import mmap
import socket
import struct

SOL_PACKET, ETH_P_ALL, ETH_P_IP = 263, 3, 0x0800
# Options of SOL_PACKET.
RX_RING, STATISTICS, VERSION, VNET_HDR, IGNORE_OUTGOING = 5, 6, 10, 15, 23
TPACKET_V2, TPACKET_V3 = 1, 2
_SO_ATTACH_FILTER = 26


def attach_filter(receiver: socket.socket, code: bytes) -> None:
    """Attach a filter of classic BPF instructions, 8 bytes each: before the socket is bound, so nothing else gets in.

    Errors: `OSError`.
    """
    # struct sock_fprog; the kernel copies the instructions.
    instructions = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(instructions))
    receiver.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def receive_ring(receiver: socket.socket, version: int, request: bytes, size: int) -> mmap.mmap:
    """Make a receive ring by struct tpacket_req or tpacket_req3 and map it (`size` bytes). Errors: `OSError`."""
    receiver.setsockopt(SOL_PACKET, VERSION, version)
    receiver.setsockopt(SOL_PACKET, RX_RING, request)
    return mmap.mmap(receiver.fileno(), size)


def dropped(receiver: socket.socket) -> int:
    """Return how many packets found no room since the last call."""
    # struct tpacket_stats, which TPACKET_V3 only extends.
    return int(struct.unpack("II", receiver.getsockopt(SOL_PACKET, STATISTICS, 8))[1])
