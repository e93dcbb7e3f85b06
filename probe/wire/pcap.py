# SPDX-License-Identifier: MIT
"""Evidence: traces as pcapng, which Wireshark reads, and from which we rebuild the very same traces.

One file a vantage. Two interfaces, then per trace, without gaps:

    Decryption Secrets    the TLS secrets, if any (so the wire packets can be decrypted)
    Enhanced Packet ...   the frames on interface "wire", LINKTYPE_RAW. The first carries a comment: JSON with the
                          request and how it ended. A frame that offloading had merged carries {"gso_size": n}; one that
                          we sent between two segments of a merged frame carries {"index": n}: packet n is its own
    Enhanced Packet ...   the messages of stream probes on interface "plaintext", LINKTYPE_WIRESHARK_UPPER_PDU

Wireshark counts packets, so frame k of a trace is its number `first_frame + k`. A file is only ever appended to; the
half-written end of a killed process is cut off when the file is opened again.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, NotRequired, TypedDict, cast

from configtron.model import pcapng
from configtron.model.errors import BadInput
from configtron.model.nouns import Message, Packet, Session, Target, Trace, Value
from configtron.model.records import target_form
from configtron.probe.wire.flow import Frame, Recording
from configtron.probe.wire.frames import Dissected, Numbers, dissect, heard, sent
from configtron.probe.wire.push import push

_WIRE, _PLAIN = 0, 1
_ABOUT = json.JSONEncoder(separators=(",", ":"), check_circular=False)
OPENING = pcapng.section((("wire", pcapng.LINKTYPE_RAW), ("plaintext", pcapng.LINKTYPE_UPPER_PDU)))

# The traces of one batch of results are handed to the kernel at once.
BUFFER_BYTES = 1 << 20


class About(TypedDict):
    """The comments of a packet block, as one JSON object."""

    gso_size: NotRequired[int]
    index: NotRequired[int]
    id: NotRequired[str]
    agent: NotRequired[str]
    vantage: str
    probe: str
    params: list[Value]
    target: dict[str, str]
    started_at: int
    ending: str
    tainted: list[str]
    session: dict[str, str] | None
    packets: int
    blocks: int


@dataclass(frozen=True, slots=True)
class TraceLocation:
    """Where a trace lies: bytes offset..end of a file, and the number Wireshark gives its first frame."""

    file: str
    offset: int
    end: int
    first_frame: int
    frames: int


class EvidenceWriter:
    """Appends traces to one file. Opening an existing file continues it after its last whole trace.

    name   what a `TraceLocation` calls the file
    """

    def __init__(self, path: Path, *, name: str = "", resume_at: int | None = None) -> None:
        self._path, self._name = path, name or path.name
        self._packets = 0
        at = self._recover(resume_at) if path.exists() else 0
        self._file = path.open("r+b" if path.exists() else "w+b", buffering=BUFFER_BYTES)
        self._file.truncate(at)
        self._file.seek(at)
        if not at:
            self._file.write(OPENING)
        self._at = at or len(OPENING)

    def append(self, recording: Recording) -> TraceLocation:
        """Write a trace; return where it lies. A trace without frames leaves no block."""
        data, packets = encode(recording)
        self._file.write(data)
        offset, self._at = self._at, self._at + len(data)
        first, self._packets = self._packets + 1, self._packets + packets
        return TraceLocation(self._name, offset, self._at, first, len(recording.frames))

    def flush(self) -> None:
        """Hand everything over: from now on neither a killed process nor a killed guest loses any of it."""
        push(self._file)

    def close(self) -> None:
        """Flush and close."""
        self._file.close()

    def _recover(self, resume_at: int | None) -> int:
        """Return where the last whole trace ends (`resume_at` at the latest); counts the packets before."""
        good = packets = left = 0
        with self._path.open("rb") as file:
            for block in pcapng.blocks(file):
                if resume_at is not None and block.end > resume_at:
                    break
                if block.kind == pcapng.PACKET:
                    packets += 1
                    about = _about(pcapng.captured(block.body))
                    left = (about["blocks"] if "id" in about else left) - 1
                if left == 0 and block.kind != pcapng.SECRETS:
                    good, self._packets = block.end, packets
        return good if good >= len(OPENING) else 0


def encode(recording: Recording) -> tuple[bytes, int]:
    """Return a trace's blocks, and how many of them count as packets."""
    trace, frames = recording
    if not frames:
        return b"", 0
    out = [pcapng.secrets(trace.session.keylog)] if trace.session and trace.session.keylog else []
    count = len(frames) + len(trace.messages)
    places = _places(trace.packets, frames) if any(frame.segments > 1 for frame in frames) else {}
    for ordinal, (at_ns, way, data, length, gso_size, _) in enumerate(frames):
        comments: tuple[str, ...] = () if ordinal else (_header(trace, count),)
        if gso_size:
            comments = (*comments, f'{{"gso_size": {gso_size}}}')
        if ordinal in places:
            comments = (*comments, json.dumps({"index": places[ordinal]}))
        out.append(pcapng.packet(pcapng.Captured(_WIRE, at_ns, data, length, way, comments)))
    first = dissect(frames[0].data, frames[0].length)
    assert first is not None
    for message in trace.messages:
        exported = _exported(message, trace, first)
        at_ns = trace.started_at + round(message.at * 1e9)
        out.append(pcapng.packet(pcapng.Captured(_PLAIN, at_ns, exported, len(exported), message.way, ())))
    return b"".join(out), count


