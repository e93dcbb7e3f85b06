# SPDX-License-Identifier: MIT
"""TLS played back from a recording: an engine for `stream.py` that sends the recorded records again.

TLS is fresh in each run, so it cannot be spoken again; but everything around it can. The records come from the
recorded packets, the plaintext from the recorded messages, the session from the recording's comment. So the TCP of a
carried stream (`tcp.py`), and the script above it, are replayed packet by packet.

The engine has to find out *when*: which of our records belong to the handshake and which to the script's writes, and at
which step the handshake was done, or failed. The records' types (RFC 8446 5.1) and the packet that follows in the
recording show.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from configtron.model.errors import Diverged
from configtron.model.nouns import RST, Packet, Session, Trace
from configtron.probe.play import Recorded
from configtron.probe.wire.stream import ALERTED, EngineFailed

# Record types (RFC 8446 5.1; change_cipher_spec is TLS 1.2's, and TLS 1.3 keeps it for show).
CHANGE_CIPHER, ALERT, HANDSHAKE, APPLICATION = 20, 21, 22, 23
HEAD_BYTES = 5
# The largest plaintext of a record (RFC 8446 5.1).
RECORD_MOST = 1 << 14
# What TLS 1.3 adds to a plaintext without padding: its type, and the tag of each cipher that we offer (RFC 8446 5.2).
SEAL_BYTES = 17
# Messages are stamped in whole nanoseconds.
TICK_S = 1e-9
TLS13 = "TLSv1.3"
FAILED = "tls:"
NAMELESS = "tls:bad-server-name"


class Record(NamedTuple):
    """One TLS record, head and all."""

    kind: int
    data: bytes


def records(stream: bytes) -> list[Record]:
    """Return the records of one side's stream; a truncated one at the end counts as one."""
    found = []
    at = 0
    while at < len(stream):
        end = at + HEAD_BYTES + int.from_bytes(stream[at + 3 : at + HEAD_BYTES], "big")
        found.append(Record(stream[at], stream[at:end]))
        at = end
    return found


def sent_bytes(packets: Iterable[Packet]) -> bytes:
    """Return the bytes that we sent in a connection, in order, each once."""
    stream = b""
    for packet in packets:
        segment = packet.segment
        if packet.way == "out" and segment.length and segment.seq == 1 + len(stream):
            stream += segment.payload
    return stream


