# SPDX-License-Identifier: MIT
"""TCP in tunnels: Scapy's dissectors find the same segments that lie there without one, and tshark finds them too."""

from __future__ import annotations

import io
import json
import random
import shutil
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.fingerprint.capture.dissect import Dissector
from configtron.fingerprint.capture.reading import read
from configtron.fingerprint.capture.source import CaptureSource
from configtron.fingerprint.passive.columns import Pairs, Rows, joined
from configtron.fingerprint.passive.headers import decode
from configtron.fingerprint.passive.heads import Heads
from configtron.fingerprint.passive.tunnels import NO_IP
from configtron.model.errors import DONE, PARTIAL
from tests.fingerprint.capture.test_reading import PLAIN, TALK, same
from tests.support import capture_bytes as write
from tests.support.made_capture import RTT_S, acked, flight, talk, written

pytestmark = pytest.mark.skipif(find_spec("scapy") is None, reason="needs Scapy: pip install 'configtron[craft]'")
MACS = bytes.fromhex("020000000001020000000002")
NFLOG, PPI, ETHERNET = 239, 192, 1


def four(packet: bytes, protocol: int) -> bytes:
    """An IPv4 header before it."""
    total = 20 + len(packet)
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, total, 7, 0, 64, protocol, 0, b"\x0a\0\0\1", b"\x0a\0\0\2") + packet


def six(packet: bytes, following: int) -> bytes:
    """An IPv6 header before it."""
    ends = b"\xfd" + bytes(15) + b"\xfe" + bytes(15)
    return struct.pack(">IHBB", 6 << 28, len(packet), following, 64) + ends + packet


def inner(packet: bytes) -> int:
    return 4 if packet[0] >> 4 == 4 else 41


def ether(body: bytes, number: bytes) -> bytes:
    return MACS + number + body


def ppp(packet: bytes) -> bytes:
    return (b"\x00\x21" if packet[0] >> 4 == 4 else b"\x00\x57") + packet


def pppoe(packet: bytes) -> bytes:
    return struct.pack(">BBHH", 0x11, 0, 1, len(packet) + 2) + ppp(packet)


def whole_frame(packet: bytes) -> bytes:
    return ether(packet, write.kind(packet))


def nflog(packet: bytes) -> bytes:
    family, prefix = 2 if packet[0] >> 4 == 4 else 10, struct.pack("<HH", 9, 10) + b"seen\0" + bytes(3)
    return struct.pack(">BBH", family, 0, 5) + prefix + struct.pack("<HH", len(packet) + 4, 9) + packet


def llc(packet: bytes) -> bytes:
    body = b"\xaa\xaa\x03\x00\x00\x00" + write.kind(packet) + packet
    return ether(body, struct.pack(">H", len(body) if len(body) < 1500 else 1400))


LABEL, LAST, WIRE = (struct.pack(">I", word << 8 | 64) for word in (17 << 4, 18 << 4 | 1, 19 << 4 | 1))
SPAN2, SPAN3 = (b"\x10\0" + number + bytes(4) for number in (b"\x88\xbe", b"\x22\xeb"))
CONTROL = b"\0\x01\x41\x40" + bytes(4)
TAG = struct.pack(">HHBB", 0, 100, 0, 0)


def udp(body: bytes, port: int) -> bytes:
    return four(struct.pack(">HHHH", 50000, port, len(body) + 8, 0) + body, 17)


def gtp(packet: bytes, flags: int, rest: bytes) -> bytes:
    return udp(struct.pack(">BBHI", flags, 255, len(rest + packet), 7) + rest + packet, 2152)


# What tshark must be told.
TOLD = ("-d", "udp.port==8472,vxlan", "-d", "udp.port==5555,ip", "-d", "mpls.label==19,pwethnocw",
        "-d", "mpls.label==20,pwethcw")  # fmt: skip
