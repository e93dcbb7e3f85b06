# SPDX-License-Identifier: MIT
"""Any packet list gives observations, never an exception; every observation has a value or a reason."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.fingerprint import INFERENCES, read
from configtron.fingerprint.h2_settings import read_frames, settings_of
from configtron.fingerprint.merge import merge_all
from configtron.fingerprint.next_trials import next_trials
from configtron.model.nouns import GRADES, SYN, Message, Packet, Segment, Session, Target, Trace

options = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=10)), max_size=6).map(tuple)
numbers, octets = st.integers(0, 5000), st.integers(0, 255)
ways = st.sampled_from(["in", "out"])
segments = st.builds(
    Segment, flags=octets, seq=numbers, ack=numbers, window=st.integers(0, 65535), options=options,
    payload=st.binary(max_size=40), length=st.integers(0, 1500),
)  # fmt: skip
packets = st.builds(
    Packet, at=st.floats(0, 100), way=ways, segment=segments, frame=st.integers(0, 50), version=st.sampled_from([4, 6]),
    ttl=octets, tos=octets, ident=st.integers(0, 65535), df=st.booleans(),
)  # fmt: skip
messages = st.builds(Message, at=st.floats(0, 100), way=ways, data=st.binary(max_size=100))
sessions = st.none() | st.builds(
    Session, st.just("TLSv1.3"), alpn=st.sampled_from(["", "h2", "http/1.1"]), error=st.sampled_from(["", "tls-alert"])
)
PROBES = "icw rto rwin signature ecn tfo delayed_ack idle http_version h2_settings tls_versions unheard-of".split()
traces = st.builds(
    Trace, id=st.just("t"), target=st.just(Target("x.example", "192.0.2.1")), vantage=st.just("here"),
    probe=st.sampled_from(PROBES),
    params=st.sampled_from([(), (("sack", True),), *((("way", way),) for way in ("clear", "h2c", "tls"))]),
    packets=st.lists(packets, max_size=25).map(tuple), messages=st.lists(messages, max_size=4).map(tuple),
    session=sessions, tainted=st.sampled_from([(), ("drops",)]),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(traces)
def test_any_trace_is_read(trace: Trace) -> None:
    found = read(trace)
    for observation in found:
        assert (observation.value is None) != (observation.reason is None)
        assert observation.grade in GRADES
        frames = {p.frame for p in trace.packets}
        assert set(observation.evidence) <= frames
    for verdict in merge_all(found).values():
        assert verdict.grade in GRADES
    assert set(next_trials(found)) <= {trace.id}


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_frames_or_not(data: bytes) -> None:
    frames = read_frames(data)
    assert sum(9 + len(body) for _, _, _, body in frames) <= len(data)
    settings_of(data)


@pytest.mark.parametrize("packets", [(), (Packet(0.0, "out", Segment(SYN), 0),)])
@pytest.mark.parametrize("probe", sorted({name for one in INFERENCES.values() for name in one.probes}))
def test_what_could_not_be_sent_is_no_silence(probe: str, packets: tuple[Packet, ...]) -> None:
    why = "send-failed:Network is unreachable"
    found = read(Trace("v/h/p.1", Target("h", "198.18.0.1"), "v", probe, (), 0, packets, ending=why))
    assert not {one.knob for one in found if one.reason in ("no-synack", "no-data")}
    assert packets or probe != "icw" or {one.knob: one.reason for one in found}["icw"] == why
