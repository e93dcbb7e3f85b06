# SPDX-License-Identifier: MIT
"""Frames -> rows: IP and TCP headers of many frames at once.

Question   Which frames carry TCP, and which values do their headers have?
Method     The first bytes of all frames are copied out of the buffer side by side, and from there headers as
           fixed-size records (one take for IP, one for TCP), so that every field is one strided column. Lengths are
           the IP header's, so that Ethernet padding and snapping do not count; a total length of 0 (segmentation
           offload) means the frame's own. Where IP lies in a tunnel, or behind a header that is not known here,
           `tunnels.py` finds where it begins; the rest is the same.
Fails as   a count under a name for every frame that is no row: not-ip, arp, udp, icmp, other-protocol, fragment,
           cut-header, malformed-ip, malformed-tcp, link-type-N, esp, quic, unread-gre and its like. A row whose packet
           claims more than the frame held on the wire is counted as longer-than-frame, and is read.
           Dropped: IPv4's options and checksum, IPv6's flow label, since no reading depends on them; the urgent
           pointer, since urgent bytes count as data. A TCP checksum tells copies apart and is not verified: an offload
           leaves it unfinished.
Differs    from tshark, which puts fragments together first; here no fragment is a row. One that may hold a part of a
           segment is counted as unread-fragment: the connection that lacks it is not known by its ports alone.
Source     RFC 791, RFC 8200, RFC 9293; frames that are read here and by `probe/wire/frames.py` give the same numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import (
    CUT,
    DF,
    FILE_SHIFT,
    FIRST_BYTES,
    KEY,
    Column,
    Frames,
    Pairs,
    Rows,
    joined,
    radix_order,
)
from configtron.fingerprint.passive.extension_headers import IS_EXTENSION, ROUTING, pass_extensions
from configtron.fingerprint.passive.heads import Heads, Segments, keep_heads, segments_of
from configtron.fingerprint.passive.link import network_at
from configtron.fingerprint.passive.options import read_options
from configtron.fingerprint.passive.too_big import quoted_packets
from configtron.fingerprint.passive.tunnels import TUNNELS, UNREAD, Dissect, unfold

TCP = 6
# IP protocol number -> counter of packets that are no TCP. ESP is encrypted.
PROTOCOLS = {17: "udp", 1: "icmp", 58: "icmp", 50: "esp", 132: "sctp", ROUTING: UNREAD + "routing"}
PROTOCOLS |= {number: UNREAD + name for number, name in TUNNELS.items()}
REST = "other-protocol", UNREAD + "extensions"
# A fragment of these holds a part of a segment, or may: later fragments name only the first header.
IN_SEGMENTS = IS_EXTENSION[6] | (np.arange(256) == TCP)

HEADER4 = np.dtype(
    [("first", "u1"), ("tos", "u1"), ("total", ">u2"), ("ident", ">u2"), ("fragment", ">u2"), ("ttl", "u1"),
     ("protocol", "u1"), ("sum", ">u2"), ("source", ">u4"), ("destination", ">u4")]
)  # fmt: skip
HEADER6 = np.dtype(
    [("word", ">u4"), ("payload", ">u2"), ("next", "u1"), ("ttl", "u1"), ("high", ">u8"), ("low", ">u8"),
     ("destination", "V16")]
)  # fmt: skip
ADDRESS6, DESTINATION6 = np.dtype([("high", ">u8"), ("low", ">u8")]), 24
HEADER_TCP = np.dtype(
    [("source", ">u2"), ("destination", ">u2"), ("seq", ">u4"), ("ack", ">u4"), ("offset", "u1"), ("flags", "u1"),
     ("window", ">u2"), ("check", ">u2"), ("rest", "V42")]
)  # fmt: skip


# Source and destination address, high and low 64 bits of each (IPv4: low 32 bits).
Ends = tuple[Column, Column, Column, Column]


class Envelopes(NamedTuple):
    """IP headers, a row for each packet that may hold TCP: which frame, where in it TCP begins and the packet ends; the
    first `ipv4_count` are IPv4's, the others IPv6's."""

    ipv4_count: int
    frame: Column
    tcp_at: Column
    end: Column
    ttl: Column
    tos: Column
    ident: Column
    df: Column
    ends: Ends


class PlainSegments(NamedTuple):
    """What the native reader found in a buffer. In `segments`, a row's pair counts `keys`; `others` are the frames that
    it leaves to this module; `counts` are of the rest, by name."""

    segments: Segments
    keys: bytes
    others: Column
    counts: dict[str, int]


def decode(
    frames: Frames, pairs: Pairs, heads: Heads, counts: Counter[str], dissect: Dissect | None = None,
    native: Callable[[Frames], PlainSegments | None] | None = None,
) -> Rows | None:  # fmt: skip
    """Return the rows of one buffer; count the frames that are no row. Bytes worth keeping go to `heads`.

    dissect   finds the packets in frames that are not known here; None: they are counted
    native    reads plain frames as this module does, but faster (`capture/native.py`); None, or where it gives None:
              this module reads all
    """
    if not len(frames.start):
        return None
    counts["frames"] += len(frames.start)
    number = np.arange(len(frames.start)) + (frames.first + (frames.file << FILE_SHIFT))
    plain = native(frames) if native is not None else None
    if plain is None:
        found = _read(frames, number, pairs, heads, counts, dissect)
    else:
        # Numbers of pairs that hold for all buffers.
        rows, width = plain.segments.rows, KEY.itemsize
        numbers = pairs.number(plain.keys[at : at + width] for at in range(0, len(plain.keys), width))
        found = plain.segments._replace(rows=rows._replace(pair=np.asarray(numbers, np.int32)[rows.pair]))
        counts["tcp"] += rows.size
        counts.update(plain.counts)
        if len(plain.others):
            some = frames._replace(**{name: getattr(frames, name)[plain.others] for name in Frames._fields[1:6]})
            found = _merged(found, _read(some, number[plain.others], pairs, heads, counts, dissect))
    if found is None or not found.rows.size:
        return None
    keep_heads(frames.data, found, heads)
    return found.rows


def _merged(plain: Segments, others: Segments | None) -> Segments:
    """Return the segments of both in the order of their frames."""
    if others is None:
        return plain
    order = np.argsort(np.concatenate((plain.rows.frame, others.rows.frame)), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    later = plain.rows.size
    begin, held, size = (np.concatenate(pair)[order] for pair in zip(plain[1:4], others[1:4], strict=True))
    syns, opens = (
        np.sort(place[np.append(one, more + later)]) for one, more in zip(plain[4:], others[4:], strict=True)
    )
    return Segments(joined([plain.rows, others.rows]).take(order), begin, held, size, syns, opens)


def _read(
    frames: Frames, number: Column, pairs: Pairs, heads: Heads, counts: Counter[str], dissect: Dissect | None
) -> Segments | None:
    """Return the segments of these frames, IPv4's first. number: of each frame, with its file's."""
    frames = frames._replace(net=np.zeros(len(frames.start), np.uint64))
    first_bytes = _first_bytes_of(frames)
    at = unfold(frames, first_bytes, network_at(first_bytes, counts), dissect, counts)
    found, four, six = _envelopes(_source_of_headers(first_bytes, frames, at, HEADER6.itemsize), frames, at, counts)
    quoted, sizes = quoted_packets(frames, at, four, six)
    if sizes:
        heads.too_big += _quoted(quoted, sizes, pairs)
    return _segments(frames, number, first_bytes, found, pairs, counts) if len(found.frame) else None


def _quoted(frames: Frames, sizes: list[int], pairs: Pairs) -> Iterator[tuple[int, int, int]]:
    """Yield (pair of ends, time in ns, size) of each frame that holds TCP up to its ports."""
    about, _, _ = _envelopes(frames, frames, np.zeros(len(sizes), np.int64), Counter())
    named = frames.kept[about.frame] - about.tcp_at >= 4
    header = taken(frames.data, np.where(named, frames.start[about.frame] + about.tcp_at, 0), HEADER_TCP)
    numbers = _numbered(about, header, frames.net[about.frame], pairs)[0]
    for pair, frame in zip(numbers[named].tolist(), about.frame[named].tolist(), strict=True):
        yield pair, int(frames.at[frame]), sizes[frame]


def _envelopes(source: Frames, frames: Frames, at: Column, counts: Counter[str]) -> tuple[Envelopes, Column, Column]:
    """Return the envelopes of what may hold TCP, and which frames are of IPv4, and of IPv6. source: `frames`, or their
    first bytes if those hold the headers."""
    room = frames.kept - at
    readable = (at >= 0) & (room > 0)
    counts["cut-header"] += int(np.count_nonzero((at >= 0) & (room <= 0)))
    nibble = source.data[np.where(readable, source.start + at, 0)] >> 4
    four, six = np.flatnonzero(readable & (nibble == 4)), np.flatnonzero(readable & (nibble == 6))
    counts["malformed-ip"] += int(np.count_nonzero(readable & (nibble != 4) & (nibble != 6)))
    found = _both(_version4(source, frames, at, four, counts), _version6(source, frames, at, six, counts))
    return found, four, six


def _first_bytes_of(frames: Frames) -> Frames:
    """Return the same frames with their first bytes only, side by side."""
    first = taken(frames.data, frames.start, np.dtype(f"V{FIRST_BYTES}"))
    return frames._replace(data=first.view(np.uint8), start=np.arange(len(first)) * FIRST_BYTES)


def _source_of_headers(first_bytes: Frames, frames: Frames, at: Column, size: int) -> Frames:
    """Return `first_bytes` if it holds so many bytes from these places in frames on, else the whole frames."""
    return first_bytes if int(at.max(initial=0)) + size <= FIRST_BYTES else frames


def taken(data: Column, at: Column, kind: np.dtype[np.void]) -> Column:
    """Return records of that kind at those places; the buffer's padding allows any place within a frame."""
    size = kind.itemsize
    windows = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
    return windows[at].view(kind)


