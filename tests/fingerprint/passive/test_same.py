# SPDX-License-Identifier: MIT
"""A probe's conversation read as a foreign capture gives the probe's verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from configtron.fingerprint import read
from configtron.fingerprint.passive.traces import packets_of
from configtron.model.nouns import ACK, Target, Trace
from configtron.probe import PROBES
from configtron.probe.play import play
from configtron.probe.wire.frames import Envelope, build, packed
from tests.support import capture_bytes as write
from tests.support.fake_server import FakeServer
from tests.support.read_capture import reports, whole

TARGET = Target("x.example", "198.51.100.2", 80)
ENDS = packed("192.0.2.1"), packed("198.51.100.2")
BASE = {"out": 4_294_967_290, "in": 12_345}
# What a capture may show beyond, because no request is needed.
MORE = {"http_clear"}


def captured(trace: Trace, path: Path) -> None:
    """The conversation as a capture file."""
    frames = []
    for packet in trace.packets:
        way, other = packet.way, "in" if packet.way == "out" else "out"
        segment = packet.segment._replace(payload=packet.segment.payload.ljust(packet.segment.length, b"\0"))
        seq = (segment.seq + BASE[way]) & 0xFFFFFFFF
        ack = (segment.ack + BASE[other]) & 0xFFFFFFFF if segment.flags & ACK else 0
        ends = (*ENDS, 4000, 80) if way == "out" else (*ENDS[::-1], 80, 4000)
        envelope = Envelope(*ends, packet.ttl, packet.tos, packet.ident, packet.df)
        frames.append((write.START_NS + round(packet.at * 1e9), build(envelope, segment, seq, ack)))
    path.write_bytes(write.pcap(frames, nano=True))


SERVERS: dict[str, dict[str, Any]] = {
    "usual": {}, "window of 3": {"icw": 3}, "window of 40": {"icw": 40}, "short page": {"page": 900},
    "slow path": {"rtt_s": 0.3}, "short timer": {"synack_rto_s": 0.3, "rto_min_s": 0.1}, "with SACK": {"sack": True},
    "a lost segment": {"drop": frozenset({4})}, "the first segment lost": {"drop": frozenset({0})},
    "silent": {"silent": True}, "refuses": {"refuse": True}, "thinks": {"think_after": 3000, "think_s": 0.4},
}  # fmt: skip
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("icw", {"mss": 64}), ("icw", {"mss": 536, "sack": True}), ("icw", {"mss": 1460, "wscale": 7}), ("rto", {}),
    ("rwin", {}), ("signature", {}),
]  # fmt: skip


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(("probe", "params"), ASKED, ids=[f"{name}-{params}" for name, params in ASKED])
def test_a_capture_says_what_the_probe_stated(probe: str, params: dict[str, Any], server: str, tmp_path: Path) -> None:
    script: Any = PROBES[probe].script(TARGET, "test", **params)
    packets, ending = play(script, FakeServer(**SERVERS[server]))
    trace = Trace("t", TARGET, "v", probe, tuple(sorted(params.items())), 0, packets, ending=ending)
    path = tmp_path / "c.pcap"
    captured(trace, path)
    (one,), _ = reports(path)
    mine = {o.knob: o for o in one.observations}
    for live in read(trace):
        if live.value is None or live.knob in MORE:
            continue
        found = mine.get(live.knob)
        assert found is not None, live
        assert (found.value, found.grade) == (live.value, live.grade), live.knob
        # Of fewer than three segments it is unknown whether they were left without ACK on purpose.
        assert found.method.startswith("first flight") or found.details == live.details, live.knob
    # And never more than the probe dared to say.
    window = mine.get("icw")
    if probe == "icw" and window is not None and window.grade == "C":
        assert any(o.knob == "icw" and o.grade == "C" and o.value == window.value for o in read(trace))


def test_either_end_may_be_taken_for_us(tmp_path: Path) -> None:
    """From the other end, what was heard was sent; numbers and times are the same."""
    path = tmp_path / "c.pcap"
    path.write_bytes(write.pcap(write.conversation(), nano=True))
    batch, _ = whole(path)
    ours, theirs = (packets_of(batch, 0, observer=end) for end in ("client", "server"))
    assert [p.way for p in ours] == ["in" if p.way == "out" else "out" for p in theirs]
    assert [(p.at, p.segment) for p in ours] == [(p.at, p.segment) for p in theirs]
    first = ours[0].segment
    assert (first.seq, first.mss, first.wscale) == (0, 1460, 7) and first.timestamps is not None
    assert ours[3].segment.payload.startswith(b"GET /")
