# SPDX-License-Identifier: MIT
"""The native reader gives the columns, counts and kept bytes that Python gives, whatever the bytes are."""

from __future__ import annotations

import io
import random
import re
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configtron.fingerprint.capture import native
from configtron.fingerprint.capture.reading import read
from configtron.fingerprint.capture.source import CaptureSource, opened
from configtron.fingerprint.passive.columns import ABSENT, COUNTED, TYPES, Frames, Pairs, Rows, joined
from configtron.fingerprint.passive.connections import PASSES, connect
from configtron.fingerprint.passive.first_flight import first_flights
from configtron.fingerprint.passive.headers import decode
from configtron.fingerprint.passive.heads import Heads
from configtron.fingerprint.passive.limits import PAST
from configtron.fingerprint.passive.retransmissions import KINDS
from configtron.fingerprint.passive.summary import summarise
from configtron.model.errors import BadInput
from configtron.service.capture import CaptureReading
from tests.fingerprint.capture.test_reading import DIALECTS, TALK
from tests.support import ROOT
from tests.support import capture_bytes as write
from tests.support.tunnelled import WRAPS

pytestmark = pytest.mark.skipif(native.library() is None, reason="needs the native reader: make native (rustc)")
FOUR, SIX = TALK[4][1], write.conversation(6)[4][1]


def within(packet: bytes, protocol: int, head: bytes) -> bytes:
    """Return it in IPv4, behind another header."""
    total = (20 + len(head) + len(packet)).to_bytes(2, "big")
    return b"\x45\0" + total + bytes(5) + bytes([protocol]) + bytes(10) + head + packet


def extended(protocol: int, head: bytes) -> bytes:
    """Return TCP in IPv6 behind an extension header."""
    size = (len(SIX) - 40 + len(head)).to_bytes(2, "big")
    return SIX[:4] + size + bytes([protocol]) + SIX[7:40] + head + SIX[40:]


PORTS = ((50000, 443), (443, 50000), (50000, 53), (443, 4789), (4789, 443), (51820, 1194), (9, 4500))
UDP = b"\xc3\x50\x12\xb5\xff\xff\0\0"
ODD = [
    extended(60, b"\6" + bytes(7)), extended(44, b"\6" + bytes(7)), extended(44, b"\6\0\0\1" + bytes(4)),
    within(FOUR, 4, b""), within(FOUR, 47, b"\0\0\x08\0"), within(FOUR, 17, UDP), within(FOUR, 1, b""),
    *(within(b"\1query", 17, struct.pack(">HHHH", *ports, 14, 0)) for ports in PORTS), within(b"", 17, UDP),
    within(FOUR, 1, b"\3\4\0\0\0\0\1\1"), within(FOUR, 1, b"\3\1" + bytes(6)), extended(58, b"\2\0\0\0\0\0\5\0"),
    within(write.ethernet(FOUR), 17, UDP + b"\x08" + bytes(7)), within(write.ethernet(SIX), 97, b"\x30\0"),
]  # fmt: skip
# Link types, and what stands before an IP packet there.
LINKS: list[tuple[int, Callable[[bytes], bytes]]] = [
    (1, write.ethernet), (1, lambda p: write.ethernet(p, 0x8100)),
    (1, lambda p: write.ethernet(p, 0x88A8, 0x8100)), (1, lambda p: bytes(12) + b"\x88\x64" + bytes(6) + b"\0\x21" + p),
    (1, lambda p: bytes(12) + b"\x89\x09" + bytes(6) + write.kind(p) + p), (0, lambda p: bytes(4) + p), (12, bytes),
    (113, lambda p: bytes(14) + write.kind(p) + p), (276, lambda p: write.kind(p) + bytes(18) + p),
    (1, lambda p: bytes(12) + b"\x89\x26" + bytes(4) + write.kind(p) + p), (101, bytes), (108, lambda p: bytes(4) + p),
    (109, lambda p: bytes(12) + p), (226, lambda p: bytes(24) + p), (9, bytes), (252, bytes),
    (1, lambda p: bytes(12) + b"\x08\x06" + p), (1, lambda p: bytes(12) + b"\x81\0\0\1\x88\xcc" + p),
    (1, lambda p: bytes(12) + b"\0\x26\x42\x42\3" + p), (1, lambda p: bytes(12) + b"\0\x26\xaa\xaa\3\0\0\0\x08\0" + p),
    *WRAPS.values(),
]  # fmt: skip
IN_IP = [wrap for link, wrap in WRAPS.values() if link == 101]
# What Scapy opens; what Python reads: extension headers, AH.
SCAPYS, PYTHONS = re.compile("NFLOG|PPI|LLC|Radiotap"), re.compile("behind [^P]")