VXLAN, STATION = b"\x08\0\0\0\0\0\x2a\0", b"\x08\x02\0\0" + bytes(20)
WRAPS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "GRE": (ETHERNET, lambda p: ether(four(b"\0\0" + write.kind(p) + p, 47), b"\x08\x00")),
    "GRE with a key, a checksum and a number": (
        101, lambda p: four(b"\xb0\0" + write.kind(p) + bytes(4) + b"\0\0\0\1" + b"\0\0\0\2" + p, 47)
    ),
    "GRE with Ethernet": (101, lambda p: four(b"\0\0\x65\x58" + whole_frame(p), 47)),
    "ERSPAN I": (101, lambda p: four(b"\0\0\x88\xbe" + whole_frame(p), 47)),
    "ERSPAN II": (101, lambda p: four(SPAN2 + b"\x10\x01\0\x64" + bytes(4) + whole_frame(p), 47)),
    "ERSPAN III": (101, lambda p: four(SPAN3 + b"\x20\x01\0\x64" + bytes(8) + whole_frame(p), 47)),
    "PPPoE": (ETHERNET, lambda p: ether(pppoe(p), b"\x88\x64")),
    "PPPoE in a VLAN": (ETHERNET, lambda p: ether(b"\0\5\x88\x64" + pppoe(p), b"\x81\x00")),
    "IP in IP": (101, lambda p: four(p, inner(p))),
    "IP behind a segment routing header": (101, lambda p: six(bytes((inner(p), 2, 4, *bytes(21))) + p, 43)),
    "a frame behind a segment routing header": (101, lambda p: six(b"\x8f\2\4" + bytes(21) + whole_frame(p), 43)),
    "EtherIP": (101, lambda p: four(b"\x30\0" + whole_frame(p), 97)),
    "GRE behind options and an atomic fragment": (
        101, lambda p: six(b"\x2c" + bytes(7) + b"\x2f" + bytes(9) + write.kind(p) + p, 60)
    ),
    "MPLS behind AH": (101, lambda p: four(b"\x89\4" + bytes(22) + LAST + p, 51)),
    "VXLAN behind options": (101, lambda p: six(b"\x11" + bytes(7) + udp(VXLAN + whole_frame(p), 4789)[20:], 0)),
    "MPLS": (ETHERNET, lambda p: ether(LABEL + LAST + p, b"\x88\x47")),
    "MPLS in a VLAN": (ETHERNET, lambda p: ether(b"\0\5\x88\x47" + LAST + p, b"\x81\x00")),
    "Ethernet behind labels": (ETHERNET, lambda p: ether(WIRE + whole_frame(p), b"\x88\x48")),
    "Ethernet behind a control word": (ETHERNET, lambda p: ether(CONTROL + whole_frame(p), b"\x88\x47")),
    "MPLS in IPv6": (101, lambda p: six(LABEL + LAST + p, 137)),
    "PPTP": (
        101, lambda p: four(b"\x30\x81\x88\x0b" + struct.pack(">HHII", len(p) + 4, 7, 1, 1) + b"\xff\3" + ppp(p), 47)
    ),
    "MPLS in cooked frames": (113, lambda p: bytes(14) + b"\x88\x47" + LAST + p),
    "VXLAN": (101, lambda p: udp(VXLAN + whole_frame(p), 4789)),
    "VXLAN with a group, on Linux' port": (101, lambda p: udp(b"\x88\0\0\7\0\0\1\0" + whole_frame(p), 8472)),
    "VXLAN in VXLAN behind PPPoE": (
        ETHERNET, lambda p: ether(pppoe(udp(VXLAN + whole_frame(udp(VXLAN + whole_frame(p), 4789)), 4789)), b"\x88\x64")
    ),
    "MPLS in VXLAN": (101, lambda p: udp(VXLAN + ether(LAST + p, b"\x88\x47"), 4789)),
    "VXLAN-GPE": (101, lambda p: udp(b"\x0c\0\0" + bytes([2 - (p[0] >> 4 == 4)]) + VXLAN[4:] + p, 4790)),
    "Geneve with an option": (101, lambda p: udp(b"\2\0\x65\x58\0\0\7\0\1\2\3\1abcd" + whole_frame(p), 6081)),
    "Geneve with IP": (101, lambda p: udp(b"\0\0" + write.kind(p) + VXLAN[4:] + p, 6081)),
    "GTP": (101, lambda p: gtp(p, 0x30, b"")),
    "GTP with extension headers": (101, lambda p: gtp(p, 0x34, b"\0\0\0\x85\1\0\0\x40\1\1\1\0")),
    "IP in UDP": (101, lambda p: udp(p, 5555)),
    "L2TP": (101, lambda p: udp(struct.pack(">HHHHHH", 0x4A02, len(p) + 16, 1, 2, 3, 0) + bytes(2) + ppp(p), 1701)),
    "TZSP": (101, lambda p: udp(b"\1\0\0\1\1" + whole_frame(p), 37008)),
    "Cisco metadata and a VLAN": (
        ETHERNET, lambda p: ether(b"\1\1\0\1\0\7\x81\0\0\5" + write.kind(p) + p, b"\x89\x09")
    ),
    "VN-tag": (ETHERNET, lambda p: ether(b"\0\1\0\2" + write.kind(p) + p, b"\x89\x26")),
    "PPPoE, numbers of one byte": (ETHERNET, lambda p: ether(pppoe(p)[:6] + ppp(p)[1:], b"\x88\x64")),
    "Radiotap": (127, lambda p: b"\0\0\x08\0\0\0\0\0" + STATION + llc(p)[14:]),
    "E-tag and a VLAN": (ETHERNET, lambda p: ether(TAG + b"\x81\x00\0\5" + write.kind(p) + p, b"\x89\x3f")),
    "NFLOG": (NFLOG, nflog),
    "PPI": (PPI, lambda p: struct.pack("<BBHI", 0, 0, 8, 1) + whole_frame(p)),
    "LLC and SNAP": (ETHERNET, llc),
    "PPP": (9, lambda p: b"\xff\x03" + ppp(p)),
}  # fmt: skip