def _select_records(header: Column, rows: Column) -> Column:
    """Return these records; numpy copies plain bytes ten times faster than records with fields."""
    return header.view(f"V{header.itemsize}")[rows].view(header.dtype)


def _version4(source: Frames, frames: Frames, at: Column, rows: Column, counts: Counter[str]) -> Envelopes:
    at = at[rows]
    header = taken(source.data, source.start[rows] + at, HEADER4)
    total = header["total"].astype(np.int64)
    end = np.where(total == 0, frames.length[rows] - at, total)
    word, place = header["fragment"], (header["first"] & 15).astype(np.int64) * 4
    fragment = (word & 0x1FFF) << 3 | word >> 13 & 1
    keep = _find_tcp(4, frames, rows, at, end, place, header["protocol"].copy(), fragment, counts)
    header = header if len(keep) == len(rows) else _select_records(header, keep)
    zero = np.zeros(len(keep), np.uint64)
    return Envelopes(
        len(keep), rows[keep], at[keep] + place[keep], at[keep] + end[keep],
        header["ttl"], header["tos"], header["ident"].astype(np.uint16), (header["fragment"] & 0x4000) != 0,
        (zero, header["source"].astype(np.uint64), zero, header["destination"].astype(np.uint64)),
    )  # fmt: skip


