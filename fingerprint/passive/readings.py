# SPDX-License-Identifier: MIT
"""What the packets of one connection prove: observations with grades, and both hellos of TLS.

Question   Which inferences may read a foreign conversation, and what of their results holds for it?
Method     What every connection needs is computed in columns once a batch (`likeness.py`). Then each connection makes
           its traces, and only those inferences read it that report a wanted parameter. A conversation that withheld no
           ACK has its initial window from the first flight (`first_flight.py`).
Reads as   observations whose evidence are frame numbers of the file.
Fails as   no observation, where the packets that an inference needs were not captured.
Differs    from reading our own probes: see `traces.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from configtron.fingerprint import INFERENCES, http_version, negotiated_options, read, syn_cookies, synack_rto
from configtron.fingerprint.passive.columns import FILE_SHIFT, FRAME_MASK, Endpoint
from configtron.fingerprint.passive.connections import edges
from configtron.fingerprint.passive.first_flight import NONE, PROOFS
from configtron.fingerprint.passive.gathering import Batch
from configtron.fingerprint.passive.likeness import likeness
from configtron.fingerprint.passive.tls import Hello, hello
from configtron.fingerprint.passive.traces import (
    OPENING_MOST,
    PACKETS_MOST,
    DecryptedMessage,
    Opener,
    packets_of,
    spoken,
    traces_of,
)
from configtron.fingerprint.verdict import no, yes
from configtron.model.nouns import Observation, Target, Trace, Value

METHOD = "first flight by timestamps", "first flight by time"
# Where an inference finds nothing because no probe asked for it, an absent row is clearer than a reason.
UNASKED = ("unclear:", "no-repeat")
# Knobs read from options of SYNs, and those read from the handshake as a whole.
OPTIONS = frozenset((*negotiated_options.KNOBS, "rwin", "rwin_ts", "rwin_first_ack", "signature", "stack", "ecn"))
OPENING = frozenset((*synack_rto.KNOBS, *syn_cookies.KNOBS, *OPTIONS))
# Knobs read from bytes of the streams.
SPOKEN = frozenset(http_version.KNOBS)
# Counts and times: frames missing from a capture make them wrong.
COUNTED = frozenset(("icw", "cwnd_at_request", "data_rto", "min_rto", *synack_rto.KNOBS, *syn_cookies.KNOBS))
WINDOWS = frozenset(("icw", "cwnd_at_request"))
REASONS = {
    "no-handshake": "unclear:no-handshake",
    "options-cut": "unclear:options-cut",
    "one-sided": "unclear:one-sided",
    "beginning-lost": "unclear:first-segment-lost",
    "no-data": "no-data",
}
# Connections without an answer are compared if they have at most so many segments.
ALIKE_MOST = 4
SILENT: dict[str, bytes] = {"client": b"", "server": b""}
Hellos = tuple[Hello | None, Hello | None]


class ConnectionReading:
    """Reads the connections of one batch.

    wanted  only these knobs; None: all
    why     the reason why counts and times are not exact; "": they are
    """

    def __init__(
        self, batch: Batch, files: list[str], wanted: frozenset[str] | None, why: str, opener: Opener | None
    ) -> None:
        self._batch, self._files, self._wanted, self._why, self._opener = batch, files, wanted, why, opener
        like = likeness(batch.found, batch.summary, batch.heads)
        self._probe, self._speaks = like.probe.tolist(), like.speaks.tolist()
        self._whole, self._went_on, self._cut = like.whole.tolist(), like.went_on.tolist(), like.cut.tolist()
        self._flights = list(zip(*(column.tolist() for column in batch.summary.flights), strict=True))
        self._flight_frames, self._flight_edges = _flight_frames(batch)
        found, summary = batch.found, batch.summary
        self._begin, self._size = found.begin.tolist(), (found.end - found.begin).tolist()
        self._frame, self._started = (summary.columns[name].tolist() for name in ("frame", "started"))
        self._answered = (~found.opened[:, 0] | found.opened[:, 1]).tolist()
        # Of connections without an answer: their observations, by their segments.
        self._unanswered: dict[tuple[object, ...], tuple[Observation, ...]] = {}
        # Which probes' packets any wanted inference reads, and which of them if no byte was kept.
        self._read, self._read_silent = _probes_read(wanted), _probes_read(None if wanted is None else wanted - SPOKEN)

    def read(
        self, connection: int, ends: tuple[Endpoint, Endpoint], target: Target
    ) -> tuple[tuple[Observation, ...], Hellos]:
        """Return what one connection shows; `ends`: client and server; `target`: the server."""
        batch = self._batch
        where, speaks = self._frame[connection], self._speaks[connection]
        streams = spoken(batch, connection) if speaks else SILENT
        hellos: Hellos = (hello(streams["client"]), hello(streams["server"])) if speaks else (None, None)
        secret: Sequence[DecryptedMessage] = ()
        file = where >> FILE_SHIFT
        if self._opener is not None and hellos[0] is not None:
            last = int(batch.found.rows.frame[int(batch.found.end[connection]) - 1])
            secret = self._opener(file, *ends, where & FRAME_MASK, last & FRAME_MASK)
            hellos = hellos[0], _with_alpn(hellos[1], secret)
        name, started = f"{self._files[file]}/{where & FRAME_MASK}", self._started[connection]
        trace = Trace(name, target, "capture", self._probe[connection], started_at=started)
        found = [*self._inferred(connection, trace, streams, secret), *self._first_flight(connection, trace)]
        return tuple(found), hellos

    def _inferred(
        self, connection: int, trace: Trace, streams: dict[str, bytes], secret: Sequence[DecryptedMessage]
    ) -> Iterable[Observation]:
        """Return what the inferences read; the same of all connections without an answer whose segments are alike."""
        speaks = self._speaks[connection]
        if trace.probe not in (self._read if speaks else self._read_silent):
            return ()
        if speaks or self._answered[connection] or self._size[connection] > ALIKE_MOST:
            return self._inferred_anew(connection, trace, streams, secret)
        found, begin = self._batch.found, self._begin[connection]
        part = slice(begin, begin + self._size[connection])
        rows = found.rows
        columns = (found.server, rows.flags, found.seq, found.ack, rows.bits, rows.mss, rows.wscale)
        segments = (trace.probe, *(tuple(column[part].tolist()) for column in columns))
        alike = self._unanswered.get(segments)
        if alike is None:
            alike = self._unanswered[segments] = tuple(self._inferred_anew(connection, trace, streams, secret))
        return (replaced(one, trace.id, one.evidence) for one in alike)

    def _inferred_anew(
        self, connection: int, trace: Trace, streams: dict[str, bytes], secret: Sequence[DecryptedMessage]
    ) -> Iterator[Observation]:
        """Yield what the inferences read in this connection."""
        found = self._batch.found
        most = OPENING_MOST if trace.probe == "rwin" else PACKETS_MOST
        begin = self._begin[connection]
        frames = (found.rows.frame[begin : begin + min(self._size[connection], most)] & FRAME_MASK).tolist()
        for one in traces_of(trace, packets_of(self._batch, connection, most=most), streams, secret):
            for observation in read(one, self._wanted):
                if not self._is_wanted(connection, observation):
                    continue
                evidence = tuple(sorted({frames[n] for n in observation.evidence if n < len(frames)}))
                yield _weaker(replaced(observation, observation.trace_id, evidence), self._why)

    def _first_flight(self, connection: int, trace: Trace) -> Iterator[Observation]:
        """Yield the windows that the first flight shows, where no ACK was withheld."""
        if trace.probe != "rwin" or not (self._wanted is None or self._wanted & WINDOWS):
            return
        begin, end = (edge[connection] for edge in self._flight_edges)
        for observation in windows(trace, self._flights[connection], tuple(self._flight_frames[begin:end])):
            if self._wanted is None or observation.knob in self._wanted:
                yield _weaker(observation, self._why)

    def _is_wanted(self, connection: int, observation: Observation) -> bool:
        if self._wanted is not None and observation.knob not in self._wanted:
            return False
        return not ((observation.reason or "").startswith(UNASKED) or self._unseen(connection, observation))

    def _unseen(self, connection: int, observation: Observation) -> bool:
        """Return whether an observation needs packets not captured: a missing SYN, or the options of one."""
        if self._cut[connection] and observation.knob in OPTIONS:
            return True
        if self._whole[connection] or not self._went_on[connection]:
            return False
        # A client that goes on after a SYN-ACK had one, though it is not here.
        return observation.reason == "no-synack" or observation.knob in OPENING


def _probes_read(wanted: frozenset[str] | None) -> frozenset[str]:
    """Return the probes whose traces hold a wanted knob."""
    rows = (row for row in INFERENCES.values() if wanted is None or not wanted.isdisjoint(row.knobs))
    return frozenset(probe for row in rows for probe in row.probes)


def _flight_frames(batch: Batch) -> tuple[list[int], tuple[list[int], list[int]]]:
    """Return the frames that carried the first flights, connection by connection, and each connection's part."""
    found, flights = batch.found, batch.summary.flights
    row = np.arange(found.rows.size)
    within = (row >= flights.first[found.of]) & (row <= flights.last[found.of])
    index = np.flatnonzero(within & found.server & (found.rows.length > 0))
    begin, end = edges(found.of[index], found.total)
    return (found.rows.frame[index] & FRAME_MASK).tolist(), (begin.tolist(), end.tolist())


