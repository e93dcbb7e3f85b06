# SPDX-License-Identifier: MIT
"""One flow without sockets: what it says is taken, and words are put into the server's mouth."""

from __future__ import annotations

from configtron.model.nouns import ACK, RST, SYN, Segment, Target, Trace
from configtron.probe.script import Script, Send, Wait, reset, syn_options
from configtron.probe.wire.flow import ProbeFlow, beginning
from configtron.probe.wire.frames import Envelope, build, dissect, packed

START_NS = 1_700_000_000_000_000_000
OURS, THEIRS, THEIR_ISN = packed("198.18.0.3"), packed("198.18.0.1"), 0xFFFFFF00
SYNACK = Segment(SYN | ACK, 0, 1, 64240, syn_options())


class World:
    def __init__(self, script: Script) -> None:
        self.now_ns = START_NS
        self.sent: list[bytes] = []
        about = beginning("v/h/p.1", Target("h", "198.18.0.1"), "v", "p", (("b", 1), ("a", (1, "x"))), START_NS)
        self.flow = ProbeFlow(about, script, self._send_packet, Envelope(OURS, THEIRS, 4000, 80), 0x80000000)
        self.flow.start()

    def _send_packet(self, packet: bytes, address: str) -> int:
        self.sent.append(packet)
        return self.now_ns

    def hear(self, segment: Segment, at_s: float, gso_size: int = 0) -> None:
        self.now_ns = START_NS + int(at_s * 1e9)
        seq, ack = (segment.seq + THEIR_ISN) & 0xFFFFFFFF, (segment.ack + 0x80000000) & 0xFFFFFFFF
        data = build(Envelope(THEIRS, OURS, 80, 4000), segment, seq, ack if segment.flags & ACK else 0)
        found = dissect(data)
        assert found is not None
        self.flow.arrive(self.now_ns, found, data, gso_size)

    def trace(self) -> Trace:
        return self.flow.recording().trace


def data(seq: int, length: int) -> Segment:
    return Segment(ACK, seq, 1, 1000, (), b"d" * length, length)


def acks_each(until: float = 2.0) -> Script:
    """SYN, then an ACK for every segment heard."""
    yield Send(Segment(SYN, options=syn_options()))
    while (packet := (yield Wait(until))) is not None:
        if packet.segment.flags & RST:
            return "rst"
        yield Send(Segment(ACK, 1, packet.segment.end))
    yield Send(reset(1))
    return "done"