def _version6(source: Frames, frames: Frames, at: Column, rows: Column, counts: Counter[str]) -> Envelopes:
    at = at[rows]
    header = taken(source.data, source.start[rows] + at, HEADER6)
    payload = header["payload"].astype(np.int64)
    end = np.where(payload == 0, frames.length[rows] - at, payload + 40)
    place, final = np.full(len(rows), 40, np.int64), np.full(len(rows), DESTINATION6, np.int64)
    fragment = np.zeros(len(rows), np.uint16)
    keep = _find_tcp(6, frames, rows, at, end, place, header["next"].copy(), fragment, counts, final)
    header = header if len(keep) == len(rows) else _select_records(header, keep)
    there = taken(frames.data, (frames.start[rows] + at + final)[keep], ADDRESS6)
    return Envelopes(
        0, rows[keep], at[keep] + place[keep], at[keep] + end[keep],
        header["ttl"], (header["word"] >> 20).astype(np.uint8), np.zeros(len(keep), np.uint16),
        np.zeros(len(keep), bool),
        tuple(one[name].astype(np.uint64) for one in (header, there) for name in ADDRESS6.names),  # type: ignore[arg-type, union-attr]
    )  # fmt: skip


def _find_tcp(
    version: int, frames: Frames, rows: Column, at: Column, end: Column, place: Column, kind: Column, fragment: Column,
    counts: Counter[str], final: Column | None = None,
) -> Column:  # fmt: skip
    """Return which packets hold a whole segment; `place` becomes its place in the packet. Count the others.

    at, end    where in the frame the packet begins, and its length by its header
    place, kind, fragment, final  as `pass_extensions` takes them
    """
    room = frames.kept[rows] - at
    cut = room < (20 if version == 4 else 40)
    cut |= pass_extensions(version, frames.data, frames.start[rows] + at, room, place, kind, fragment, final)
    bad = ~cut & ((place < 20) | (end < place))
    fragmented = ~cut & ~bad & (fragment > 0)
    unread = fragmented & IN_SEGMENTS[kind]
    _count(counts, ("fragment", fragmented & ~unread), (UNREAD + "fragment", unread))
    _count(counts, ("cut-header", cut), ("malformed-ip", bad))
    fine = ~(cut | bad | fragmented)
    tcp = kind == TCP
    if not tcp[fine].all():
        for number, many in enumerate(np.bincount(kind[fine & ~tcp]).tolist()):
            # `unread-extensions`: a longer chain than `pass_extensions` follows.
            counts[PROTOCOLS.get(number, REST[int(IS_EXTENSION[version, number])])] += many
    fine &= tcp
    _count(counts, ("longer-than-frame", fine & (end > frames.length[rows] - at)))
    return np.flatnonzero(fine)


