# SPDX-License-Identifier: MIT
"""Files in MaxMind's format, written here so that the reader's library meets known networks.

Source     MaxMind DB File Format Specification 2.0: a binary tree over address bits, then the data, then metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any

MAP, TEXT, UINT16, UINT32, UINT64, ARRAY = 7, 2, 5, 6, 9, 11
MARKER = b"\xab\xcd\xefMaxMind.com"


def encoded(value: Any, kind: int = UINT32) -> bytes:
    """A value in the format's own encoding; numbers as `kind`, or as a pair (kind, number) says."""
    if isinstance(value, tuple):
        return encoded(value[1], value[0])
    if isinstance(value, dict):
        return _head(MAP, len(value)) + b"".join(encoded(k) + encoded(v) for k, v in value.items())
    if isinstance(value, list):
        return _head(ARRAY, len(value)) + b"".join(encoded(one) for one in value)
    if isinstance(value, str):
        return _head(TEXT, len(value.encode())) + value.encode()
    body = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return _head(kind, len(body)) + body


def _head(kind: int, size: int) -> bytes:
    assert size < 29
    return bytes((kind << 5 | size,)) if kind < 8 else bytes((size, kind - 7))


def database(networks: Mapping[str, dict[str, Any]], kind: str = "Test") -> bytes:
    """A file of IPv6 and IPv4 (at ::/96, as the format has it) networks and their records."""
    tree: list[list[int | None]] = [[None, None]]
    data = b""
    for text, record in networks.items():
        network = ip_network(text)
        bits = f"{int(network.network_address):0128b}"[: network.prefixlen + (96 if network.version == 4 else 0)]
        node = 0
        for bit in bits[:-1]:
            below = tree[node][int(bit)]
            if below is None:
                below = tree[node][int(bit)] = len(tree)
                tree.append([None, None])
            node = below
        tree[node][int(bits[-1])] = -1 - len(data)
        data += encoded(record)
    nodes = b"".join(_record(side, len(tree)).to_bytes(4, "big") for node in tree for side in node)
    about = {
        "binary_format_major_version": (UINT16, 2), "binary_format_minor_version": (UINT16, 0),
        "build_epoch": (UINT64, 1), "database_type": kind, "description": {"en": "test"}, "ip_version": (UINT16, 6),
        "languages": ["en"], "node_count": len(tree), "record_size": (UINT16, 32),
    }  # fmt: skip
    return nodes + bytes(16) + data + MARKER + encoded(about)


def _record(side: int | None, count: int) -> int:
    return count if side is None else side if side >= 0 else count + 16 + (-1 - side)