def rows_of(data: bytes, dissect: Dissector | None) -> tuple[Rows, Counter[str]]:
    counts: Counter[str] = Counter()
    pairs, heads = Pairs(), Heads()
    parts = [
        decode(one, pairs, heads, counts, dissect) for one in read(CaptureSource(io.BytesIO(data)), counts, buffer=4096)
    ]
    return joined([part for part in parts if part is not None]), counts


@pytest.mark.slow
@pytest.mark.parametrize("name", WRAPS)
def test_a_tunnel_hides_nothing(name: str, tmp_path: Path) -> None:
    link, wrap = WRAPS[name]
    data = write.pcap([(at, wrap(frame)) for at, frame in TALK], nano=True, link=link)
    rows, counts = rows_of(data, Dissector())
    assert same(rows, PLAIN) and counts["tcp"] == len(TALK)
    # Cut in the options, as short captures are, the segments are still there.
    snap = len(wrap(b"E")) + 50
    assert rows_of(write.pcap([(at, wrap(f)) for at, f in TALK], link=link, snap=snap), Dissector())[1]["tcp"]
    path = tmp_path / "tunnel.pcap"
    path.write_bytes(data)
    assert not shutil.which("tshark") or _tsharks(path) == [
        *zip(*(c.tolist() for c in (rows.frame, rows.seq, rows.length)), strict=True)
    ]


def _tsharks(path: Path) -> list[tuple[int, ...]]:
    """(frame, raw sequence number, payload) of every segment that tshark sees."""
    fields = [word for name in ("frame.number", "tcp.seq_raw", "tcp.len") for word in ("-e", name)]
    words = ["tshark", "-n", "-r", str(path), "-Y", "tcp", *TOLD, "-T", "fields", "-E", "occurrence=l", *fields]
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [tuple(map(int, line.split("\t"))) for line in out.splitlines()]


PROVEN = (flight(2 * RTT_S, 0, 10, echo_s=RTT_S + 0.001), acked(2, 2 * RTT_S + 0.002), flight(3 * RTT_S + 0.002, 10, 4))


def half_hidden(folder: Path) -> Path:
    """A connection whose server's data comes in SNAP, which Scapy reads."""
    frames = [
        (at, llc(frame) if frame[12:16] == b"\xc6\x33\x64\x02" else write.ethernet(frame))
        for at, frame in talk(*PROVEN).frames
    ]
    return written(frames, folder, link=1)


