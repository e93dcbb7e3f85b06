# SPDX-License-Identifier: MIT
"""A packet that could not be sent: no parameter calls the server silent."""

from __future__ import annotations

import pytest

from configtron.fingerprint import INFERENCES, read
from configtron.model.nouns import SYN, Packet, Segment, Target, Trace

WHY = "send-failed:Network is unreachable"
SYN_SENT = (Packet(0.0, "out", Segment(SYN), 0),)


@pytest.mark.parametrize("packets", [(), SYN_SENT])
@pytest.mark.parametrize("probe", sorted({name for one in INFERENCES.values() for name in one.probes}))
def test_what_was_not_sent_is_no_silence(probe: str, packets: tuple[Packet, ...]) -> None:
    trace = Trace("v/h/p.1", Target("h", "198.18.0.1"), "v", probe, (), 0, packets, ending=WHY)
    silent = {one.knob for one in read(trace) if one.reason in ("no-synack", "no-data")}
    assert not silent


def test_the_reason_is_why_it_was_not_sent() -> None:
    trace = Trace("v/h/icw.1", Target("h", "198.18.0.1"), "v", "icw", (), 0, ending=WHY)
    assert {one.knob: one.reason for one in read(trace)}["icw"] == WHY