def seen(source: CaptureSource, buffer: int) -> dict[str, Any]:
    """Return everything that reading leaves behind; rows in the order of their frames, with their ends."""
    counts, pairs, heads = Counter[str](), Pairs(), Heads()
    keylog, parts, why = list[str](), list[Rows](), ""
    try:
        for frames in read(source, counts, buffer=buffer, keylog=keylog):
            rows = decode(frames, pairs, heads, counts, None, native.plain_segments)
            parts += [] if rows is None else [rows]
    except BadInput as error:
        why = str(error)
    rows = joined(parts)
    rows = rows.take(np.argsort(rows.frame, kind="stable"))
    wanted = {(pairs.ends[way >> 1], way & 1): (r.seq, r.left, r.looks) for way, r in heads.wanted.items()}
    columns = {name: (column.dtype, column.tobytes()) for name, column in rows._asdict().items() if name != "pair"}
    ends = [(pairs.ends[pair], int(pairs.ends.keys["net"][pair])) for pair in rows.pair.tolist()]
    return {
        **columns, "ends": ends, "counts": +counts,
        "heads": (heads.kept, heads.size, wanted, sorted((pairs.ends[pair], *rest) for pair, *rest in heads.too_big)),
        "end": (keylog, why),
    }  # fmt: skip


def both(monkeypatch: pytest.MonkeyPatch, data: bytes, buffer: int = 4096) -> dict[str, Any]:
    """Read natively and by Python; return what was seen if it is the same."""
    found = seen(CaptureSource(io.BytesIO(data)), buffer)
    with monkeypatch.context() as patch:
        patch.setattr(native, "library", lambda: None)
        expected = seen(CaptureSource(io.BytesIO(data)), buffer)
    assert [name for name in expected if found[name] != expected[name]] == []
    return found


def test_every_recording_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = sorted((ROOT / "fixtures").rglob("*.gz"))
    frames = 0
    for path in paths:
        with opened(str(path)) as source:
            whole = bytearray(1 << 24)
            data = bytes(whole[: source.fill(memoryview(whole))])
        frames += both(monkeypatch, data)["counts"].get("tcp", 0)
    assert len(paths) > 100 and frames > 1000


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_reads_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert both(monkeypatch, DIALECTS[name], 1500)["counts"]["tcp"] == len(TALK)


# Places in an IP header and what they become; options, in one of which the acknowledged number stands; payloads.
FIELDS = {
    4: ((0, b"\x44"), (0, b"\x46"), (2, b"\0\0"), (2, b"\0\x24"), (6, b"\x20"), (6, b"\0"), (7, b"\1"), (9, b"\x11")),
    6: ((4, b"\0\0"), (4, b"\0\7"), (6, b"\0"), (6, b"\x3a")),
}
ACKED = b"ackd"
OPTIONS = (b"\1\1\5\x0a\0\0\0\0" + ACKED, b"\1\1\5\x0a", b"\5\x12\1\2", b"\2\4\1\2\3\3\7\4\2", b"\x08\x0a\5\x0a\3",
           b"\2\4\1\2\2\4\3\4\4\2\0", b"\1" * 12)  # fmt: skip
OPENINGS = (b"\x16\x03\x01\x02\x00\1", b"\x15\x03\x01\0\2\1", b"\x15\x03\x01\0\3\1", b"\0\0\6\4\0", b"\0\0\6\4\1",
            b"\0\0\6\5\0", b"POST /", b"PRI * ", b"HTTP", b"OPT", b"PULL ")  # fmt: skip


def packet_of(chance: random.Random) -> bytes:
    """Return a packet with fields, options, payload or any bytes changed."""
    packet = bytearray(chance.choice(ODD if chance.random() < 0.2 else [frame for _, frame in TALK]))
    head = (20 if packet[0] >> 4 == 4 else 40) + 32
    if chance.random() < 0.3:
        packet[head:] = chance.choice(OPENINGS) + bytes(chance.randrange(700))
    if chance.random() < 0.3:
        options = chance.choice(OPTIONS).replace(ACKED, packet[head - 24 : head - 20])
        packet[head - 12 : head - 12 + len(options)] = options
    if chance.random() < 0.3:
        at, value = chance.choice(FIELDS[packet[0] >> 4])
        packet[at : at + len(value)] = value
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        packet = bytearray(chance.choice(IN_IP)(bytes(packet)))
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        packet[chance.randrange(min(len(packet), 120))] = chance.randrange(256)
    return bytes(packet)