def _count(counts: Counter[str], *named: tuple[str, Column]) -> None:
    for name, mask in named:
        counts[name] += int(np.count_nonzero(mask))


def _both(four: Envelopes, six: Envelopes) -> Envelopes:
    """Return the envelopes of IPv4, and behind them those of IPv6: no pair of ends has segments of both."""
    if not len(six.frame):
        return four
    plain = [np.concatenate(columns) for columns in zip(four[1:-1], six[1:-1], strict=True)]
    ends = tuple(np.concatenate(columns) for columns in zip(four.ends, six.ends, strict=True))
    return Envelopes._make([four.ipv4_count, *plain, ends])


def _segments(
    frames: Frames, number: Column, first_bytes: Frames, about: Envelopes, pairs: Pairs, counts: Counter[str]
) -> Segments | None:  # fmt: skip
    room = frames.kept[about.frame] - about.tcp_at
    cut = room < 20
    source = _source_of_headers(first_bytes, frames, about.tcp_at, HEADER_TCP.itemsize)
    header = taken(source.data, np.where(cut, 0, source.start[about.frame] + about.tcp_at), HEADER_TCP)
    size = (header["offset"] >> 4).astype(np.int64) * 4
    length = about.end - about.tcp_at - size
    bad = ~cut & ((size < 20) | (length < 0))
    _count(counts, ("cut-header", cut), ("malformed-tcp", bad))
    if cut.any() or bad.any():
        keep = np.flatnonzero(~(cut | bad))
        if not len(keep):
            return None
        ipv4_count = int(np.searchsorted(keep, about.ipv4_count))
        ends = tuple(column[keep] for column in about.ends)
        about = Envelopes._make([ipv4_count, *(column[keep] for column in about[1:-1]), ends])
        header, size, length, room = _select_records(header, keep), size[keep], length[keep], room[keep]
    whole = room >= size
    raw = np.ascontiguousarray(header).view(np.uint8).reshape(len(header), HEADER_TCP.itemsize)
    options = read_options(raw, np.where(whole, size - 20, 0))
    flags = header["flags"].astype(np.uint16) | (header["offset"] & np.uint8(15)).astype(np.uint16) << np.uint16(8)
    pair, side = _numbered(about, header, frames.net[about.frame], pairs)
    bits = options.bits | np.where(whole, 0, CUT).astype(np.uint8) | np.where(about.df, DF, 0).astype(np.uint8)
    rows = Rows(
        frames.at[about.frame], number[about.frame], pair, side, header["seq"].astype(np.uint32),
        header["ack"].astype(np.uint32), flags, header["window"].astype(np.uint16), length.astype(np.int32),
        options.tsval, options.tsecr,
        options.mss, options.wscale, about.ttl, about.tos, about.ident, bits,
        header["check"].astype(np.uint16) ^ options.blocks,
    )  # fmt: skip
    counts["tcp"] += len(rows.at)
    return segments_of(frames.data, rows, frames.start[about.frame] + about.tcp_at + size, size, room)