def _places(packets: tuple[Packet, ...], frames: tuple[Frame, ...]) -> dict[int, int]:
    """Return the index of the packet of each sent frame that lies among the segments of an earlier merged frame."""
    indices = {packet.frame: index for index, packet in enumerate(packets) if packet.way == "out"}
    places = {}
    count = 0
    for ordinal, frame in enumerate(frames):
        if frame.way == "out" and indices.get(ordinal, count) != count:
            places[ordinal] = indices[ordinal]
        count += frame.segments
    return places


def _header(trace: Trace, blocks: int) -> str:
    session = trace.session and {**asdict(trace.session), "certificate": _base64(trace.session.certificate)}
    if session:
        del session["keylog"]
    about = {
        "id": trace.id, "vantage": trace.vantage, "agent": trace.agent, "probe": trace.probe, "params": trace.params,
        "target": target_form(trace.target), "started_at": trace.started_at, "ending": trace.ending,
        "tainted": trace.tainted, "session": session, "packets": len(trace.packets), "blocks": blocks,
    }  # fmt: skip
    return _ABOUT.encode(about)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _exported(message: Message, trace: Trace, first: Dissected) -> bytes:
    ours, theirs = (first.source, first.source_port), (first.destination, first.destination_port)
    source, destination = (ours, theirs) if message.way == "out" else (theirs, ours)
    return pcapng.exported(_dissector(trace), source, destination, message.data)


def _dissector(trace: Trace) -> str:
    """Return Wireshark's name for the protocol of the messages; a hello made by hand is TLS itself."""
    first = next((m.data for m in trace.messages if m.way == "out"), b"")
    return "tls" if first.startswith(b"\x16\x03") else "http2" if _speaks_http2(trace) else "http"


def _speaks_http2(trace: Trace) -> bool:
    if trace.session is not None and trace.session.alpn:
        return trace.session.alpn == "h2"
    return any(m.way == "out" and m.data.startswith(b"PRI * HTTP/2.0") for m in trace.messages)


def read_evidence(path: Path, *, offset: int = 0, end: int | None = None) -> Iterator[Trace]:
    """Yield the traces of a file, or of the bytes offset..end of it (`TraceLocation`)."""
    with path.open("rb") as file:
        check_opening(file, path)
        file.seek(max(offset, len(OPENING)))
        yield from (trace for trace, _ in traces_in(pcapng.blocks(file, end), path.name))


