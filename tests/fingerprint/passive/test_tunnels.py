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
from configtron.model.nouns import ACK
from configtron.service.capture import CaptureReading
from tests.fingerprint.capture.test_reading import PLAIN, TALK, same
from tests.support import capture_bytes as write
from tests.support.made_capture import FULL, RTT_S, Conversation, Step, acked, flight, says, talk, written
from tests.support.read_capture import reports
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
    assert same(rows, PLAIN, but=("pair",)) and counts["tcp"] == len(TALK)
    pairs = set(zip(rows.pair.tolist(), PLAIN.pair.tolist(), strict=True))
    assert len(pairs) == len({one for one, _ in pairs}) == len({plain for _, plain in pairs})
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


def word(number: int, shift: int = 8) -> bytes:
    return struct.pack(">I", number << shift)


def tagged(number: int, packet: bytes, kind: bytes = b"\x81\0", more: bytes = b"") -> bytes:
    return ether(word(number)[1:3] + more + write.kind(packet) + packet, kind)


def vxlan(number: int, frame: bytes) -> bytes:
    return udp(VXLAN[:4] + word(number) + frame, 4789)


def gre(number: int, packet: bytes) -> bytes:
    """With a checksum before the key."""
    return four(b"\xa0\0" + write.kind(packet) + bytes(4) + word(number, 0) + packet, 47)


# A packet in a network, by number, and how that is named.
NETWORKS: dict[str, Callable[[int, bytes], bytes]] = {
    "": lambda n, p: tagged(n, p) if n else whole_frame(p),
    "vlan {}": tagged,
    "vlan {}, vlan 5": lambda n, p: tagged(n, p, b"\x88\xa8", b"\x81\0\0\5"),
    "vlan 5, vxlan {}": lambda n, p: tagged(5, vxlan(n, whole_frame(p))),
    "vxlan 42, vlan {}": lambda n, p: whole_frame(vxlan(42, tagged(n, p))),
    "geneve {}": lambda n, p: whole_frame(udp(b"\0\0\x65\x58" + word(n) + whole_frame(p), 6081)),
    "gre {}": lambda n, p: whole_frame(gre(n, p)),
    "gtp-u {}": lambda n, p: whole_frame(udp(b"\x30\xff" + word(len(p), 0)[2:] + word(n, 0) + p, 2152)),
    "mpls-label {}": lambda n, p: ether(word(n << 4 | 1) + p, b"\x88\x47"),
    # Of more names than 64 bits hold, the outermost leave.
    "vxlan 42, gre {}": lambda n, p: tagged(5, vxlan(42, whole_frame(gre(n, p)))),
}


def too_big(conversation: Conversation) -> None:
    """A router's message about a packet of the server."""
    conversation.frames.append((round(1000.3e9), four(b"\3\4\0\0\0\0\5\0" + conversation.frames[1][1][:28], 1)))


def tenants(*steps: Step) -> list[Conversation]:
    """The same ends and steps with other initial numbers; the first has a segment more. Each has an ICMP message."""
    first = talk(*PROVEN, too_big, *steps, says(1, 900, ACK, 1 + 14 * FULL, 101, 7))
    return [first, talk(*PROVEN, too_big, *steps, base=(900_000, 1_000_000))]


@pytest.mark.parametrize("name", NETWORKS)
def test_tenants_with_the_same_ends_are_two_connections(name: str, tmp_path: Path) -> None:
    """`test_native.py` compares both readers."""
    pair = tenants()
    frames = [(at + n, NETWORKS[name](n + bool(name), f)) for n in (0, 1) for at, f in pair[n].frames]
    found = [*CaptureReading([str(written(frames, tmp_path, link=1))]).connections()]
    assert [one.network for one in found] == ([name.format(1), name.format(2)] if name else ["", "vlan 1"])
    assert [one.numbers["packets"] for one in found] == [len(one.frames) - 1 for one in pair]
    assert [one.numbers["frag_needed"] for one in found] == [1, 1]
    assert [o.value for one in found for o in one.observations if o.knob == "icw"] == [10, 10]


# (1: sent by the server, number of the frame) -> networks in which a tenant's frame is captured.
Seen = Callable[[int, int], tuple[int, ...]]


@pytest.mark.slow
@pytest.mark.parametrize("seen", [
    # OVN, GTP: each direction has its own
    (lambda server, n: (1 + server,),), (lambda server, n: (1 + server,), lambda server, n: (3 + server,)),
    # a trunk before and behind a router; a tunnel and what leaves it
    (lambda server, n: (1, 2),), (lambda server, n: (1, 2), lambda server, n: (3,)), (lambda server, n: (1, 0),),
    # a handover of one direction, and of both
    (lambda server, n: (1 + server * (1 + n // 1000),),), (lambda server, n: (1 + n // 1000,), lambda server, n: (9,)),
])  # fmt: skip
def test_the_networks_of_one_connection_are_told_by_its_numbers(seen: tuple[Seen, ...], tmp_path: Path) -> None:
    each = (step for n in range(14, 1214, 2) for step in (flight(n / 10, n, 2), acked(n + 2, n / 10 + 0.01)))
    pair = tenants(*each)[: len(seen)]
    frames = [
        (at + n + 1000 * net, NETWORKS[""](net, frame))
        for n, of in enumerate(seen)
        for k, (at, frame) in enumerate(pair[n].frames)
        # the router that answers is in another network
        for net in ((7,) if frame[9] == 1 else of(frame[20:22] == b"\0P", k))
    ]
    path, packets = written(frames, tmp_path, link=1), [len(one.frames) - 1 for one in pair]
    for most in (None, 1100 * len(seen)):
        found, gathering = reports(path, most=most, buffer=1 << 16)
        assert [one.numbers["packets"] for one in found] == packets
        copies, told = (sum(int(one.numbers[name] or 0) for one in found) for name in ("copies", "frag_needed"))
        assert told == len(seen) and copies == len(frames) - sum(packets) - told
        assert {o.value for one in found for o in one.observations if o.knob == "icw"} == {10}
        assert not gathering.counts["told-early"] and not gathering.open
        assert most is None or len(gathering.pairs.ends) == len(seen), "what was joined stays"


def test_a_syn_and_its_answer_may_have_a_network_each(tmp_path: Path) -> None:
    frames = [(at, tagged(n + 1, frame)) for n, (at, frame) in enumerate(talk(*PROVEN).frames[:2])]
    (one,), _ = reports(written(frames, tmp_path, link=1))
    assert (one.numbers["syns"], one.numbers["synacks"], one.network) == (1, 1, "vlan 1")


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
