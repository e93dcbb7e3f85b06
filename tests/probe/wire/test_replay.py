# SPDX-License-Identifier: MIT
"""A recording that is not what the script makes: whatever part is unlike, it diverges. Recordings of fixtures/."""

from __future__ import annotations

from dataclasses import replace

import pytest

from configtron.model.errors import Diverged
from configtron.model.nouns import Message, Trace
from configtron.probe.wire.evidence_reader import read_located
from configtron.probe.wire.replay import replayed
from tests.support import ROOT


def kept(name: str, probe: str) -> Trace:
    """The first recording of that probe which went as it should."""
    for trace, _ in read_located(ROOT / "fixtures" / name / "trace.pcapng.gz"):
        if trace.probe == probe and (trace.session is None or not trace.session.error):
            return trace
    raise AssertionError(probe)


@pytest.fixture(params=[("icw/10", "icw"), ("h2_settings/node-all", "h2_settings")], ids=["script", "carried"])
def trace(request: pytest.FixtureRequest) -> Trace:
    name, probe = request.param
    found = kept(name, probe)
    assert replayed(found) == found
    return found


def test_another_ending(trace: Trace) -> None:
    with pytest.raises(Diverged, match="ending"):
        replayed(replace(trace, ending=f"{trace.ending}, or not"))


def test_a_packet_more(trace: Trace) -> None:
    last = trace.packets[-1]
    with pytest.raises(Diverged, match="the script:    is over"):
        replayed(replace(trace, packets=(*trace.packets, last._replace(at=last.at + 60))))


def test_a_packet_less(trace: Trace) -> None:
    with pytest.raises(Diverged):
        replayed(replace(trace, packets=trace.packets[:-1]))


def test_a_message_more() -> None:
    """Unread bytes of it would be kept for ever, and be read by the inferences."""
    trace = kept("h2_settings/node-all", "h2_settings")
    for data in (b"sent by no host", b""):
        more = Message(trace.packets[-1].at + 1, "in", data)
        with pytest.raises(Diverged, match="messages"):
            replayed(replace(trace, messages=(*trace.messages, more)))


def test_another_envelope(trace: Trace) -> None:
    """The type of service that we send is part of what is asked (ECN)."""
    first = trace.packets[0]
    assert first.way == "out"
    with pytest.raises(Diverged, match="at packet 0"):
        replayed(replace(trace, packets=(first._replace(tos=first.tos ^ 2), *trace.packets[1:])))
