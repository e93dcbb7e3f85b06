# SPDX-License-Identifier: MIT
"""Connections leave no reference cycles, so Python's search for cycles may be rare."""

from __future__ import annotations

import gc
import weakref

import pytest

from configtron.model.nouns import RST, Segment, Target
from configtron.probe.wire.flow import ProbeFlow, beginning
from configtron.probe.wire.frames import Envelope, packed
from configtron.probe.wire.garbage_collection import OBJECTS_BETWEEN_COLLECTIONS, rare_garbage_collection
from tests.probe.wire.test_flow import SYNACK, World, acks_each


def test_a_finished_flow_goes_without_a_search() -> None:
    gc.disable()
    try:
        world = World(acks_each())
        world.hear(SYNACK, 0.05)
        world.hear(Segment(RST), 0.10)
        gone, ending = weakref.ref(world.flow), world.trace().ending
        # The world's own method is in the flow: that cycle is the test's.
        world.flow = None  # type: ignore[assignment]
        assert (ending, gone()) == ("rst", None)
    finally:
        gc.enable()


def test_an_interrupted_flow_goes_without_a_search() -> None:
    gc.disable()
    try:
        about = beginning("v/h/p.1", Target("h", "198.18.0.1"), "v", "p", (), 1)
        ends = Envelope(packed("198.18.0.3"), packed("198.18.0.1"), 4000, 80)
        flow = ProbeFlow(about, acks_each(), lambda packet, address: 1, ends, 0)
        flow.start()
        flow.abort("interrupted")
        gone = weakref.ref(flow)
        del flow
        assert gone() is None
    finally:
        gc.enable()


def test_the_search_is_as_before_afterwards() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyboardInterrupt), rare_garbage_collection():
        assert (gc.get_threshold()[0], gc.get_freeze_count() > 0) == (OBJECTS_BETWEEN_COLLECTIONS, True)
        raise KeyboardInterrupt
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
