# SPDX-License-Identifier: MIT
"""One flow without sockets: what the script sees, what is recorded, and that the two agree."""

from __future__ import annotations

import errno

from configtron.model.nouns import ACK, RST, SYN, Packet, Segment, Target, Trace
from configtron.probe.play import Recorded, play
from configtron.probe.script import Script, Send, Wait, reset, syn_options
from configtron.probe.wire.flow import ProbeFlow, beginning
from configtron.probe.wire.frames import Envelope, build, dissect, packed

START_NS = 1_700_000_000_000_000_000
OURS, THEIRS, THEIR_ISN = packed("198.18.0.3"), packed("198.18.0.1"), 0xFFFFFF00


class World:
    """Takes what a flow says, and puts words into the server's mouth."""

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


SYNACK = Segment(SYN | ACK, 0, 1, 64240, syn_options())


def acks_each(until: float = 2.0) -> Script:
    """SYN, then an ACK for every segment heard."""
    yield Send(Segment(SYN, options=syn_options()))
    while (packet := (yield Wait(until))) is not None:
        if packet.segment.flags & RST:
            return "rst"
        yield Send(Segment(ACK, 1, packet.segment.end))
    yield Send(reset(1))
    return "done"


def test_numbers_are_relative_both_ways() -> None:
    world = World(acks_each())
    world.hear(SYNACK, 0.1)
    world.hear(data(1, 300), 0.2)
    segments = [p.segment for p in world.trace().packets]
    assert [(s.flags, s.seq, s.ack, s.length) for s in segments] == [
        (SYN, 0, 0, 0),
        (SYN | ACK, 0, 1, 0),
        (ACK, 1, 1, 0),
        (ACK, 1, 1, 300),
        (ACK, 1, 301, 0),
    ]
    last = dissect(world.sent[-1])
    assert last is not None and (last.seq, last.ack) == (0x80000001, (THEIR_ISN + 301) & 0xFFFFFFFF)
    assert world.trace().params == (("a", (1, "x")), ("b", 1))


def test_an_answer_between_merged_segments_keeps_its_place() -> None:
    world = World(acks_each())
    world.hear(SYNACK, 0.1)
    world.hear(data(1, 250), 0.2, gso_size=100)
    frames = [p.frame for p in world.trace().packets]
    assert frames == [0, 1, 2, 3, 4, 3, 5, 3, 6]


def test_a_packet_that_lapsed_is_put_after_its_deadline() -> None:
    def patient() -> Script:
        yield Send(Segment(SYN))
        assert (yield Wait(0.5)) is None
        heard = yield Wait(2.0)
        assert isinstance(heard, Packet)
        return "done"

    world = World(patient())
    world.flow.lapse()
    world.hear(SYNACK, 0.4)
    trace = world.trace()
    assert trace.tainted == ("late",) and trace.packets[-1].at > 0.5
    assert play(patient(), Recorded(trace.packets)) == (trace.packets, "done")


def test_a_recording_replays() -> None:
    world = World(acks_each())
    world.hear(SYNACK, 0.1)
    world.hear(data(1, 250), 0.2, gso_size=100)
    world.flow.lapse()
    trace = world.trace()
    assert trace.ending == "done" and trace.packets[-1].segment.flags == RST
    assert play(acks_each(), Recorded(trace.packets)) == (trace.packets, "done")


def test_a_send_that_fails_ends_the_trace_with_a_reason() -> None:
    def send_packet(packet: bytes, address: str) -> int:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    about = beginning("i", Target("h", "198.18.0.1"), "v", "p", (), START_NS)
    flow = ProbeFlow(about, acks_each(), send_packet, Envelope(OURS, THEIRS, 4000, 80), 0)
    flow.start()
    assert flow.recording().trace.ending == "send-failed:Network is unreachable"
    assert flow.recording().frames == ()


def test_aborting_says_farewell_where_the_server_listens() -> None:
    world = World(acks_each())
    world.hear(SYNACK, 0.1)
    world.flow.abort("interrupted")
    last = dissect(world.sent[-1])
    assert last is not None and (last.flags, last.seq) == (RST, 0x80000001)
    assert world.trace().ending == "interrupted"
