# SPDX-License-Identifier: MIT
"""Evidence: rebuilt exactly, continued after a crash at any byte, read by tshark."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.model.errors import BadInput
from configtron.model.nouns import ACK, FIN, SYN, Message, Segment, Session, Target, Trace
from configtron.probe.script import Script, Send, Wait, get, syn_options
from configtron.probe.wire.flow import Frame, Recording
from configtron.probe.wire.frames import Envelope, build, dissect, packed
from configtron.probe.wire.pcap import OPENING, EvidenceWriter, TraceLocation, encode, read_evidence
from tests.support.flow_world import START_NS, SYNACK, World, acks_each, data

SETTINGS = bytes.fromhex("000012040000000000000300000080000400010000000500ffffff")
SESSION = Session("TLSv1.3", "h2", b"\x30\x00certificate", "", "CLIENT_RANDOM 00 11\nEXPORTER_SECRET 22 33\n")
MESSAGES = (
    Message(0.25, "out", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    Message(0.3, "in", SETTINGS),
    Message(0.4, "in", b""),
)


def recording(gso_size: int = 100) -> Recording:
    world = World(acks_each())
    world.hear(SYNACK, 0.1)
    world.hear(data(1, 250), 0.2, gso_size)
    world.hear(data(251, 1400), 0.25)
    world.flow.lapse()
    return world.flow.recording()


def stream_recording() -> Recording:
    trace, frames = recording()
    target = Target("höst.test", "198.18.0.1", 443, "/x", "provider", "tag")
    return Recording(
        Trace(trace.id, target, "v", "h2", (), START_NS, trace.packets, MESSAGES, SESSION, 'odd "ending"', ("late",)),
        frames,
    )


def written(path: Path, *recordings: Recording, resume_at: int | None = None) -> list[TraceLocation]:
    writer = EvidenceWriter(path, resume_at=resume_at)
    places = [writer.append(one) for one in recordings]
    writer.close()
    return places


def test_traces_are_rebuilt(tmp_path: Path) -> None:
    path, recordings = tmp_path / "v.pcapng", [recording(), stream_recording(), recording(0)]
    writer = EvidenceWriter(path)
    places = [writer.append(r) for r in recordings]
    writer.flush()
    assert list(read_evidence(path)) == [r.trace for r in recordings]
    for place, stated in zip(places, recordings, strict=True):
        assert list(read_evidence(path, offset=place.offset, end=place.end)) == [stated.trace]
    assert [p.first_frame for p in places] == [1, 1 + places[0].frames, 1 + places[0].frames + places[1].frames + 3]
    assert [(p.file, p.frames) for p in places] == [("v.pcapng", len(r.frames)) for r in recordings]


def fickle(hears: int) -> Script:
    """Answers some packets, ends in the midst of things."""
    yield Send(Segment(SYN, options=syn_options(wscale=7)))
    for _ in range(hears):
        packet = yield Wait(50.0)
        if packet is None:
            return "silence"
        if packet.segment.length % 3:
            yield Send(Segment(ACK, 1, packet.segment.end))
    return "enough"


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 4000), st.sampled_from((0, 1, 64, 536, 1460)), st.booleans()), max_size=5),
    st.lists(st.tuples(st.floats(0, 9), st.sampled_from(("in", "out")), st.binary(max_size=50)), max_size=4),
    st.integers(0, 8),
)
def test_any_conversation_is_rebuilt(
    heard: list[tuple[int, int, bool]], messages: list[tuple[float, str, bytes]], hears: int
) -> None:
    world = World(fickle(hears))
    seq = 1
    words = [(SYNACK, 0)] + [(data(0, length)._replace(flags=ACK | FIN if fin else ACK), n) for length, n, fin in heard]
    for number, (segment, gso_size) in enumerate(words):
        if world.flow.player.ending is None:
            world.hear(segment if number == 0 else segment._replace(seq=seq), 0.1 + number / 7, gso_size)
            seq += segment.length
    trace, frames = world.flow.recording()
    stated = tuple(Message(round(at * 1e9) / 1e9, way, text) for at, way, text in messages)
    full = Recording(replace(trace, messages=stated), frames)
    encoded = encode(full)[0]
    with TemporaryDirectory() as folder:
        path = Path(folder, "v.pcapng")
        path.write_bytes(OPENING + encoded)
        assert list(read_evidence(path)) == [full.trace]


@pytest.mark.slow
def test_a_cut_file_continues_after_its_last_whole_trace(tmp_path: Path) -> None:
    path = tmp_path / "v.pcapng"
    one, two = recording(), stream_recording()
    whole = OPENING + encode(one)[0] + encode(two)[0]
    for cut in range(0, len(whole) + 1, 7):
        path.write_bytes(whole[:cut])
        (place,) = written(path, one)
        kept = [t for t, end in ((one, len(OPENING + encode(one)[0])), (two, len(whole))) if end <= cut]
        assert [t.trace for t in (*kept, one)] == list(read_evidence(path)), cut
        counted = sum(encode(r)[1] for r in kept)
        assert place.first_frame == counted + 1, cut


def test_resuming_forgets_what_was_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "v.pcapng"
    first, _ = written(path, recording(), stream_recording())
    assert written(path, stream_recording(), resume_at=first.end)[0].offset == first.end
    assert [t.probe for t in read_evidence(path)] == ["p", "h2"]


def test_a_trace_without_frames_leaves_nothing(tmp_path: Path) -> None:
    (place,) = written(tmp_path / "v.pcapng", Recording(Trace("i", Target("h"), "v", "p", ending="send-failed:x"), ()))
    assert place.frames == 0 and place.offset == place.end


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xd4\xc3\xb2\xa1" + bytes(200))
    with pytest.raises(BadInput, match="not evidence"):
        list(read_evidence(tmp_path / "x"))


def tshark(path: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["tshark", "-r", str(path), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark: apt-get install tshark")
def test_tshark_sees_what_we_wrote(tmp_path: Path) -> None:
    path = tmp_path / "v.pcapng"
    _, place = written(path, recording(), stream_recording())
    fields = ("frame.number", "frame.interface_name", "frame.len", "frame.cap_len", "tcp.seq_raw", "http2.settings.id")
    lines = tshark(path, "-T", "fields", "-E", "separator=/t", *(w for f in fields for w in ("-e", f)))
    rows = [line.split("\t") for line in lines]
    assert [int(row[0]) for row in rows] == list(range(1, len(rows) + 1))
    mine = rows[place.first_frame - 1 : place.first_frame - 1 + place.frames]
    assert len(mine) == len(stream_recording().frames)
    for row, frame in zip(mine, stream_recording().frames, strict=True):
        found = dissect(frame.data, frame.length)
        assert found is not None
        assert row[1:5] == ["wire", str(frame.length), str(len(frame.data)), str(found.seq)]
    after = rows[place.first_frame - 1 + place.frames :]
    assert [(row[1], row[5]) for row in after] == [("plaintext", ""), ("plaintext", "3,4,5"), ("plaintext", "")]
    comments = tshark(path, "-T", "fields", "-e", "frame.comment", "-Y", f"frame.number == {place.first_frame}")
    assert json.loads(comments[0])["ending"] == 'odd "ending"'
    times = tshark(path, "-T", "fields", "-e", "frame.time_epoch", "-Y", "frame.number == 2")
    assert times == ["1700000000.100000000"]
    assert tshark(path, "-Y", "_ws.malformed") == []


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark: apt-get install tshark")
def test_tshark_finds_our_checksums_right(tmp_path: Path) -> None:
    path = tmp_path / "v.pcapng"
    frames = []
    for source, destination in (("198.18.0.3", "198.18.0.1"), ("fd00::3", "fd00::1")):
        ends = Envelope(packed(source), packed(destination), 4000, 80, ident=7)
        ask = get("h", "/", "a")
        packet = build(ends, Segment(ACK, 1, 1, 99, syn_options(wscale=3), ask, len(ask)), 5, 6)
        frames.append(Frame(START_NS, "out", packet, len(packet)))
    written(path, Recording(Trace("i", Target("h"), "v", "p", (), START_NS), tuple(frames)))
    check = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")
    fields = ("-e", "tcp.checksum.status", "-e", "ip.checksum.status", "-e", "http.host")
    assert tshark(path, *check, "-T", "fields", *fields) == ["1\t1\th", "1\t\th"]
