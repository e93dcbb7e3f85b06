# SPDX-License-Identifier: MIT
"""A tiny campaign with packets: three regions, five sites, whatever a test wants a server to have sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from configtron.model import nouns
from configtron.model.records import Result
from configtron.probe.script import syn_options
from configtron.probe.wire.flow import Frame, Recording
from configtron.probe.wire.frames import Envelope, build, packed
from configtron.probe.wire.pcap import EvidenceWriter

VANTAGES = (nouns.Vantage("na", "North America"), nouns.Vantage("eu", "Europe"), nouns.Vantage("as", "Asia"))
START_NS = 1_700_000_000_000_000_000
# Windows by site and region; None is no value. a differs in Europe and Asia, b nowhere, c in Asia; d is unknown in the
# baseline, e stands apart.
WINDOWS: dict[str, dict[str, int | None]] = {
    "a.example": {"na": 10, "eu": 4, "as": 4}, "b.example": {"na": 10, "eu": 10, "as": 10},
    "c.example": {"na": 24, "eu": 24, "as": 10}, "d.example": {"na": None, "eu": 10, "as": 10},
    "e.example": {"na": 10, "eu": 30, "as": 10},
}  # fmt: skip
RUN_BY_ONE, MIXED = ("a.example", "b.example"), "e.example"


def segments(window: int) -> list[tuple[float, str, nouns.Segment]]:
    """A handshake, a request, a flight of so many segments, its first segment again, our reset."""
    synack = nouns.Segment(nouns.SYN | nouns.ACK, 0, 1, 64240, syn_options())
    sent: list[tuple[float, str, nouns.Segment]] = [
        (0.0, "out", nouns.Segment(nouns.SYN, options=syn_options())),
        (0.02, "in", synack),
        (0.02, "out", nouns.Segment(nouns.ACK | nouns.PSH, 1, 1, 65535, (), b"GET /", 5)),
    ]
    sent += [(0.04, "in", nouns.Segment(nouns.ACK, 1 + 100 * n, 6, 500, (), b"d" * 100, 100)) for n in range(window)]
    return [
        *sent,
        (1.04, "in", nouns.Segment(nouns.ACK, 1, 6, 500, (), b"d" * 100, 100)),
        (1.05, "out", nouns.Segment(nouns.RST, 6)),
    ]


def recording(
    trace_id: str, site: str, vantage: str, window: int, messages: tuple[nouns.Message, ...] = ()
) -> Recording:
    """The frames of that conversation, and the trace they stand for."""
    ours, theirs = packed("198.18.0.3"), packed("198.18.0.1")
    frames = []
    for at, way, segment in segments(window):
        mine, other = (ours, theirs) if way == "out" else (theirs, ours)
        ports = (4000, 443) if way == "out" else (443, 4000)
        data = build(Envelope(mine, other, *ports), segment, segment.seq, segment.ack)
        frames.append(Frame(START_NS + round(at * 1e9), way, data, len(data), 0))
    session = nouns.Session("TLSv1.3", "h2") if messages else None
    packets = tuple(nouns.Packet(at, way, segment, n) for n, (at, way, segment) in enumerate(segments(window)))
    about = nouns.Trace(
        trace_id, nouns.Target(site, "198.18.0.1"), vantage, "icw", (), START_NS, packets, messages, session
    )
    return Recording(about, tuple(frames))


def results(folder: Path, server: str = "nginx", organisation: str = "One CDN") -> list[Result]:
    """What such a run keeps; its packets are written into the folder."""
    kept = []
    for vantage in VANTAGES:
        writer = EvidenceWriter(folder / f"{vantage.name}.pcapng")
        for site, windows in WINDOWS.items():
            for trial in (1, 2):
                kept.append(_result(writer, site, vantage.name, windows[vantage.name], trial, server, organisation))
        writer.close()
    return sorted(kept, key=lambda result: (result.site, result.vantage, result.trace_id))


def _result(
    writer: EvidenceWriter, site: str, vantage: str, window: int | None, trial: int, server: str, organisation: str
) -> Result:
    trace_id = f"{vantage}/{site}/icw.{trial}"
    frames = tuple(range(3, 3 + (window or 0)))
    icw = seen("icw", window, trace_id, "segments", frames) if window else nouns.Observation("icw", reason="too-short")
    timer = seen("synack_rto", 1.03, trace_id, "s", (1,), (("rtt", 0.02),))
    head = seen("http_clear", "http/1.1", trace_id, details=(("server", server),))
    balance = seen("load_balancing", "mixed" if site == MIXED else "one", trace_id)
    place = writer.append(recording(trace_id, site, vantage, window or 1))
    target = nouns.Target(site, "198.18.0.1", 80, "/", organisation if site in RUN_BY_ONE else "")
    return Result(trace_id, vantage, target, "icw", (), START_NS, "done", (), place.file, place.offset, place.end,
                  place.first_frame, place.frames, (icw, timer, head, balance))  # fmt: skip


def seen(
    knob: str,
    value: nouns.Value,
    trace_id: str,
    unit: str = "",
    frames: tuple[int, ...] = (),
    details: tuple[tuple[str, nouns.Value], ...] = (),
) -> nouns.Observation:
    """An exact reading."""
    made = nouns.Observation(knob, value, None, unit, "as the tiny campaign has it", "C", trace_id, frames)
    return replace(made, details=details)