def capture_of(chance: random.Random) -> bytes:
    """Return a capture of frames of any link type: either format, either order, cut, changed."""
    link, wrap = chance.choice(LINKS)
    frames = [(write.START_NS + n * 10**6, wrap(packet_of(chance))) for n in range(chance.randrange(1, 60))]
    order, snap = chance.choice("<>"), chance.choice((0, 0, 54, 60, 70, 90, 120))
    if chance.random() < 0.6:
        data = write.pcap(frames, order=order, nano=chance.random() < 0.5, link=link, snap=snap)
    else:
        data = write.section(order) + write.interface(link, order=order, resolution=9) + write.interface(order=order)
        for at, frame in frames:
            number, kind = chance.choice((0, 0, 1, 2)), chance.choice((6, 6, 2, 3))
            data += write.packet(frame, at, order=order, number=number, kind=kind, snap=snap)
    broken = bytearray(data[: len(data) - chance.choice((0, 0, 7))])
    for _ in range(chance.choice((0, 0, 2))):
        broken[chance.randrange(24, len(broken))] = chance.randrange(256)
    return bytes(broken)


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_read_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    found = [both(monkeypatch, capture_of(chance), chance.choice((512, 4096, 1 << 16))) for _ in range(10)]
    assert sum(one["counts"].get("tcp", 0) for one in found) > 3


@pytest.mark.parametrize("name", WRAPS)
def test_a_tunnel_cut_anywhere_reads_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    link, wrap = WRAPS[name]
    head = write.section() + write.interface(link)
    whole = [wrap(packet) for packet in (FOUR, SIX, IN_IP[0](SIX), TALK[0][1])]
    cuts = [write.packet(frame, 0, snap=snap) for frame in whole for snap in range(1, min(len(frame), 200))]
    assert both(monkeypatch, head + b"".join(cuts))["counts"].get("tcp", 0) > 50 or SCAPYS.match(name)
    data = head + b"".join(write.packet(frame, 0) for frame in whole)
    for frames in read(CaptureSource(io.BytesIO(data)), Counter(), buffer=1 << 16):
        plain = native.plain_segments(frames)
        assert plain is not None and (not len(plain.others) or (SCAPYS.match(name) or PYTHONS.search(name)))


