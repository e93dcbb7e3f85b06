# SPDX-License-Identifier: MIT
"""The columns that a capture is read into: frames as the file holds them, then one row for each TCP segment.

A column is a numpy array; row k of every column is of the same segment. Columns are an order of magnitude smaller
and faster than one object a packet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]

# The first bytes of each frame are copied side by side, so that headers are read from the cache: Ethernet with tags, IP
# and TCP with all options, and the beginning of the payload.
FIRST_BYTES = 160
# Zero bytes after the last frame of a buffer, so that as many can be read from the end of any frame.
PADDING = FIRST_BYTES + 32

# Bits of `Rows.bits`.
STAMPED, SACKED, CUT, DF, COUNTED, SACK_OK, DSACKED, LATE = 1, 2, 4, 8, 16, 32, 64, 128
# 2^64 / golden ratio. It is odd, so multiplying by it modulo 2^64 loses no bit.
ODD_FACTOR = np.uint64(0x9E3779B97F4A7C15)
# A column's word for "the option was not there".
ABSENT = -1


class Frames(NamedTuple):
    """Frames of one buffer.

    data       bytes (uint8), `PADDING` zero bytes after the last frame
    start      where each frame's bytes begin in `data`
    kept       captured bytes; `length` bytes on the wire
    at         nanoseconds since the epoch
    link       link type (LINKTYPE_*)
    first      the first frame's number in its file, from 1 as Wireshark counts
    file       which of the files, from 0
    net        the network of each, as `in_network`; readers of headers fill it in
    """

    data: NDArray[np.uint8]
    start: Column
    kept: Column
    length: Column
    at: Column
    link: Column
    first: int = 1
    file: int = 0
    net: Column = np.zeros(0, np.uint64)


class Rows(NamedTuple):
    """TCP segments; those of one pair of ends in the order of the capture.

    frame      file << 40 | number in that file
    pair       number of the pair of ends (`Pairs`); side 0 if the lower end of the two sent it, else 1
    length     payload bytes on the wire
    mss, wscale  of the options, `ABSENT` if not there; only SYNs are asked
    bits       STAMPED: has timestamps; SACKED: has SACK blocks; CUT: options were not captured; DF; COUNTED: an
               earlier part counted it, it is kept so that later ones are understood; SACK_OK; DSACKED: its one SACK
               block reports bytes that came twice (RFC 2883), and SACKED is not set; LATE: recorded behind a later one
               of its file
    check      TCP's checksum as captured, mixed with the SACK blocks: where a network card computes it, the capture has
               the pseudo-header's sum, which does not cover options
    """

    at: Column
    frame: Column
    pair: Column
    side: Column
    seq: Column
    ack: Column
    flags: Column
    window: Column
    length: Column
    tsval: Column
    tsecr: Column
    mss: Column
    wscale: Column
    ttl: Column
    tos: Column
    ident: Column
    bits: Column
    check: Column

    def take(self, index: Column | slice) -> Rows:
        """Return these rows, by number, mask or slice."""
        return Rows(*(column[index] for column in self))

    @property
    def size(self) -> int:
        """Return how many."""
        return len(self.at)


TYPES = {
    "at": np.int64, "frame": np.int64, "pair": np.int32, "side": np.uint8, "seq": np.uint32, "ack": np.uint32,
    "flags": np.uint16, "window": np.uint16, "length": np.int32, "tsval": np.uint32, "tsecr": np.uint32,
    "mss": np.int32, "wscale": np.int16, "ttl": np.uint8, "tos": np.uint8, "ident": np.uint16, "bits": np.uint8,
    "check": np.uint16,
}  # fmt: skip
# Where the file's number stands in `Rows.frame`.
FILE_SHIFT = 40
FRAME_MASK = (1 << FILE_SHIFT) - 1


def no_rows() -> Rows:
    """Return empty rows."""
    return Rows(*(np.empty(0, TYPES[name]) for name in Rows._fields))


def joined(parts: Sequence[Rows]) -> Rows:
    """Return these rows concatenated."""
    if not parts:
        return no_rows()
    return parts[0] if len(parts) == 1 else Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class Endpoint(NamedTuple):
    """One end of a connection."""

    address: bytes
    port: int


IPV4 = 4
# A pair's key: 48 bytes, addresses big-endian so that they can be cut out as they are; `net`: as `in_network`.
KEY = np.dtype(
    [("version", "u2"), ("port0", "<u2"), ("port1", "<u2"), ("pad", "u2"), ("high0", ">u8"), ("low0", ">u8"),
     ("high1", ">u8"), ("low1", ">u8"), ("net", "<u8")]
)  # fmt: skip
# Headers that name a network: bits of the name, and bits behind it in the 32-bit word in which it stands.
NETWORKS = {"": (0, 0), "vlan": (12, 16), "mpls-label": (20, 12), "vxlan": (24, 8), "geneve": (24, 8), "gre": (32, 0),
            "gtp-u": (32, 0)}  # fmt: skip
NAME_BITS, NAME_SHIFT = np.array([*NETWORKS.values()], np.uint64).T
# Bits of a header's number in `NETWORKS`, which stand below the network's name.
KIND_BITS = 3


def in_network(net: Column, kind: Column, word: Column) -> Column:
    """Return the networks of packets behind one more header: each name goes below those before it, so that of too many
    for 64 bits the outermost leave. Name 0 is none: of a VLAN it is a priority, of a label an explicit null.

    net   so far; kind: of the header, by its place in `NETWORKS`; word: that the name stands in
    """
    bits, kind = NAME_BITS[kind], kind.astype(np.uint64)
    name = word.astype(np.uint64) >> NAME_SHIFT[kind] & (np.uint64(1) << bits) - np.uint64(1)
    return np.where(name > 0, net << bits + np.uint64(KIND_BITS) | name << np.uint64(KIND_BITS) | kind, net)


def network_text(net: int) -> str:
    """Return the names in a network, the outermost first."""
    names, left, kinds = list[str](), 64, [(name, bits + KIND_BITS) for name, (bits, _) in NETWORKS.items()]
    # The name of a size that goes beyond 64 bits is not whole.
    while net and kinds[net % 8][1] <= left:
        name, size = kinds[net % 8]
        names.insert(0, f"{name} {net % (1 << size) >> KIND_BITS}")
        net, left = net >> size, left - size
    return ", ".join(names)


class PairEnds(Sequence[tuple[Endpoint, Endpoint]]):
    """Both ends of each pair, by its number."""

    def __init__(self, keys: list[bytes]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self._keys)

    @overload
    def __getitem__(self, pair: int) -> tuple[Endpoint, Endpoint]: ...
    @overload
    def __getitem__(self, pair: slice) -> list[tuple[Endpoint, Endpoint]]: ...
    def __getitem__(self, pair: int | slice) -> tuple[Endpoint, Endpoint] | list[tuple[Endpoint, Endpoint]]:
        """Return the ends of a pair, or of a slice of pairs."""
        return self.of([pair])[0] if isinstance(pair, int) else self.of(range(len(self))[pair])

    def of(self, pairs: Sequence[int]) -> list[tuple[Endpoint, Endpoint]]:
        """Return the ends of these pairs, many at once."""
        keys = [self._keys[pair] for pair in pairs]
        ports = np.frombuffer(b"".join(keys), KEY)
        low = [key[20 if key[0] == IPV4 else 8 : 24] for key in keys]
        high = [key[36 if key[0] == IPV4 else 24 : 40] for key in keys]
        ends = (zip(low, ports["port0"].tolist(), strict=True), zip(high, ports["port1"].tolist(), strict=True))
        return list(zip(*(map(Endpoint._make, side) for side in ends), strict=True))

    def version(self, pair: int) -> int:
        """Return the version of IP of a pair."""
        return self._keys[pair][0]

    @property
    def keys(self) -> Column:
        """Return the key of each pair."""
        return np.frombuffer(b"".join(self._keys), KEY)

    @property
    def alike(self) -> Column:
        """Return a number for each pair: those with the same ends, in whatever network, have the same."""
        return np.unique(
            hashed(self.keys.view(np.uint64).reshape(-1, KEY.itemsize // 8)[:, :-1].T), return_inverse=True
        )[1]

    @property
    def ports(self) -> Column:
        """Return the ports of both ends of each pair."""
        keys = self.keys
        return np.stack((keys["port0"], keys["port1"]), axis=1).astype(np.int64)


class Pairs:
    """Numbers for pairs of ends in a network: the lower end first."""

    def __init__(self) -> None:
        self._keys: list[bytes] = []
        self._numbers: dict[bytes, int] = {}

    @property
    def ends(self) -> PairEnds:
        """Return the ends of the pairs that are numbered now."""
        return PairEnds(self._keys)

    def number(self, keys: Iterable[bytes]) -> list[int]:
        """A number for each key: version, both addresses (16 bytes each), both ports, network."""
        found = []
        numbers, known = self._numbers, self._keys
        for key in keys:
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(known)
                known.append(key)
            found.append(number)
        return found

    def join(self, first: list[int]) -> None:
        """Give the keys of each pair the number in its place."""
        self._numbers = {key: first[number] for key, number in self._numbers.items()}

    def keep_only(self, keep: Iterable[int]) -> dict[int, int]:
        """Keep these pairs only; return old number -> new number."""
        renumbered = {old: new for new, old in enumerate(sorted(set(keep)))}
        self._keys = [self._keys[old] for old in renumbered]
        self._numbers = {key: renumbered[old] for key, old in self._numbers.items() if old in renumbered}
        return renumbered


def hashed(words: Iterable[Column]) -> Column:
    """Return a 64-bit hash (multiplicative) of each row of these columns of integers."""
    first, *others = (word.astype(np.uint64, copy=False) for word in words)
    for word in others:
        first = (first ^ word) * ODD_FACTOR
        first ^= first >> np.uint64(32)
    return first


def radix_order(column: Column) -> Column:
    """Return the stable order of a column of non-negative integers, by passes over 16 bits, which numpy sorts by
    counting."""
    values = column.astype(np.uint64, copy=False)
    order = np.argsort((values & np.uint64(0xFFFF)).astype(np.uint16), kind="stable")
    most, shift = int(values.max()) if len(values) else 0, 16
    while most >> shift:
        part = (values >> np.uint64(shift)).astype(np.uint16)
        order = order[np.argsort(part[order], kind="stable")]
        shift += 16
    return order