def check_opening(file: IO[bytes], path: Path) -> None:
    """Read past the opening that all evidence has; refuse a file with another."""
    if file.read(len(OPENING)) != OPENING:
        raise BadInput(
            f"{path}: not evidence that `configtron probe` wrote, so it has no script;"
            f" foreign captures are read by: configtron fingerprint pcap {path}, and made fixtures by --adopt"
        )


def traces_in(blocks: Iterable[pcapng.Block], name: str) -> Iterator[tuple[Trace, TraceLocation]]:
    """Yield the traces of all blocks after the opening, and where each lies in the file of that name."""
    keylog, builder, packets, began = "", None, 0, -1
    try:
        for block in blocks:
            began = block.offset if began < 0 else began
            if block.kind == pcapng.SECRETS:
                keylog = pcapng.keylog_of(block.body, "little")
            elif block.kind == pcapng.PACKET:
                packets += 1
                captured = pcapng.captured(block.body)
                about = _about(captured)
                if builder is None or "id" in about:
                    builder, keylog = _TraceBuilder(about, keylog, packets), ""
                if builder.take(captured, about):
                    yield builder.trace(), TraceLocation(name, began, block.end, builder.first, builder.frames)
                    builder, began = None, -1
    except (ValueError, KeyError, TypeError, IndexError, struct.error) as error:
        raise BadInput(f"{name}: packet {packets} is not as `configtron probe` writes them: {error}") from error


class _TraceBuilder:
    """Builds a trace from its blocks."""

    def __init__(self, about: About, keylog: str, first: int) -> None:
        self.first = first
        self.frames = 0
        self._about = about
        self._keylog = keylog
        self._left = about["blocks"]
        self._numbers: Numbers | None = None
        self._packets: list[Packet] = []
        self._messages: list[Message] = []

    def take(self, captured: pcapng.Captured, about: About) -> bool:
        """Take one more packet block; return whether it was the last."""
        at = (captured.at_ns - self._about["started_at"]) / 1e9
        if captured.interface == _PLAIN:
            self._messages.append(Message(at, captured.way, pcapng.plaintext(captured.data)))
        else:
            self._take_frame(captured, about, at)
        self._left -= 1
        return self._left == 0

    def _take_frame(self, captured: pcapng.Captured, about: About, at: float) -> None:
        ordinal, self.frames = self.frames, self.frames + 1
        found = dissect(captured.data, captured.length)
        if found is None:
            raise BadInput(f"trace {self._about.get('id')}: frame {ordinal} is not TCP over IP")
        if self._numbers is None:
            # A conversation begins with our SYN, whose relative number is 0.
            self._numbers = Numbers(found.seq)
        if captured.way == "in":
            self._packets += heard(found, captured.data, about.get("gso_size", 0), self._numbers, at, ordinal)
        elif (packet := sent(captured.data, self._numbers, at, ordinal)) is not None:
            self._packets.insert(about.get("index", len(self._packets)), packet)

    def trace(self) -> Trace:
        """Return the trace as it was."""
        about = self._about
        return Trace(
            id=about.get("id", ""),
            target=Target(**about["target"]),  # type: ignore[arg-type]
            vantage=about["vantage"],
            probe=about["probe"],
            params=cast(tuple[tuple[str, Value], ...], _freeze(about["params"])),
            started_at=about["started_at"],
            packets=tuple(self._packets[: about["packets"]]),
            messages=tuple(self._messages),
            session=None if about["session"] is None else self._session(about["session"]),
            ending=about["ending"],
            tainted=tuple(about["tainted"]),
            agent=about.get("agent", ""),
        )

    def _session(self, form: dict[str, str]) -> Session:
        bare = Session(form["version"], form["alpn"], base64.b64decode(form["certificate"]), form["error"])
        return replace(bare, keylog=self._keylog)


def _freeze(value: Value | list[Value]) -> Value:
    """Turn JSON's lists into the tuples that they were."""
    return tuple(_freeze(v) for v in value) if isinstance(value, list) else value


def _about(captured: pcapng.Captured) -> About:
    together: dict[str, object] = {}
    for comment in captured.comments:
        together.update(json.loads(comment))
    return cast(About, together)
