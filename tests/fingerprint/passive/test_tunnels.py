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
from configtron.service.capture import CaptureReading
from tests.fingerprint.capture.test_reading import PLAIN, TALK, same
from tests.support import capture_bytes as write
from tests.support.made_capture import RTT_S, acked, flight, talk, written
from tests.support.tunnelled import (
    ETHERNET,
    LABEL,
    LAST,
    MACS,
    NFLOG,
    TOLD,
    VXLAN,
    WRAPS,
    ether,
    four,
    gtp,
    llc,
    six,
    udp,
    whole_frame,
)

pytestmark = pytest.mark.skipif(find_spec("scapy") is None, reason="needs Scapy: pip install 'configtron[craft]'")


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
    assert same(rows, PLAIN, but=("net",)) and counts["tcp"] == len(TALK)
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


@pytest.mark.parametrize(("head", "port", "nets", "refused"), [
    (b"\x08\0\0\0", 4789, (7, 7, 9, 9), 9), (b"\0\0\x65\x58", 6081, (7, 7, 9, 9), 9),
    # the directions of a connection may have numbers of their own (OVN)
    (b"\x08\0\0\0", 8472, (7, 8, 7, 8), 0), (b"\x08\0\0\0", 4789, (7, 8, 7, 9), 5),
    # a network that both directions carry comes before the first
    (b"\x08\0\0\0", 4789, (7, 9, 9, 9), 4),
])  # fmt: skip
def test_a_second_network_is_no_part_of_a_connection(
    head: bytes, port: int, nets: tuple[int, ...], refused: int, tmp_path: Path
) -> None:
    """Two tenants whose connections have the same addresses and ports; `test_native.py` compares both readers."""
    talks = talk(*PROVEN), talk(flight(2 * RTT_S, 0, 4, echo_s=RTT_S), acked(4, 2 * RTT_S + 0.5))
    both = [(at + n, frame, nets[2 * n + (frame[20:22] == b"\0P")]) for n in (0, 1) for at, frame in talks[n].frames]
    frames = [(at, udp(head + bytes((0, 0, net, 0)) + whole_frame(frame), port)) for at, frame, net in both]
    reading = CaptureReading([str(written(frames, tmp_path))])
    (one,) = reading.connections()
    assert reading.counts["second-network"] == refused
    assert refused < 9 or [o.value for o in one.observations if o.knob == "icw"] == [10]


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
