# SPDX-License-Identifier: MIT
"""Every dialect gives the same rows; what is cut or broken is read as far as it goes, and named."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.fingerprint.capture import pcap
from configtron.fingerprint.capture.reading import read
from configtron.fingerprint.capture.source import CaptureSource, opened
from configtron.fingerprint.passive.columns import Pairs, Rows, joined
from configtron.fingerprint.passive.headers import decode
from configtron.fingerprint.passive.heads import Heads
from configtron.model.errors import BadInput, Missing
from tests.support import capture_bytes as write

TALK = [*write.conversation(4), *write.conversation(6, port=40001, start_ns=write.START_NS + 10**9)]


def rows_of(data: bytes | CaptureSource, *, buffer: int = 4096) -> tuple[Rows, Counter[str], list[str]]:
    counts: Counter[str] = Counter()
    pairs, heads, keylog = Pairs(), Heads(), list[str]()
    source = data if isinstance(data, CaptureSource) else CaptureSource(io.BytesIO(data))
    parts = [decode(frames, pairs, heads, counts) for frames in read(source, counts, buffer=buffer, keylog=keylog)]
    return joined([part for part in parts if part is not None]), counts, keylog


def same(rows: Rows, other: Rows, *, but: tuple[str, ...] = ()) -> bool:
    return all(np.array_equal(a, b) for name, a, b in zip(Rows._fields, rows, other, strict=True) if name not in but)


PLAIN = rows_of(write.pcap(TALK, nano=True))[0]
MICRO = [(at // 1000, frame) for at, frame in TALK]


def mixed_sections() -> bytes:
    half = len(TALK) // 2
    return write.pcapng(TALK[:half], order=">") + write.pcapng(TALK[half:], order="<")


def two_interfaces() -> bytes:
    """Ethernet in microseconds (the default), and raw IP in 2^-30 s from an hour ago."""
    parts = [write.section(), write.interface(1), write.interface(101, resolution=0x80 | 30, offset_s=-3600)]
    for n, (at, frame) in enumerate(TALK):
        if n % 2:
            whole, part = divmod(at + 3600 * 10**9, 10**9)
            parts.append(write.packet(frame, (whole << 30) + -(-(part << 30) // 10**9), number=1))
        else:
            parts.append(write.packet(write.ethernet(frame), at // 1000))
    return b"".join(parts)


DIALECTS = {
    "pcap little ns": write.pcap(TALK, nano=True),
    "pcap big ns": write.pcap(TALK, nano=True, order=">"),
    "pcap little us": write.pcap(TALK),
    "pcap big us": write.pcap(TALK, order=">"),
    "pcapng little": write.pcapng(TALK),
    "pcapng big": write.pcapng(TALK, order=">"),
    "pcapng two sections of two orders": mixed_sections(),
    "pcapng us": write.section() + write.interface() + b"".join(write.packet(f, at) for at, f in MICRO),
    "pcapng obsolete packets": write.section() + write.interface()
    + b"".join(write.packet(f, at, kind=2) for at, f in MICRO),
    "pcapng obsolete packets, big": write.section(">") + write.interface(order=">")
    + b"".join(write.packet(f, at, kind=2, order=">") for at, f in MICRO),
    "pcapng two interfaces": two_interfaces(),
    "pcapng with other blocks between": write.section() + write.interface(resolution=9)
    + b"".join(write.block(0xBAD, bytes(8)) + write.packet(f, at) for at, f in TALK),
}  # fmt: skip


@pytest.mark.parametrize("buffer", [1500, 4096, 1 << 20])
@pytest.mark.parametrize("name", DIALECTS)
def test_dialects_say_the_same(name: str, buffer: int) -> None:
    rows, counts, _ = rows_of(DIALECTS[name], buffer=buffer)
    assert rows.size == len(TALK) == counts["frames"] == counts["tcp"]
    assert same(rows, PLAIN, but=("at",)), name
    assert np.abs(rows.at - PLAIN.at).max() <= 1
    assert rows.frame.tolist() == list(range(1, len(TALK) + 1))


def test_simple_packets_have_no_time() -> None:
    data = write.section() + write.interface(snap=90) + b"".join(write.packet(f, 0, kind=3, snap=90) for _, f in TALK)
    rows, counts, _ = rows_of(data)
    assert rows.size == len(TALK) and not rows.at.any()
    assert same(rows, PLAIN, but=("at",)), "lengths are the original ones"
    assert not counts["malformed-record"]


@pytest.mark.parametrize("snap", [20, 40, 54, 66, 96])
def test_snapped_frames_keep_their_lengths(snap: int) -> None:
    rows, counts, _ = rows_of(write.pcap(TALK, nano=True, snap=snap))
    assert rows.size + counts["cut-header"] == len(TALK)
    assert rows.size == sum(len(f[:snap]) >= (40 if f[0] >> 4 == 4 else 60) for _, f in TALK)
    whole = {int(frame): int(length) for frame, length in zip(PLAIN.frame, PLAIN.length, strict=True)}
    assert {int(f): int(n) for f, n in zip(rows.frame, rows.length, strict=True)}.items() <= whole.items()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["pcap little ns", "pcap big us", "pcapng little", "pcapng two sections of two orders"]
)
def test_a_file_may_end_anywhere(name: str) -> None:
    data, last = DIALECTS[name], 0
    for cut in range(0, len(data), 13):
        try:
            rows, counts, _ = rows_of(data[:cut])
        except BadInput:
            assert cut < 32
            continue
        assert last <= rows.size <= len(TALK)
        assert same(rows, PLAIN.take(np.arange(rows.size)), but=("at",))
        assert counts["cut-file"] + counts["malformed-record"] <= 1
        last = rows.size
    assert last == len(TALK) - 1 or last == len(TALK)


ALL = list(range(1, len(TALK) + 1))


def statistics(*drops: tuple[int, int]) -> bytes:
    return write.block(5, bytes(12) + b"".join(struct.pack("<HHQ", code, 8, many) for code, many in drops))


def lossy(order: str, kind: int, *drops: int) -> bytes:
    packets = (write.packet(TALK[0][1], 0, order=order, kind=kind, drops=many) for many in drops)
    return write.section(order) + write.interface(order=order) + b"".join(packets)


@pytest.mark.parametrize(("data", "frames", "name", "count"), [
    # broken lengths end the reading
    (write.pcap(TALK) + struct.pack("<IIII", 0, 0, 1 << 31, 60) + bytes(100), ALL, "malformed-record", 1),
    # a file whose room was kept before it was written
    (write.pcap(TALK) + bytes(99), ALL, "malformed-record", 1), (write.pcap(TALK) + bytes(99), ALL, "bytes-left", 99),
    (write.pcapng(TALK) + struct.pack("<III", 6, 1 << 30, 0) + bytes(100), ALL, "malformed-record", 1),
    (write.pcapng(TALK) + write.block(6, bytes(20))[:-4] + b"xxxx" + bytes(100), ALL, "malformed-record", 1),
    (write.pcapng(TALK) + struct.pack("<III", 6, 33, 0) + bytes(100), ALL, "malformed-record", 1),
    # a packet of no interface, and drops of the program that captured
    (write.section() + write.interface() + write.packet(TALK[0][1], 0, number=3) + write.packet(TALK[1][1], 0),
     [2], "unknown-interface", 1),
    # nanoseconds under the magic number of microseconds
    (write.pcap(TALK)[:4] + write.pcap(TALK, nano=True)[4:], ALL, "malformed-time", len(TALK)),
    (write.pcapng(TALK) + statistics((5, 7)), ALL, "dropped-by-capture", 7),
    (write.pcapng(TALK) + statistics((7, 3)) + statistics((5, 2), (7, 3)), ALL, "dropped-by-capture", 5),
    # packets name the drops before them; statistics have these again, and perhaps more
    (lossy("<", 6, 9, 0, 2), [1, 2, 3], "dropped-by-capture", 11),
    (lossy(">", 6, 9, 1), [1, 2], "dropped-by-capture", 10),
    (lossy("<", 6, 9) + statistics((5, 12)) + lossy("<", 6, 1) + statistics((5, 1)), [1, 2], "dropped-by-capture", 13),
    (lossy("<", 2, 6, 0xFFFF), [1, 2], "dropped-by-capture", 6), (lossy(">", 2, 5), [1], "dropped-by-capture", 5),
    (write.pcapng(TALK) + write.section().replace(b"\x2b\x1a\1", b"\x2b\x1a\2"), ALL, "malformed-record", 1),
])  # fmt: skip
def test_what_is_broken_or_was_lost_is_counted(data: bytes, frames: list[int], name: str, count: int) -> None:
    rows, counts, _ = rows_of(data)
    assert rows.frame.tolist() == frames and counts[name] == count


@pytest.mark.parametrize("offset_s", [-(1 << 62), 1 << 62, -1])
@pytest.mark.parametrize("resolution", [0, 9, 0x7F, 0x80, 0xFF])
def test_no_clock_is_too_odd(offset_s: int, resolution: int) -> None:
    head = write.section() + write.interface(resolution=resolution, offset_s=offset_s)
    rows, _, _ = rows_of(head + b"".join(write.packet(f, n << 63 | n) for n, (_, f) in enumerate(TALK[:2])))
    assert rows.size == 2 and (rows.at >= 0).all()


def test_secrets_are_found() -> None:
    keys = b"CLIENT_RANDOM 00 11\n"
    data = write.pcapng(TALK) + write.block(10, struct.pack("<II", 0x544C534B, len(keys)) + keys)
    assert rows_of(data)[2] == [keys.decode()]


@pytest.mark.parametrize(("data", "complaint"), [
    (b"", "empty"), (b"\x1f\x8bnot", "its compression is broken"), (b"hello, world", "neither"),
    (struct.pack("<I", 0xA1B2CD34) + bytes(40), "editcap"), (b"\x0a\x0d\x0d\x0a" + bytes(30), "neither"),
    (write.pcap(TALK).replace(b"\2\0\4\0", b"\2\0\3\0", 1), "neither pcap 2.4"),
    (write.pcap(TALK, order=">").replace(b"\0\2\0\4", b"\2\0\4\0", 1), "neither pcap 2.4"),
    (write.section().replace(b"\x2b\x1a\1", b"\x2b\x1a\2"), "nor pcapng 1"),
])  # fmt: skip
def test_what_is_no_capture_is_refused(data: bytes, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    with opened(str(tmp_path / "x")) as source, pytest.raises(BadInput, match=complaint):
        list(read(source, Counter()))


def compressed(data: bytes) -> dict[str, bytes]:
    zstandard = pytest.importorskip("zstandard")
    half = len(data) // 2
    return {
        "gz": gzip.compress(data),
        "gz in two members": gzip.compress(data[:half]) + gzip.compress(data[half:]),
        "zst": zstandard.compress(data),
        "zst in two frames": zstandard.compress(data[:half]) + zstandard.compress(data[half:]),
        "xz in two streams": lzma.compress(data[:half]) + lzma.compress(data[half:]),
        "bz2 in two streams": bz2.compress(data[:half]) + bz2.compress(data[half:]),
        **{
            f"lz4 {' '.join(words)}": subprocess.run(["lz4", "-qc", *words], input=data, stdout=subprocess.PIPE).stdout
            for words in (["-B4"], ["-l"])
            if shutil.which("lz4")
        },
    }


def read_file(path: str) -> tuple[Rows, Counter[str]]:
    with opened(path) as source:
        return rows_of(source)[:2]


@pytest.mark.parametrize("program", [False, True], ids=["modules", "program"])
def test_compressed_files(program: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    wanted = compressed(DIALECTS["pcap little ns"])
    if program:
        if shutil.which("zstd") is None:
            pytest.skip("needs zstd: apt-get install zstd")
        monkeypatch.setitem(sys.modules, "zstandard", None)
    for name, data in wanted.items():
        path.write_bytes(data)
        rows, counts = read_file(str(path))
        assert same(rows, PLAIN), name
        path.write_bytes(data[: len(data) - 9])
        if name == "zst" or name.startswith("lz4"):
            # its one frame cannot be checked, so nothing of it is believed
            with pytest.raises(BadInput, match="its compression is broken"):
                read_file(str(path))
            continue
        rows, counts = read_file(str(path))
        assert counts["cut-compression"] == 1, name
        assert rows.size <= len(TALK) and rows.size == counts["frames"], name


@pytest.mark.parametrize(("data", "program"), [(b"\x28\xb5\x2f\xfd", "zstd"), (b"\x04\x22\x4d\x18", "lz4")])
def test_without_the_program_it_is_named(
    data: bytes, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_bytes(data)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(Missing, match=f"apt-get install {program}"), opened(str(tmp_path / "x")):
        pass


def test_standard_input_is_a_capture(tmp_path: Path) -> None:
    data = compressed(DIALECTS["pcapng big"])["gz"]
    words = [sys.executable, "-m", "configtron", "fingerprint", "pcap", "-", "-f", "jsonl"]
    done = subprocess.run(words, input=data, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.skipif(shutil.which("editcap") is None, reason="needs editcap: apt-get install wireshark-common")
@pytest.mark.parametrize("form", ["pcap", "nsecpcap", "pcapng"])
def test_what_wireshark_writes(form: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(DIALECTS["pcapng little"])
    subprocess.run(
        ["editcap", "-F", form, str(tmp_path / "in"), str(tmp_path / "out")], check=True, capture_output=True
    )
    rows, _ = read_file(str(tmp_path / "out"))
    assert same(rows, PLAIN, but=("at",) if form == "pcap" else ())


def chain(data: bytes, order: str) -> list[int]:
    """Return where the whole records of a pcap's body begin, by the one way that its format has."""
    places, at = list[int](), 0
    while at + 16 <= len(data):
        after = at + 16 + struct.unpack_from(f"{order}I", data, at + 8)[0]
        if after > len(data):
            break
        places.append(at)
        at = after
    return places


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from("<>"), st.sampled_from([0, 1, 0x6553F1A7]), st.integers(40, 300), st.integers(0, 40),
    st.lists(st.tuples(st.integers(0, 90), st.booleans()), max_size=120),
)  # fmt: skip
def test_parts_walked_together_are_the_chain(
    order: str, second: int, part: int, cut: int, records: list[tuple[int, bool]]
) -> None:
    """Even where the payload of records is made of their headers, of which any may be guessed to be a record."""
    packed = [struct.pack(f"{order}4I", second, 0, size, size) for size, _ in records]
    bodies = [(head * 6 if forged else bytes(90))[:size]
              for head, (size, forged) in zip(packed, records, strict=True)]  # fmt: skip
    data = b"".join(map(bytes.__add__, packed, bodies))
    data = data[: max(len(data) - cut, 0)]
    found, at, broken = pcap.walk(bytearray(data + bytes(192)), 0, len(data), order, part=part)
    places = chain(data, order)
    assert (found.tolist(), broken) == (places, False)
    assert at == (places[-1] + 16 + struct.unpack_from(f"{order}I", data, places[-1] + 8)[0] if places else 0)
