# SPDX-License-Identifier: MIT
"""The native reader, in Rust (`native/`): walks records and decodes plain frames as Python does, but faster.

`make native` builds the library beside this file. Without it every function returns None, and Python reads. Python also
reads frames that are not plain, and buffers in which the library fails. Python defines the meaning; tests compare both.
The environment variable CONFIGTRON_NATIVE=0 turns the library off.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from configtron.fingerprint.capture.packet_blocks import PacketWalk
from configtron.fingerprint.passive.columns import ABSENT, FILE_SHIFT, KEY, TYPES, Column, Frames, Rows
from configtron.fingerprint.passive.connections import PASSES, Passes
from configtron.fingerprint.passive.headers import PlainSegments
from configtron.fingerprint.passive.heads import Segments
from configtron.fingerprint.passive.tunnel_headers import NAMES

# Its ending keeps it from being taken for a Python module.
LIBRARY = Path(__file__).with_name("libconfigtron_native.so.1")
# `ABI` of native/src/lib.rs.
ABI = 6
# The fewest bytes of a pcap record, and of a pcapng packet block.
RECORD, BLOCK = 16, 12
# Why a walk stopped: `native/src/files.rs`.
WHY = ("more", "broken", "block")


class _Layout:
    """Columns of these types, one after another in a block of memory, and a table with a pointer to each."""

    def __init__(self, **types: DTypeLike) -> None:
        self.types = [np.dtype(kind) for kind in types.values()]
        sizes = np.cumsum([0, *(kind.itemsize for kind in self.types)])
        self._starts, self.width = sizes[:-1], int(sizes[-1])

    def made(self, count: int) -> tuple[Column, Column, list[int]]:
        """Return (block, table, byte in the block at which each column begins), with room for `count` rows."""
        room = count + -count % 8
        block = np.empty(room * self.width, np.uint8)
        starts = self._starts * room
        return block, starts + _address(block), starts.tolist()

    def columns(self, block: Column, starts: list[int], rows: Sequence[int]) -> list[Column]:
        """Return the columns as views of the block, each with its number of `rows`."""
        placed = zip(rows, self.types, starts, strict=True)
        return [np.ndarray(many, kind, block, start) for many, kind, start in placed]  # type: ignore[call-overload, unused-ignore]


_RECORDS = _Layout(start=np.int64, kept=np.int64, length=np.int64, at=np.int64)
_BLOCKS = _Layout(begin=np.int64, kind=np.int64)
_ROWS = _Layout(**{name: TYPES[name] for name in Rows._fields})
# Counters of frames that are no TCP, and of tunnels: `Kind` of native/src/frames.rs.
KINDS = ("arp", "lldp", "not-ip", "icmp", "udp", "pppoe-control", *NAMES)
# The columns that are equal in copies of a segment: `native/src/rows.rs`.
COMPARED = ("side", "seq", "ack", "flags", "window", "length", "tsval", "tsecr", "ident", "check", "bits")
# Types of the columns that `native/src/limits.rs` and `native/src/repeats.rs` read.
_LONG, _SHORT, _BYTE = np.int64, np.uint16, np.uint8
SHARE_ROWS = (*[_LONG] * 4, np.int32, *[_SHORT] * 3, _BYTE, _BYTE, np.int8, _BYTE)
SHARE_FACTS = (*[_LONG] * 8, *[_BYTE] * 5)
REPEAT_ROWS = (_LONG, _LONG, np.int32, np.uint32, _SHORT, _SHORT, _BYTE, _BYTE)
REPEAT_SENT, REPEAT_FACTS = (*[_LONG] * 4, *[_BYTE] * 3), (*[_LONG] * 3, _BYTE)
# M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of mallopt(3), bytes. Columns come and go by the thousand; glibc would return
# each to the kernel, which would clear its pages for the next.
KEPT_FREE = ((-3, 1 << 25), (-1, 1 << 27))
_LISTS = _Layout(begin=np.int64, held=np.int64, size=np.int64, syns=np.int64, opens=np.int64, others=np.int64, keys=KEY)


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """Return the library; None if it is missing, has another `ABI`, or is turned off."""
    if os.environ.get("CONFIGTRON_NATIVE") == "0":
        return None
    try:
        found = ctypes.CDLL(str(LIBRARY))
        if found.configtron_abi() != ABI:
            return None
        pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
        found.configtron_pcap.argtypes = pointer, size, size, number, number, pointer, size, pointer
        found.configtron_pcapng.argtypes = pointer, size, size, number, pointer, size, pointer
        found.configtron_decode.argtypes = pointer, size, *[pointer] * 5, size, number, pointer, pointer, pointer
        found.configtron_order.argtypes = pointer, size, pointer
        found.configtron_unwrapped.argtypes = pointer, pointer, pointer, size, pointer, size, pointer
        found.configtron_equal.argtypes = pointer, size, pointer
        found.configtron_shares.argtypes = pointer, size, pointer, size, pointer, size, pointer
        found.configtron_repeats.argtypes = [pointer, size] * 4
        found.configtron_repeats.restype = number
    except (OSError, AttributeError):
        return None
    for option, most in KEPT_FREE if hasattr(process := ctypes.CDLL(None), "mallopt") else ():
        process.mallopt(option, most)
    return found


def pcap_records(
    data: bytearray, at: int, end: int, order: str, unit_ns: int
) -> tuple[tuple[Column, Column, Column, Column], int, bool, int] | None:
    """Return (columns, next, broken, bad times); None without the library.

    columns     of records: begin of the frame, bytes kept, bytes on the wire, time (ns)
    next        byte at which the next record would begin; broken: whether it makes no sense
    bad times   how many records have a fraction field of a second or more
    """
    walked = _walked("configtron_pcap", data, at, end, order, RECORD, _RECORDS, unit_ns)
    if walked is None:
        return None
    (start, kept, length, stamps), at, why, bad_times = walked
    return (start, kept, length, stamps), at, why == "broken", bad_times


def pcapng_blocks(data: bytearray, at: int, end: int, order: str) -> PacketWalk | None:
    """Return packet blocks, up to a block of another kind; None without the library."""
    walked = _walked("configtron_pcapng", data, at, end, order, BLOCK, _BLOCKS)
    return None if walked is None else PacketWalk(walked[0][0], walked[0][1], walked[1], walked[2])


def _walked(
    name: str, data: bytearray, at: int, end: int, order: str, least: int, layout: _Layout, *more: int
) -> tuple[list[Column], int, str, int] | None:
    called = library()
    if called is None or not 0 <= at <= end <= len(data):
        return None
    room = (end - at) // least + 1
    block, table, starts = layout.made(room)
    found = np.zeros(4, np.int64)
    begin = _address(np.frombuffer(data, np.uint8))
    if getattr(called, name)(
        begin, at, end, order == ">", *more, _address(table), len(block) // layout.width, _address(found)
    ):
        return None
    rows, at, why, bad = found.tolist()
    # The block has room for the shortest records: the copies let its memory go.
    return [column.copy() for column in layout.columns(block, starts, [rows] * len(starts))], at, WHY[why], bad


def plain_segments(frames: Frames) -> PlainSegments | None:
    """Return the rows of plain frames, and the numbers of frames that are not plain; None without the library."""
    called, count = library(), len(frames.start)
    if called is None:
        return None
    wanted = [np.ascontiguousarray(column, np.int64) for column in frames[1:6]]
    block, table, starts = _ROWS.made(count)
    lists, listed, places = _LISTS.made(count)
    found = np.zeros(6 + len(KINDS), np.int64)
    if called.configtron_decode(
        _address(frames.data), frames.data.nbytes, *map(_address, wanted), count,
        frames.first + (frames.file << FILE_SHIFT), _address(table), _address(listed), _address(found),
    ):  # fmt: skip
        return None
    many, keys, syns, opens, others, longer, *rest = found.tolist()
    sizes = (many, many, many, syns, opens, others, keys)
    begin, held, size, syn_rows, open_rows, other_frames, pair_keys = _LISTS.columns(lists, places, sizes)
    rows = Rows(*_ROWS.columns(block, starts, [many] * len(starts)))
    segments = Segments(rows, begin, held, size, syn_rows, open_rows)
    counts = {"longer-than-frame": longer, **dict(zip(KINDS, rest, strict=True))}
    return PlainSegments(segments, pair_keys.tobytes(), other_frames, counts)


def passes() -> Passes | None:
    """Return the library's passes over all rows; None without the library."""
    called = library()
    if called is None:
        return None

    def order(numbers: Column) -> Column:
        numbers, into = np.ascontiguousarray(numbers, np.int32), np.empty(len(numbers), np.int64)
        failed = called.configtron_order(_address(numbers), len(numbers), _address(into))
        return PASSES.order(numbers) if failed else into

    def equal(rows: Rows, of: Column) -> tuple[Column, Column]:
        columns = [np.ascontiguousarray(of, np.int64)]
        columns += [np.ascontiguousarray(getattr(rows, name), TYPES[name]) for name in COMPARED]
        pair, found = [np.empty(len(of), np.int64) for _ in range(2)], np.zeros(1, np.int64)
        table = np.array([*map(_address, (*columns, *pair))])
        if called.configtron_equal(_address(table), len(of), _address(found)):
            return PASSES.equal(rows, of)
        return pair[0][: found[0]], pair[1][: found[0]]

    def unwrapped(numbers: Column, of: Column, initial: Column, resets: Column) -> Column:
        taken = zip((numbers, of, resets, initial), (np.uint32, np.int64, np.uint8, np.uint32), strict=True)
        plain = [np.ascontiguousarray(column, kind) for column, kind in taken]
        into = np.empty(len(numbers), np.int64)
        first, *others, last = map(_address, (*plain, into))
        failed = called.configtron_unwrapped(first, *others[:2], len(numbers), others[2], len(initial), last)
        return PASSES.unwrapped(numbers, of, initial, resets) if failed else into

    def shares(
        rows: Sequence[Column], facts: Sequence[Column], past: Sequence[Column], limits: int
    ) -> tuple[Column, ...] | None:
        into = [np.full((len(facts[0]), limits), missing, np.int64) for missing in (0, 0, ABSENT, ABSENT)]
        tables = _as_types(rows, SHARE_ROWS), _as_types(facts, SHARE_FACTS), [column.reshape(-1) for column in into]
        state = np.stack(past, axis=1)
        failed = _call(called.configtron_shares, *tables, last=_address(state))
        return None if failed else (*into, *state.T)

    def repeats(rows: Sequence[Column], sent: Sequence[Column], facts: Sequence[Column]) -> tuple[Column, ...] | None:
        into = [np.empty(len(sent[0]), np.int64) for _ in range(2)]
        tables = _as_types(rows, REPEAT_ROWS), _as_types(sent, REPEAT_SENT), _as_types(facts, REPEAT_FACTS), into
        count = _call(called.configtron_repeats, *tables)
        return None if count < 0 else tuple(column[:count] for column in into)

    return Passes(order, equal, unwrapped, shares, repeats)


def _as_types(columns: Sequence[Column], kinds: Sequence[DTypeLike]) -> list[Column]:
    """Return the columns contiguous and of these types."""
    return [np.ascontiguousarray(column, kind) for column, kind in zip(columns, kinds, strict=True)]


def _call(function: Callable[..., int], *tables: Sequence[Column], last: int | None = None) -> int:
    """Call a function with pointers to the columns of each table, and their length; and one `last` pointer."""
    pointers = [np.array([*map(_address, table)]) for table in tables]
    words = [(_address(one), len(table[0])) for one, table in zip(pointers, tables, strict=True)]
    return function(*(word for pair in words for word in pair), *(() if last is None else (last,)))


def _address(column: Column) -> int:
    address: int = column.__array_interface__["data"][0]
    return address
