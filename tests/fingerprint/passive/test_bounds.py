# SPDX-License-Identifier: MIT
"""Captures made to cost much: time and memory stay bounded. Memory is limited in a child; time is counted in steps.

And the coverage-guided fuzzer for a short while, with a fixed seed; `make fuzz` lets it run for longer.
"""

from __future__ import annotations

import io
import json
import os
import random
import struct
import subprocess
import sys
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
from tests.support import capture_bytes as write
from tests.support import fuzzer

FUZZING = (
    "import json, sys; from pathlib import Path; from tests.support.fuzzer import fuzz;"
    "print(json.dumps(fuzz(seed=1, runs=500, folder=Path(sys.argv[1]))))"
)
# Reading from a child whose memory is limited; a capture that costs more is a fault.
STREAM = (
    "import sys; from tests.support.fuzzer import limit; import numpy, configtron.cli.outermost as o;"
    "import configtron.fingerprint.passive.connection_report, configtron.report.connections, zstandard;"
    "limit(512 << 20);"
    "sys.exit(o.run(['fingerprint', 'pcap', '-f', 'csv', '-o', '/dev/null', sys.argv[1]]))"
)


def child(code: str, path: Path) -> subprocess.CompletedProcess[str]:
    single = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, env=single, timeout=500)


@pytest.mark.slow
def test_a_zst_bomb_is_read_in_bites(tmp_path: Path) -> None:
    """Two gigabytes of zeros behind a pcap header, in some kilobytes."""
    zstandard = pytest.importorskip("zstandard")
    record = struct.pack("<IIII", 1, 1, 1 << 16, 1 << 16) + bytes(1 << 16)
    maker = zstandard.ZstdCompressor(level=3).compressobj()
    parts = [write.pcap(write.conversation()), *[record * 64] * 512]
    path = tmp_path / "bomb.pcap.zst"
    path.write_bytes(b"".join([*map(maker.compress, parts), maker.flush()]))
    assert path.stat().st_size < 1 << 20
    done = child(STREAM, path)
    assert done.returncode == 3 and "32778 frames" in done.stderr, done.stderr


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
    most, data = 0, write.pcap(frames, nano=True)
    for part in read(CaptureSource(io.BytesIO(data)), gathering.counts, buffer=1 << 20):
        list(gathering.take(decode(part, gathering.pairs, gathering.heads, gathering.counts)))
        most = max(most, gathering.heads.size)
    assert len(data) > 3 * HEADS_MOST > 0 and most <= 2.2 * HEADS_MOST
    assert gathering.counts["tcp"] == 4000


def test_interfaces_without_end_break_the_file() -> None:
    data = write.section() + write.interface() * (packet_blocks.INTERFACES_MOST + 1) + write.packet(bytes(60), 0)
    counts: Counter[str] = Counter()
    assert list(read(CaptureSource(io.BytesIO(data)), counts)) == [] and counts["malformed-record"] == 1


def test_words_of_a_buffer_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the other byte order they are a copy; a block between every two packets must not cost one each."""
    made, talk, original = [], write.conversation(), packet_blocks.words_of
    monkeypatch.setattr(packet_blocks, "words_of", lambda *words: made.append(1) or original(*words))
    between = write.block(0xBAD, bytes(8), ">")
    body = b"".join(between + write.packet(f, at, order=">") for at, f in talk)
    data = write.section(">") + write.interface(order=">", resolution=9) + body
    assert sum(len(part.start) for part in read(CaptureSource(io.BytesIO(data)), Counter())) == len(talk)
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


@pytest.mark.slow
def test_the_fuzzer_finds_new_ground_and_no_fault(tmp_path: Path) -> None:
    done = child(FUZZING, tmp_path)
    assert done.returncode == 0, done.stderr
    runs, features, kept, failures = json.loads(done.stdout)
    assert failures == [] and runs == 500
    # What was kept is more than where it began: it was guided by what it reached.
    assert kept > 2 * sum(map(len, fuzzer.seeds().values())) and features > 2000


def test_the_fuzzer_sees_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes) -> set[fuzzer.Feature]:
        if b"\xff\xff\xff\xff" in data:
            raise ValueError("a fault")
        return set()

    monkeypatch.setattr(fuzzer, "limit", lambda _: None)
    monkeypatch.setitem(fuzzer.TARGETS, "capture", broken)
    monkeypatch.setitem(fuzzer.TARGETS, "trace", broken)
    found = fuzzer.fuzz(seed=1, runs=300, folder=tmp_path)
    assert found.failures and len(found.failures) <= len(fuzzer.TARGETS), "one a fault and kind of input"
    for what, path in found.failures:
        assert "a fault" in what and b"\xff\xff\xff\xff" in Path(path).read_bytes()


def test_the_same_seed_makes_the_same_inputs_and_any_bytes_a_trace() -> None:
    made = [fuzzer.changed(b"abc" * 50, b"xyz" * 50, random.Random(5)) for _ in range(20)]
    assert len(set(made)) == 1
    assert fuzzer.trace_of(b"").packets == () and len(fuzzer.trace_of(b"\1\2\3\4" + bytes(24)).packets) == 2