def _with_alpn(answered: Hello | None, secret: Sequence[DecryptedMessage]) -> Hello | None:
    alpn = next((message.alpn for message in secret if message.alpn), "")
    return answered._replace(alpn=(alpn,)) if answered is not None and alpn else answered


def replaced(one: Observation, trace_id: str, evidence: tuple[int, ...]) -> Observation:
    """Return an observation of another trace and its frames; `dataclasses.replace` takes three times as long."""
    same = one.knob, one.value, one.reason, one.unit, one.method, one.grade
    return Observation(*same, trace_id, evidence, one.trials, one.details)


def _weaker(found: Observation, why: str) -> Observation:
    """Weaken a verdict if frames are missing (`why`): counts and times are no longer exact."""
    if not why or found.value is None or found.knob not in COUNTED:
        return found
    return no(found.knob, why, Trace(found.trace_id, Target(""), "", ""), found.unit, found.method)


def windows(trace: Trace, flight: tuple[int, ...], evidence: tuple[int, ...]) -> Iterator[Observation]:
    """Yield the first flight as a verdict on the initial window.

    After a repeated SYN-ACK the window may have been cut to one segment (RFC 5681 3.1): then the flight shows the
    window at the request, and of the initial one that it is no smaller.
    """
    segments, size, mss, proof, stamped, _, _, merged, again = flight
    name, method = PROOFS[proof], METHOD[not stamped]
    if proof >= NONE:
        reason = "synack-repeated" if again and name == "no-data" else REASONS[name]
        yield no("icw", reason, trace, "segments", method)
        return
    details: dict[str, Value] = {"bytes": size, "mss": mss, "proof": name, "timestamps": bool(stamped)}
    if merged:
        details["merged"] = True
    grade = "C" if name == "ack-clocked" else "L"
    if not again:
        yield yes("icw", segments, trace, "segments", method, grade, evidence, details)
        return
    if segments > 1:
        bound: dict[str, Value] = {**details, "proof": "synack-repeated"}
        yield yes("icw", segments, trace, "segments", method, "L", evidence, bound)
    else:
        yield no("icw", "synack-repeated", trace, "segments", method)
    yield yes("cwnd_at_request", segments, trace, "segments", method, grade, evidence, details)
