# SPDX-License-Identifier: MIT
"""One flow without sockets: what the script sees, what is recorded, that the two agree; and that it leaves no cycles of
references, so Python's search for cycles may be rare."""

from __future__ import annotations

import errno
import gc
import weakref
from collections.abc import Callable, Iterator

import pytest

from configtron.model.nouns import RST, SYN, Packet, Segment, Target
from configtron.probe.play import Recorded, play
from configtron.probe.script import Script, Send, Wait
from configtron.probe.wire.flow import ProbeFlow, beginning
from configtron.probe.wire.frames import Envelope, dissect
from configtron.probe.wire.garbage_collection import OBJECTS_BETWEEN_COLLECTIONS, rare_garbage_collection
from tests.support.flow_world import OURS, START_NS, SYNACK, THEIRS, World, acks_each, data


def flow_by(send_packet: Callable[[bytes, str], int]) -> ProbeFlow:
    about = beginning("i", Target("h", "198.18.0.1"), "v", "p", (), START_NS)
    flow = ProbeFlow(about, acks_each(), send_packet, Envelope(OURS, THEIRS, 4000, 80), 0)
    flow.start()
    return flow


def test_an_answer_between_merged_segments_keeps_its_place_and_replays() -> None:
    world = World(acks_each())
    world.hear(SYNACK, 0.1)
    world.hear(data(1, 250), 0.2, gso_size=100)
    assert [p.frame for p in world.trace().packets] == [0, 1, 2, 3, 4, 3, 5, 3, 6]
    world.flow.lapse()
    trace = world.trace()
    assert trace.ending == "done" and trace.packets[-1].segment.flags == RST
    assert play(acks_each(), Recorded(trace.packets)) == (trace.packets, "done")


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


def test_a_send_that_fails_ends_the_trace_with_a_reason() -> None:
    def send_packet(packet: bytes, address: str) -> int:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    recording = flow_by(send_packet).recording()
    assert (recording.trace.ending, recording.frames) == ("send-failed:Network is unreachable", ())


def test_aborting_says_farewell_where_the_server_listens() -> None:
    world = World(acks_each())
    world.hear(SYNACK, 0.1)
    world.flow.abort("interrupted")
    last = dissect(world.sent[-1])
    assert last is not None and (last.flags, last.seq) == (RST, 0x80000001)
    assert world.trace().ending == "interrupted"
    idents = [found.ident for found in map(dissect, world.sent) if found is not None]
    assert idents == [1, 2, 3], "never 0, for which the kernel would put in its own"


@pytest.fixture
def no_search() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_search")
def test_a_flow_that_is_over_goes_without_a_search() -> None:
    world = World(acks_each())
    world.hear(SYNACK, 0.05)
    world.hear(Segment(RST), 0.10)
    gone, ending = weakref.ref(world.flow), world.trace().ending
    # The world's own method is in the flow: that cycle is the test's.
    world.flow = None  # type: ignore[assignment]
    assert (ending, gone()) == ("rst", None)

    interrupted = flow_by(lambda packet, address: 1)
    interrupted.abort("interrupted")
    gone = weakref.ref(interrupted)
    del interrupted
    assert gone() is None


def test_the_search_is_as_before_afterwards() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyboardInterrupt), rare_garbage_collection():
        assert (gc.get_threshold()[0], gc.get_freeze_count() > 0) == (OBJECTS_BETWEEN_COLLECTIONS, True)
        raise KeyboardInterrupt
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
