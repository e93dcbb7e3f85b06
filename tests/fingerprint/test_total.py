# SPDX-License-Identifier: MIT
"""Any packet list gives observations, never an exception; every observation has a value or a reason."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.fingerprint import read
from configtron.fingerprint.h2_settings import read_frames, settings_of
from configtron.fingerprint.merge import merge_all
from configtron.fingerprint.next_trials import next_trials
from configtron.model.nouns import GRADES, Message, Packet, Segment, Session, Target, Trace

options = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=10)), max_size=6).map(tuple)
segments = st.builds(
    Segment,
    flags=st.integers(0, 255),
    seq=st.integers(0, 5000),
    ack=st.integers(0, 5000),
    window=st.integers(0, 65535),
    options=options,
    payload=st.binary(max_size=40),
    length=st.integers(0, 1500),
)
packets = st.builds(
    Packet,
    at=st.floats(0, 100),
    way=st.sampled_from(["in", "out"]),
    segment=segments,
    frame=st.integers(0, 50),
    version=st.sampled_from([4, 6]),
    ttl=st.integers(0, 255),
    tos=st.integers(0, 255),
    ident=st.integers(0, 65535),
    df=st.booleans(),
)
messages = st.builds(Message, at=st.floats(0, 100), way=st.sampled_from(["in", "out"]), data=st.binary(max_size=100))
sessions = st.none() | st.builds(
    Session,
    version=st.just("TLSv1.3"),
    alpn=st.sampled_from(["", "h2", "http/1.1"]),
    error=st.sampled_from(["", "tls-alert"]),
)
traces = st.builds(
    Trace,
    id=st.just("t"),
    target=st.just(Target("x.example", "192.0.2.1")),
    vantage=st.just("here"),
    probe=st.sampled_from(
        "icw rto rwin signature ecn tfo delayed_ack idle http_version h2_settings tls_versions unheard-of".split()
    ),
    params=st.sampled_from([(), (("sack", True),), (("way", "clear"),), (("way", "h2c"),), (("way", "tls"),)]),
    packets=st.lists(packets, max_size=25).map(tuple),
    messages=st.lists(messages, max_size=4).map(tuple),
    session=sessions,
    tainted=st.sampled_from([(), ("drops",)]),
)


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
