# SPDX-License-Identifier: MIT
"""Captures made to cost much: time and memory stay bounded. Memory is limited in a child; time is counted in steps."""

from __future__ import annotations

import io
import random
import struct
from collections import Counter
from pathlib import Path

import pytest

from configtron.fingerprint.capture import packet_blocks
from configtron.fingerprint.capture.reading import read
from configtron.fingerprint.capture.source import CaptureSource
from configtron.fingerprint.passive.gathering import HEADS_MOST, Gathering
from configtron.fingerprint.passive.headers import decode
from configtron.fingerprint.passive.retransmissions import HOLE, KINDS, _Event, _Recovery
from tests.fingerprint.passive.test_fuzz import nonsense
from tests.fingerprint.passive.test_fuzzer import STREAM, child
from tests.support import capture_bytes as write


@pytest.mark.slow
def test_a_zst_bomb_is_read_in_bites(tmp_path: Path) -> None:
    """Two gigabytes of zeros behind a pcap header, in some kilobytes."""
    zstandard = pytest.importorskip("zstandard")
    head = write.pcap(write.conversation())
    record = struct.pack("<IIII", 1, 1, 1 << 16, 1 << 16) + bytes(1 << 16)
    maker = zstandard.ZstdCompressor(level=3).compressobj()
    parts = [maker.compress(head)] + [maker.compress(record * 64) for _ in range(512)] + [maker.flush()]
    path = tmp_path / "bomb.pcap.zst"
    path.write_bytes(b"".join(parts))
    assert path.stat().st_size < 1 << 20
    done = child(STREAM, str(path))
    assert done.returncode == 0 and "32778 frames" in done.stderr, done.stderr


@pytest.mark.slow
def test_heads_are_reported_before_they_are_many() -> None:
    """Every segment opens like an answer of HTTP: what is kept of them stays below its limit."""
    gathering = Gathering(400_000)
    chance = random.Random(1)
    body = b"HTTP/1.1 200 OK\r\n" + bytes(30_000)
    frames = []
    for n in range(4000):
        segment = bytearray(nonsense(chance.randrange(2), 0x10, n * 31_000, 1, len(body)))
        segment[20:22] = struct.pack(">H", 1024 + n)
        segment[40:] = body
        frames.append((n * 1_000_000, bytes(segment)))
    most = 0
    data = write.pcap(frames, nano=True)
    for part in read(CaptureSource(io.BytesIO(data)), gathering.counts, buffer=1 << 20):
        for _ in gathering.take(decode(part, gathering.pairs, gathering.heads, gathering.counts)):
            pass
        most = max(most, gathering.heads.size)
    assert len(data) > 3 * HEADS_MOST > 0 and most <= 2.2 * HEADS_MOST
    assert gathering.counts["tcp"] == 4000


def test_interfaces_without_end_break_the_file() -> None:
    data = write.section() + write.interface() * (packet_blocks.INTERFACES_MOST + 1) + write.packet(bytes(60), 0)
    counts: Counter[str] = Counter()
    assert list(read(CaptureSource(io.BytesIO(data)), counts)) == [] and counts["malformed-record"] == 1


def test_words_of_a_buffer_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the other byte order they are a copy; a block between every two packets must not cost one each."""
    made = []
    original = packet_blocks.words_of
    monkeypatch.setattr(packet_blocks, "words_of", lambda *words: made.append(1) or original(*words))
    between = write.block(0xBAD, bytes(8), ">")
    body = b"".join(between + write.packet(f, at, order=">") for at, f in write.conversation())
    data = write.section(">") + write.interface(order=">", resolution=9) + body
    assert sum(len(part.start) for part in read(CaptureSource(io.BytesIO(data)), Counter())) == len(
        write.conversation()
    )
    assert len(made) <= 3


class Counted(list[tuple[int, int, int, int]]):
    """Holes that count how often one is looked at."""

    looks = 0

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        Counted.looks += 1
        return super().__getitem__(place)


# previous, heard, una, duplicates, tsval, stamped, rtt, sack of an event
NOTHING = (0, 0, 0, 0, 0, False, 0, False)


def test_many_holes_are_searched_not_walked() -> None:
    recovery = _Recovery()
    recovery.holes = Counted()
    for n in range(5000):
        kind = recovery.classify(_Event(0, 2000 * n + 1000, 2000 * n + 2000, 2000 * n, True, n, *NOTHING))
        assert KINDS[kind] == HOLE
    Counted.looks = 0
    for n in range(5000):
        recovery.classify(_Event(0, 2000 * n + 200, 2000 * n + 400, 10**7, False, 10**12, *NOTHING))
    # Each fill splits a hole in two; sought by halves, a hundred thousand looks at most.
    assert len(recovery.holes) == 10_000 and Counted.looks < 5000 * 20