def test_places_outside_the_buffer_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames that claim to lie elsewhere go back to the caller; walks refuse places outside."""
    data = np.frombuffer(TALK[0][1] + bytes(200), np.uint8)
    far = np.array([-1, 0, 10**15, len(data), 5, 2**63 - 1])
    kept = np.array([60, 60, 60, 60, 2**62, 2**63 - 1])
    frames = Frames(data, far, kept, kept, kept, np.full(6, 101))
    plain = native.plain_segments(frames)
    assert plain is not None and plain.segments.rows.size == 1 and plain.others.tolist() == [0, 2, 3, 4, 5]
    assert native.pcap_records(bytearray(9), 0, 10, "<", 1) is None
    assert native.pcapng_blocks(bytearray(9), -1, 9, "<") is None


@pytest.mark.parametrize("seed", range(12))
def test_passes_over_rows_find_the_same(seed: int) -> None:
    chance, count = np.random.default_rng(seed), 1 + seed * 300
    kinds = Rows(*(chance.integers(0, 100, 9).astype(kind) for kind in TYPES.values()))
    kinds = kinds._replace(bits=np.arange(9, dtype=np.uint8) * COUNTED, window=kinds.window[:1].repeat(9))
    rows = kinds.take(chance.integers(0, 9, count))
    # Equal but for one column that the hash leaves out.
    rows.window[chance.random(count) < 0.2] += 1
    of, resets = np.sort(chance.integers(0, 1 + count // 90, count)), chance.random(count) < 0.1
    numbers, initial = (chance.integers(0, 1 << 32, size, np.uint32) for size in (count, 2 + count // 90))
    passes = native.passes()
    assert passes is not None and passes.order(of).tolist() == PASSES.order(of).tolist()
    pairs = [sorted(zip(*(rows.tolist() for rows in one.equal(rows, of)), strict=True)) for one in (passes, PASSES)]
    assert pairs[0] == pairs[1] and (len(pairs[0]) > 0) == (count > 1)
    for values in (numbers, rows.seq, np.sort(numbers) + np.arange(count, dtype=np.uint32) * np.uint32(2_000_000_000)):
        found = [one.unwrapped(values, of, initial, resets).tolist() for one in (passes, PASSES)]
        assert found[0] == found[1]
    # A connection without an initial number is Python's to refuse, not a place outside.
    with pytest.raises(IndexError):
        passes.unwrapped(numbers, of + len(initial), initial, resets)


@pytest.mark.parametrize("seed", range(12))
def test_connections_are_summarised_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Talks of a few segments' numbers, sizes and windows: repeats, holes, probes, closed windows and gaps abound."""
    chance, count = np.random.default_rng(seed), 2000
    columns = {name: np.zeros(count, kind) for name, kind in TYPES.items()}
    columns["at"] = write.START_NS + np.cumsum(chance.choice((10**5, 10**6, 3 * 10**7, 4 * 10**8), count))
    columns["frame"], columns["pair"] = np.arange(count), np.sort(chance.integers(0, 40, count)).astype(np.int32)
    columns["side"] = chance.integers(0, 2, count).astype(np.uint8)
    columns["length"] = chance.choice((0, 0, 0, 1, 100, 600, 1460), count).astype(np.int32)
    walked = np.cumsum(columns["length"] * (chance.random(count) < 0.1)).astype(np.uint32)
    columns["seq"], columns["ack"] = (
        walked + chance.choice((1, 2, 101, 601, 1461), count).astype(np.uint32) for _ in "01"
    )
    columns["flags"] = chance.choice((2, 18, 16, 16, 16, 16, 24, 17, 4, 0), count).astype(np.uint16)
    columns["window"] = chance.choice((0, 1, 600, 9000, 65535), count).astype(np.uint16)
    columns["mss"][:], columns["wscale"][:] = chance.choice((ABSENT, 1460)), chance.choice((ABSENT, 2))
    columns["bits"] = chance.choice((0, 1, 2, 33, 65, 128), count).astype(np.uint8)
    columns["bits"][chance.random(count) < 0.1] |= COUNTED
    columns["ident"] = (np.arange(count) // 3 * chance.integers(1, 3, count)).astype(np.uint16)
    columns["tsval"], columns["check"] = (
        chance.integers(0, 9, count).astype(TYPES[name]) for name in ("tsval", "check")
    )
    passes, ports = native.passes(), np.array([[40000, 443]] * 40)
    assert passes is not None and passes.shares is not None and passes.repeats is not None
    found = connect(Rows(**columns), ports, passes=passes)
    past = {frame: dict(zip(PAST, chance.integers(-1, 4000, 2).tolist(), strict=True)) for frame in range(0, count, 2)}
    whole = summarise(found, {0: [1280]}, past, passes=passes)
    monkeypatch.setattr("configtron.fingerprint.passive.summary.first_flights", partial(first_flights, head=9))
    parted = summarise(found, {0: [1280]}, past)
    flights = ([column[one.flights.size > 0].tolist() for column in one.flights] for one in (whole, parted))
    assert next(flights) == next(flights) and whole.flights.proof.tolist() == parted.flights.proof.tolist()
    one, other = whole.columns, parted.columns
    assert [name for name in other if one[name].tolist() != other[name].tolist()] == []
    shown = [name for name, column in one.items() if name.endswith("_times") and column.any()]
    assert len(shown) >= 8 and sum(one[f"server_{kind}"].any() for kind in KINDS) >= 5


def test_a_round_trip_of_centuries_is_no_panic(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (_, syn), (_, synack), ack, _, (_, data), *_ = write.conversation()
    frames = [(0, syn), ack, (9 * 10**18, synack), (9 * 10**18, data)]
    (file := tmp_path / "late.pcapng").write_bytes(write.pcapng(frames))
    assert len(list(CaptureReading((str(file),)).connections())) == 1 and capfd.readouterr().err == ""


def test_without_the_library_python_reads() -> None:
    code = "from configtron.fingerprint.capture.native import library; print(library())"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env={"CONFIGTRON_NATIVE": "0"}, capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"