class Tape:
    """The engine of one recorded connection."""

    def __init__(self, trace: Trace, wire: Recorded, host: str, alpn: tuple[str, ...]) -> None:
        assert trace.session is not None
        self._session, self._wire = trace.session, wire
        self._alert = trace.ending if trace.ending.startswith(ALERTED) else ""
        if self._session.error == NAMELESS:
            raise EngineFailed(NAMELESS)
        self._messages = deque(trace.messages)
        ours = records(sent_bytes(trace.packets))
        self._full = max((p.segment.length for p in trace.packets if p.way == "out"), default=0)
        first = self._first_write(ours)
        self._shaking, self._written = ours[:first], deque(ours[first:])
        self._given = 0
        self._queued: list[bytes] = []
        self._heard = b""
        # Sealed bytes heard: before the last feed, before the handshake was done, and those that were read since.
        self._before = self._shaken_at = self._read = 0
        self._check(trace.id, host, alpn)

    def shake(self) -> bool:
        """Go on with the handshake; True once it is done. Raises EngineFailed where it failed."""
        error = self._session.error
        if error.startswith(FAILED) and self._fails():
            raise EngineFailed(error)
        if error or not self._done():
            return False
        self._shaken_at = self._before
        return True

    def feed(self, data: bytes) -> None:
        """Records from the wire."""
        self._before = _sealed(self._heard)
        self._heard += data

    def drain(self) -> bytes:
        """Return records for the wire: of the handshake, as many as the recording sent by now; then those of writes."""
        if self._queued:
            data, self._queued = b"".join(self._queued), []
            return data
        data = b""
        rest = b"".join(record.data for record in self._shaking)[self._given :]
        for packet in self._wire.coming:
            segment = packet.segment
            if not segment.length or segment.seq != 1 + self._given + len(data) or len(data) >= len(rest):
                break
            data += segment.payload
            if segment.length < self._full:
                break
        self._given += len(data[: len(rest)])
        return data[: len(rest)]

    def write(self, data: bytes) -> None:
        """Take plaintext to send: it must equal the recorded plaintext."""
        following = self._messages.popleft() if self._messages else None
        if following is None or (following.way, following.data) != ("out", data):
            there = "nothing" if following is None else f"{following.way} {following.data!r}"
            raise Diverged(f"inside TLS\n  the recording: {there}\n  the script:    out {data!r}")
        for _ in range(0, max(len(data), 1), RECORD_MOST):
            if self._written:
                self._queued.append(self._written.popleft().data)

    def read(self) -> tuple[bytes, bool]:
        """Return plaintext that came by now, and whether the stream has ended. Raises EngineFailed where an alert ends
        it."""
        following = self._messages[0] if self._messages else None
        if following is None or following.way != "in" or following.at > self._wire.now + TICK_S:
            return b"", False
        if not following.data and self._more_by(following.at):
            # several packets came at that moment; the end may be in one of them, which the connection will see
            return b"", False
        if _sealed(self._heard) - self._shaken_at < self._read + len(following.data):
            return b"", False
        self._messages.popleft()
        self._read += len(following.data)
        if self._alert and not following.data:
            raise EngineFailed(self._alert)
        return following.data, not following.data

    def _more_by(self, at: float) -> bool:
        coming = self._wire.following
        return coming is not None and coming.way == "in" and coming.at <= at + TICK_S

    def session(self, error: str = "") -> Session:
        """Return the negotiated session."""
        if error != self._session.error:
            raise Diverged(f"TLS\n  the recording: {self._session.error!r}\n  the script:    {error!r}")
        return self._session

    def _first_write(self, ours: list[Record]) -> int:
        """Return the index of our first record that the script wrote."""
        if self._session.error:
            return len(ours)
        sealed = [i for i, record in enumerate(ours) if record.kind == APPLICATION]
        if self._session.version == TLS13:
            # It hides our Finished among the application's records, and before it a certificate if the server asks.
            size = next((min(len(one.data), RECORD_MOST) + SEAL_BYTES for one in self._messages if one.way == "out"), 0)
            sealed = [i for i in sealed[1:] if int.from_bytes(ours[i].data[3:HEAD_BYTES], "big") == size]
        return sealed[0] if sealed else len(ours)

    def _left(self) -> list[Record]:
        """Return records of our handshake that have not been handed out."""
        at, left = 0, []
        for record in self._shaking:
            if at >= self._given:
                left.append(record)
            at += len(record.data)
        return left

    def _fails(self) -> bool:
        """Return whether the handshake fails now: next comes an alert, our farewell, or nothing more."""
        following = self._wire.following
        if following is None or following.way == "out" and following.segment.flags & RST:
            return True
        return self._goes_on() and not any(record.kind == HANDSHAKE for record in self._left())

    def _done(self) -> bool:
        """Return whether the handshake is done now: with TLS 1.3 our Finished follows, with others the server's has
        come."""
        left = self._left()
        if self._session.version == TLS13:
            return self._given > 0 and self._goes_on() and all(record.kind != HANDSHAKE for record in left)
        return self._given > 0 and not left and _finished(self._heard)

    def _goes_on(self) -> bool:
        """Return whether our next segment is new and repeats nothing."""
        following = self._wire.following
        if following is None or following.way != "out" or not following.segment.length:
            return False
        return following.segment.seq == 1 + self._given

    def _check(self, trace: str, host: str, alpn: tuple[str, ...]) -> None:
        """The recorded hello must be one that asks as the script does now."""
        hello = b"".join(record.data for record in self._shaking[:1])
        names = b"".join(bytes([len(name)]) + name.encode() for name in alpn)
        if hello and names not in hello:
            raise Diverged(f"{trace}: the recorded ClientHello does not offer {', '.join(alpn)}")


def _finished(stream: bytes) -> bool:
    """Return whether a server's stream holds its Finished: the handshake record behind its change of cipher."""
    changed = False
    for record in records(stream):
        if changed and record.kind == HANDSHAKE and _whole(record):
            return True
        changed = changed or record.kind == CHANGE_CIPHER
    return False


def _sealed(stream: bytes) -> int:
    """Return bytes of a stream's whole records that may be the application's: never less than the plaintext in them."""
    return sum(len(one.data) - HEAD_BYTES for one in records(stream) if one.kind == APPLICATION and _whole(one))


def _whole(record: Record) -> bool:
    return len(record.data) >= HEAD_BYTES + int.from_bytes(record.data[3:HEAD_BYTES], "big")
