# SPDX-License-Identifier: MIT
"""Prefix -> class as sorted columns, the large part of a map, and their digest.

An IPv4 prefix is one unsigned integer, address * 256 + length; an IPv6 prefix is 17 bytes, the address and the length.
A class is a number that the map's head gives a name (`map_document.py`). Equal tables are equal byte for byte, so
their digests are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from ipaddress import IPv6Address, IPv6Network, ip_network
from typing import Any

import numpy as np
from numpy.typing import NDArray

from configtron.model.errors import BadInput

Keys4 = NDArray[np.uint64]
Keys6 = NDArray[np.bytes_]
Classes = NDArray[np.uint16]

V4, V6, CLASS = np.dtype("<u8"), np.dtype("S17"), np.dtype("<u2")
DIGEST_BYTES = 32
# A class number has 16 bits.
MOST_CLASSES = 65_536
_OCTET = tuple(str(number) for number in range(256))


def _none(kind: np.dtype[Any]) -> Any:
    return np.empty(0, dtype=kind)


@dataclass(frozen=True, eq=False)
class MapTable:
    """Prefixes in ascending order of their keys, each once, and the class of each."""

    v4: Keys4 = field(default_factory=lambda: _none(V4))
    class4: Classes = field(default_factory=lambda: _none(CLASS))
    v6: Keys6 = field(default_factory=lambda: _none(V6))
    class6: Classes = field(default_factory=lambda: _none(CLASS))

    def __len__(self) -> int:
        return len(self.v4) + len(self.v6)

    @cached_property
    def digest(self) -> bytes:
        """Return a 32-byte hash of the prefixes and their classes."""
        keys = _digest(f"{len(self.v4)} {len(self.v6)} ".encode(), self.v4, self.v6)
        return _digest(keys, self.class4, self.class6)


def _digest(head: bytes, *columns: NDArray[Any]) -> bytes:
    found = blake2b(head, digest_size=DIGEST_BYTES)
    for column in columns:
        found.update(np.ascontiguousarray(column).data)
    return found.digest()


def table_of(prefixes: Mapping[str, str], ids: Mapping[str, int]) -> MapTable:
    """Return the table of prefixes as `Rules` writes them; `ids`: class -> number. Errors: `BadInput`."""
    keys4, classes4, keys6, classes6 = [], [], [], []
    for prefix, name in prefixes.items():
        if ":" in prefix:
            keys6.append(key6(prefix))
            classes6.append(ids[name])
        else:
            keys4.append(key4(prefix))
            classes4.append(ids[name])
    v4, class4 = _sorted(np.array(keys4, dtype=V4), np.array(classes4, dtype=CLASS))
    v6, class6 = _sorted(np.array(keys6, dtype=V6), np.array(classes6, dtype=CLASS))
    return MapTable(v4, class4, v6, class6)


def _sorted(keys: Any, classes: Classes) -> tuple[Any, Classes]:
    order = np.argsort(keys, kind="stable")
    return keys[order], classes[order]


def key4(prefix: str) -> int:
    """Return the key of an IPv4 prefix. Errors: `BadInput`."""
    try:
        address, _, length = prefix.partition("/")
        a, b, c, d = map(int, address.split("."))
        return (a << 24 | b << 16 | c << 8 | d) << 8 | int(length)
    except ValueError as error:
        raise BadInput(f"{prefix!r} is no prefix; write e.g. 192.0.2.0/24 or 2001:db8::/48") from error


def key6(prefix: str) -> bytes:
    """Return the key of an IPv6 prefix. Errors: `BadInput`."""
    try:
        network = ip_network(prefix)
    except ValueError as error:
        raise BadInput(f"{prefix!r} is no prefix ({error}); write e.g. 2001:db8::/48") from error
    return network.network_address.packed + bytes((network.prefixlen,))


def text4(key: int) -> str:
    """Return an IPv4 prefix as `Rules` writes it."""
    return (f"{_OCTET[key >> 32]}.{_OCTET[key >> 24 & 255]}.{_OCTET[key >> 16 & 255]}.{_OCTET[key >> 8 & 255]}"
            f"/{key & 255}")  # fmt: skip


def text6(key: bytes) -> str:
    """Return an IPv6 prefix as `Rules` writes it."""
    whole = key.ljust(17, b"\0")
    return str(IPv6Network((IPv6Address(whole[:16]), whole[16])))


def prefixes_of(table: MapTable, classes: tuple[str, ...]) -> dict[str, str]:
    """Return prefix -> name of the class."""
    found = dict(zip(map(text4, table.v4.tolist()), (classes[at] for at in table.class4.tolist()), strict=True))
    found.update(zip(map(text6, table.v6.tolist()), (classes[at] for at in table.class6.tolist()), strict=True))
    return found


def table_from(v4: bytes, class4: bytes, v6: bytes, class6: bytes) -> MapTable:
    """Parse and check received columns: sorted keys, no duplicates, no host bits. Errors: `BadInput`."""
    keys4, keys6 = _keys4(v4), _keys6(v6)
    classes = [_column(data, CLASS) for data in (class4, class6)]
    if (len(keys4), len(keys6)) != (len(classes[0]), len(classes[1])):
        raise BadInput("the map's columns differ in length")
    return MapTable(keys4, classes[0], keys6, classes[1])


def _column(data: bytes, kind: np.dtype[Any]) -> Any:
    if len(data) % kind.itemsize:
        raise BadInput(f"a column of {len(data)} bytes is truncated")
    return np.frombuffer(data, dtype=kind).copy()


def _keys4(data: bytes) -> Keys4:
    keys: Keys4 = _column(data, V4)
    length = keys & np.uint64(255)
    address = keys >> np.uint64(8)
    if len(keys) and (length.max() > 32 or address.max() >= 2**32):
        raise BadInput("the map has an invalid IPv4 prefix: length above 32 or address above 255.255.255.255")
    host = (np.uint64(1) << (np.uint64(32) - length)) - np.uint64(1)
    _check_keys(keys, bool(np.any(address & host)))
    return keys


def _keys6(data: bytes) -> Keys6:
    keys: Keys6 = _column(data, V6)
    _check_keys(keys, _has_host_bits(keys.tolist()))
    return keys


def _has_host_bits(keys: Iterable[bytes]) -> bool:
    for key in keys:
        whole = key.ljust(17, b"\0")
        if whole[16] > 128 or int.from_bytes(whole[:16], "big") & ((1 << (128 - whole[16])) - 1):
            return True
    return False


def _check_keys(keys: Any, host_bits: bool) -> None:
    if host_bits:
        raise BadInput("the map has a prefix with host bits set")
    if len(keys) > 1 and not np.all(keys[1:] > keys[:-1]):
        raise BadInput("the map's prefixes are not sorted, or one is repeated")