# Odd constants that spread addresses and ports over 32 bits; collisions cost a little time and nothing else.
_SPREAD = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))


def _numbered(about: Envelopes, header: Column, nets: Column, pairs: Pairs) -> tuple[Column, Column]:
    """Return (pair, side) of each segment: those of equal ends in one network are brought together, and each run asks
    for its number."""
    ports = header["source"].astype(np.uint64), header["destination"].astype(np.uint64)
    pair, side = np.empty(len(header), np.int32), np.empty(len(header), np.uint8)
    for part, numbered in ((slice(about.ipv4_count), _pairs4), (slice(about.ipv4_count, None), _pairs6)):
        ends = tuple(column[part] for column in about.ends)
        own = ports[0][part], ports[1][part]
        pair[part], side[part] = numbered(ends, own, nets[part], pairs)  # type: ignore[arg-type]
    return pair, side


def _pairs4(ends: Ends, ports: tuple[Column, Column], nets: Column, pairs: Pairs) -> tuple[Column, Column]:
    """An end is a number of 48 bits, so the lower one and the higher one are two columns."""
    source, destination = (low << np.uint64(16) | port for low, port in zip(ends[1::2], ports, strict=True))
    low, high = np.minimum(source, destination), np.maximum(source, destination)
    order = radix_order((low * _SPREAD[0] ^ high * _SPREAD[1] ^ nets * _SPREAD[2]) >> np.uint64(32))
    low, high, nets = low[order], high[order], nets[order]
    begins = np.empty(len(order), bool)
    begins[:1] = True
    begins[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1]) | (nets[1:] != nets[:-1])
    keys = np.zeros(int(np.count_nonzero(begins)), KEY)
    keys["version"], keys["net"] = 4, nets[begins]
    for name, column in (("0", low[begins]), ("1", high[begins])):
        keys["port" + name], keys["low" + name] = column & np.uint64(0xFFFF), column >> np.uint64(16)
    return _asked(keys, begins, order, pairs), (source > destination).astype(np.uint8)


def _pairs6(ends: Ends, ports: tuple[Column, Column], nets: Column, pairs: Pairs) -> tuple[Column, Column]:
    source_high, source_low, destination_high, destination_low = ends
    side = (source_high > destination_high) | (
        (source_high == destination_high)
        & ((source_low > destination_low) | ((source_low == destination_low) & (ports[0] > ports[1])))
    )
    mixed = _mixed(source_high, source_low, ports[0]) + _mixed(destination_high, destination_low, ports[1])
    order = radix_order((mixed ^ nets * _SPREAD[2]) >> np.uint64(32))
    keys = np.zeros(len(side), KEY)
    keys["version"], keys["net"] = 6, nets
    for name, (source, destination) in (("port", ports), ("high", ends[0::2]), ("low", ends[1::2])):
        keys[name + "0"] = np.where(side, destination, source)
        keys[name + "1"] = np.where(side, source, destination)
    keys = _select_records(keys, order)
    words = keys.view(np.uint64).reshape(len(order), KEY.itemsize // 8)
    begins = np.empty(len(order), bool)
    begins[:1] = True
    np.any(words[1:] != words[:-1], axis=1, out=begins[1:])
    return _asked(keys[begins], begins, order, pairs), side.astype(np.uint8)


def _asked(keys: Column, begins: Column, order: Column, pairs: Pairs) -> Column:
    """Return each row's pair number, by the key of the run it stands in."""
    leaders, width = keys.tobytes(), KEY.itemsize
    numbers = pairs.number(leaders[at : at + width] for at in range(0, len(leaders), width))
    pair = np.empty(len(order), np.int32)
    pair[order] = np.asarray(numbers, np.int32)[np.cumsum(begins) - 1]
    return pair


def _mixed(high: Column, low: Column, port: Column) -> Column:
    value: Column = (low ^ high * _SPREAD[1]) * _SPREAD[0] + port * _SPREAD[2]
    mixed: Column = (value ^ np.right_shift(value, np.uint64(29))) * _SPREAD[1]
    return mixed