def test_with_scapy_for_some_frames_a_connection_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fingerprint", "pcap", "-f", "jsonl", str(half_hidden(tmp_path))]) == DONE
    (one,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert one["observations"]["icw"]["value"] == 10 and one["observations"]["icw"]["grade"] == "C"
    assert "incomplete" not in one


def test_without_scapy_such_frames_are_counted_and_nothing_is_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SYN-ACK in clear, the data in SNAP, and beside it a connection that may lack segments as well."""
    for name in [name for name in sys.modules if name.split(".")[0] == "scapy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "scapy", None)
    data = half_hidden(tmp_path).read_bytes()
    frames = [(at, write.ethernet(frame)) for at, frame in talk(*PROVEN, port=40001).frames]
    path = tmp_path / "both.pcap"
    path.write_bytes(data + write.pcap(frames, nano=True, link=1)[24:])
    assert run(["fingerprint", "pcap", "-f", "jsonl", str(path)]) == PARTIAL
    out, err = capsys.readouterr()
    assert "unread-llc" in err and "configtron[craft]" in err
    for one in map(json.loads, out.splitlines()):
        assert one["incomplete"] is True
        assert {o.get("grade") for knob, o in one["observations"].items() if knob in ("icw", "data_rto")} <= {"N"}


SYN = TALK[0][1]


@pytest.mark.parametrize(("name", "frame"), [
    ("udp", udp(VXLAN + ether(bytes(60), b"\x12\x34"), 4789)),
    ("udp", udp(b"\x48\0" + VXLAN[2:] + bytes(60), 4789)),
    ("udp", udp(b"\0\0\x08\0" + VXLAN[4:] + SYN + bytes(1), 6081)),
    ("udp", gtp(SYN, 0x32, b"")),
    ("udp", udp(SYN[:-1], 53)),
    ("quic", udp(SYN, 443)),
    ("esp", four(bytes(60), 50)),
    ("icmp", udp(VXLAN + whole_frame(four(b"\x0b" + bytes(7) + SYN, 1)), 4789)),
    # An error quotes the packet that it is about; PPP's control packets are none of IP.
    ("icmp", ether(LAST + four(b"\x0b" + bytes(7) + SYN, 1), b"\x88\x47")),
    ("pppoe-control", ether(b"\x11\0\0\1\0\x0a\xc0\x21\x09\1\0\x08abcd", b"\x88\x64")),
])  # fmt: skip
def test_what_is_no_tunnel_is_counted_as_what_it_is(name: str, frame: bytes) -> None:
    link = ETHERNET if frame.startswith(MACS) else 101
    _, counts = rows_of(write.pcap([(0, frame)], link=link), Dissector())
    assert counts[name] == 1 and not counts["tcp"]


@pytest.mark.parametrize(("link", "frame"), [
    (101, udp((VXLAN + MACS + b"\x08\0" + udp(b"", 4789)) * 900, 4789)),
    (ETHERNET, ether(LABEL * 3000, b"\x88\x47")),
    (NFLOG, struct.pack(">BBH", 2, 0, 5) + struct.pack("<HH", 0, 1) * 5000),
    (ETHERNET, ether(b"\x45" * 40, b"\x89\x3f")),
    (9, b"\xff"),
    (101, six(b"\x11\xff" + bytes(60), 60)),
    (101, four(b"\xb0\x87\x88\x0b" + bytes(60), 47)),
])  # fmt: skip
def test_crafted_tunnels_end(link: int, frame: bytes) -> None:
    """Labels without end, attributes of no length, bytes by chance: no exception, no TCP, little time."""
    rows, counts = rows_of(write.pcap([(0, frame)], link=link), Dissector())
    assert rows.size == 0 and counts["frames"] == 1 and sum(counts.values()) > 1


@pytest.mark.slow
def test_scapy_is_imported_for_unknown_frames_only(tmp_path: Path) -> None:
    code = "import sys; from configtron.cli.outermost import run; run(sys.argv[1:]); print('scapy' in sys.modules)"
    path = tmp_path / "plain.pcap"
    path.write_bytes(write.pcap([(at, write.ethernet(frame)) for at, frame in TALK], nano=True, link=1))
    for file, wanted in ((path, "False"), (half_hidden(tmp_path), "True")):
        words = [sys.executable, "-c", code, "-q", "fingerprint", "pcap", "-f", "csv", "-o", "/dev/null", str(file)]
        assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == wanted


def test_any_bytes_in_a_tunnel_are_read_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    """Headers changed and cut by chance: an offset within the frame or none, no exception, nothing printed."""
    chance, dissect = random.Random(7), Dissector()
    for link, wrap in WRAPS.values():
        for _ in range(20):
            frame = bytearray(wrap(chance.choice(TALK)[1]))
            for _ in range(chance.randrange(6)):
                frame[chance.randrange(min(len(frame), 100))] = chance.randrange(256)
            part = bytes(frame[: chance.randrange(1, len(frame) + 1)])
            assert NO_IP <= dissect(link, part) < len(part)
            rows_of(write.pcap([(0, part)], link=link), dissect)
    assert capsys.readouterr() == ("", "")
