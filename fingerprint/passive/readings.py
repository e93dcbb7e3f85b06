# SPDX-License-Identifier: MIT
"""What the packets of one connection prove: observations with grades, and both hellos of TLS.

Question   Which inferences may read a foreign conversation, and what of their results holds for it?
Method     Once for a batch, columns are computed that every connection needs (`likeness.py`), and a number for each
           connection: those of the same number (kind) have the same verdicts. The caller reads one connection of each
           kind. Its traces are read only by the inferences that report a wanted parameter. Where no ACK was withheld,
           the initial window is that of the first flight (`first_flight.py`).
Reads as   observations whose evidence are frames (file << 40 | number).
Fails as   no observation, where the packets that an inference needs were not captured.
Differs    from reading our own probes: see `traces.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np

from configtron.fingerprint import INFERENCES, http_version, negotiated_options, read, syn_cookies, synack_rto
from configtron.fingerprint.head import head_fields
from configtron.fingerprint.idle import LONGEST_S, USUAL, kept
from configtron.fingerprint.idle import METHOD as OVER_IDLE
from configtron.fingerprint.passive.columns import FILE_SHIFT, FRAME_MASK, Column, Endpoint
from configtron.fingerprint.passive.connections import edges
from configtron.fingerprint.passive.first_flight import PROOFS, PROVEN
from configtron.fingerprint.passive.gathering import Batch
from configtron.fingerprint.passive.later_flights import FLIGHTS_MOST, LaterFlight
from configtron.fingerprint.passive.likeness import likeness
from configtron.fingerprint.passive.openings import PLACES, UNIQUE, equal_openings, group_numbers
from configtron.fingerprint.passive.retransmissions import KINDS
from configtron.fingerprint.passive.tls import Hello, hello
from configtron.fingerprint.passive.traces import (
    OPENING_MOST,
    PACKETS_MOST,
    DecryptedMessage,
    Opener,
    packets_of,
    read_options,
    spoken,
    traces_of,
    without_times,
)
from configtron.fingerprint.verdict import no, yes
from configtron.fingerprint.window_proofs import IDLE_MIN_S, IDLE_RTTS
from configtron.model.nouns import ECE, OPT_TIMESTAMPS, SYN, Observation, Target, Trace, Value

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
    "no-handshake": "unclear:no-handshake", "options-cut": "unclear:options-cut", "one-sided": "unclear:one-sided",
    "beginning-lost": "unclear:first-segment-lost", "no-data": "no-data",
}  # fmt: skip
# Unanswered connections with at most this many segments are compared: a SYN and its repetitions.
COMPARED_SEGMENTS = 4
# Why counts and times are not exact, by the column `clock`.
CLOCKS = ("", "clock-step", "unclear:no-times")
# In place of the number of a kind (`UNIQUE`): no inference reads the connection.
NOT_INFERRED = -2
# In a template, the place of the frames of a first flight and of its bytes; -1 and less: of the frames of `PLACES`.
FLIGHT, BYTES = -1 - PLACES, -1
MARK = "bytes", BYTES
NO_BYTES: dict[str, bytes] = {"client": b"", "server": b""}
Hellos = tuple[Hello | None, Hello | None]


class ConnectionReading:
    """Reads the connections of one batch.

    wanted  report only these knobs; None: all
    why     the reason why counts and times are not exact; "" if they are exact
    """

    def __init__(
        self, batch: Batch, files: list[str], wanted: frozenset[str] | None, why: str, opener: Opener | None
    ) -> None:
        self._batch, self._files, self._wanted, self._why, self._opener = batch, files, wanted, why, opener
        self._like = like = likeness(batch.found, batch.summary, batch.heads)
        # The probes whose traces a wanted inference reads; and those that it reads without bytes of the streams.
        read, silent = _probes_read(wanted), _probes_read(None if wanted is None else wanted - SPOKEN)
        self._has_inference = np.where(like.speaks, np.isin(like.probe, [*read]), np.isin(like.probe, [*silent]))
        columns = batch.summary.columns
        self._has_inference |= ("rto" in silent) & (columns["synacks"] > 1) & (columns["syns"] == 1)
        self._reads_flight = (like.probe == "rwin") & (wanted is None or bool(wanted & WINDOWS))
        self._flight_frames, self._flight_edges = _flight_frames(batch)
        self._same_segments = self._group_unanswered()
        self._places = np.full((batch.found.total, PLACES), -1)
        self._group_answered()
        # The observations of connections with equal openings, by the number of `_same_segments`: templates.
        self._alike: dict[int, tuple[Observation, ...]] = {}

    def _group_unanswered(self) -> Column:
        """Return a number for each connection of the batch.

        Connections of the same number sent equal segments and had no answer, so inferences find the same in them.
        `UNIQUE`: any other connection.
        """
        found, rows = self._batch.found, self._batch.found.rows
        size = found.end - found.begin
        silent = found.opened[:, 0] & ~found.opened[:, 1] & (size <= COMPARED_SEGMENTS)
        chosen = np.flatnonzero(self._has_inference & silent & ~self._like.speaks)
        place = found.begin[chosen, None] + np.arange(COMPARED_SEGMENTS)
        there = place < found.end[chosen, None]
        place = np.where(there, place, 0)
        columns = (found.server, rows.flags, found.seq, found.ack, rows.bits, rows.mss, rows.wscale)
        segments = [np.where(there, column[place], 0).T for column in columns]
        alike = np.full(found.total, UNIQUE)
        clock = self._batch.summary.columns["clock"][chosen]
        probe = [self._like.probe[chosen] == name for name in ("rto", "icw")]
        alike[chosen] = group_numbers(size[chosen], clock, *probe, *np.concatenate(segments))
        return alike

    def _group_answered(self) -> None:
        """Number the answered connections with equal openings too."""
        open_ones = self._has_inference & (self._like.probe == "rwin") & ~self._like.cut & ~self._like.speaks
        chosen = np.flatnonzero(open_ones & (self._same_segments == UNIQUE))
        if len(chosen):
            numbers, places = equal_openings(self._batch, chosen)
            self._same_segments[chosen] = np.where(numbers == UNIQUE, UNIQUE, numbers + self._batch.found.total)
            self._places[chosen] = places

    def kinds(self, connections: Column) -> Column:
        """Return a number for each of these connections.

        Those of the same number have the same hellos and the same observations, but for frames, trace ids and the bytes
        of a first flight (`template`).
        """
        flights, reads_flight = self._batch.summary.flights, self._reads_flight[connections]
        inferred = np.where(self._has_inference, self._same_segments, NOT_INFERRED)[connections]
        own = np.where(self._alone[connections], np.arange(len(connections)), UNIQUE)
        shown = (
            flights.segments, flights.mss, flights.proof, flights.stamped, flights.merged, flights.sack,
            flights.synack_again, self._flight_edges[1] > self._flight_edges[0],
        )  # fmt: skip
        of_flight = (np.where(reads_flight, column[connections], 0) for column in shown)
        return group_numbers(own, inferred, reads_flight, self._batch.summary.columns["clock"][connections], *of_flight)

    @cached_property
    def _alone(self) -> Column:
        """Whether the inferences of each connection must run: for one, its frames are in several files."""
        alone: Column = self._like.speaks | (self._has_inference & (self._same_segments == UNIQUE))
        alone[[*self._batch.summary.later]] = True
        if len(self._files) > 1:
            file, begin = self._batch.found.rows.frame >> FILE_SHIFT, self._batch.found.begin
            alone[self._batch.found.of[file != file[begin][self._batch.found.of]]] = True
        return alone

    def template(
        self, connection: int, ends: tuple[Endpoint, Endpoint], target: Target
    ) -> tuple[tuple[Observation, ...], Hellos]:
        """Return `read`; of a connection that shares its kind with `FLIGHT` and `BYTES`, and -1 - n for the frame of
        the n-th of `PLACES`."""
        observations, hellos = self.read(connection, ends, target)
        if self._alone[connection]:
            return observations, hellos
        frames = self.frames(connection)
        return tuple(_marked(one, frames) for one in observations), hellos

    def frames(self, connection: int) -> list[int]:
        """Return the frames of `PLACES` (file << 40 | number)."""
        found: list[int] = self._batch.found.rows.frame[self._places[connection]].tolist()
        return found

    def marks(self, connections: Column) -> Iterator[tuple[list[int], list[int], int]]:
        """Yield of each of these connections the frames of `PLACES`; those of the first flight, in order; its bytes.

        Frames are numbers in the connection's file.
        """
        frames = self._batch.found.rows.frame[self._places[connections]] & FRAME_MASK
        begin, end = (edge[connections].tolist() for edge in self._flight_edges)
        sizes = self._batch.summary.flights.size[connections]
        for places, first, last, size in zip(frames.tolist(), begin, end, sizes.tolist(), strict=True):
            yield places, sorted((self._flight_frames[first:last] & FRAME_MASK).tolist()), size

    def read(
        self, connection: int, ends: tuple[Endpoint, Endpoint], target: Target
    ) -> tuple[tuple[Observation, ...], Hellos]:
        """Return the observations and the hellos of one connection; `ends`: client, server; `target`: the server."""
        batch = self._batch
        where, speaks = int(batch.summary.columns["frame"][connection]), bool(self._like.speaks[connection])
        streams = spoken(batch, connection) if speaks else NO_BYTES
        hellos: Hellos = (hello(streams["client"]), hello(streams["server"])) if speaks else (None, None)
        secret: Sequence[DecryptedMessage] = ()
        file = where >> FILE_SHIFT
        if self._opener is not None and hellos[0] is not None:
            last = int(batch.found.rows.frame[int(batch.found.end[connection]) - 1])
            secret = self._opener(file, *ends, where & FRAME_MASK, last & FRAME_MASK)
            alpn = next((message.alpn for message in secret if message.alpn), "")
            hellos = hellos[0], hellos[1]._replace(alpn=(alpn,)) if hellos[1] is not None and alpn else hellos[1]
        started = int(batch.summary.columns["started"][connection])
        trace = Trace(self.name(connection), target, "capture", str(self._like.probe[connection]), started_at=started)
        found = [*self._inferences(connection, trace, streams, secret), *self._first_flight(connection, trace)]
        if hellos[0] is not None and hellos[1] is not None:
            found += self._at_request(connection, trace)
        found += self._over_idle(connection, trace)
        return tuple(one for one in found if self._wanted is None or one.knob in self._wanted), hellos

    def later(self, connection: int) -> Sequence[LaterFlight]:
        """Return the later flights of a connection; none where they are not exact."""
        return () if self._inexact(connection) else self._batch.summary.later.get(connection, [])[:FLIGHTS_MOST]

    def asked(self, connections: Column) -> Iterator[tuple[object, ...]]:
        """Yield what the client's SYN of each offers, and its request or hello: other ones get other answers."""
        rows, first = self._batch.found.rows, self._batch.found.begin[connections]
        columns = (connections, rows.flags[first], rows.frame[first], self._like.speaks[connections])
        for one, flags, frame, speaks in zip(*(column.tolist() for column in columns), strict=True):
            head, stream = self._batch.heads.kept.get(frame), spoken(self._batch, one)["client"] if speaks else b""
            host = (value for name, value in head_fields(stream) if name == "host") if speaks else ()
            offer = _offer(without_times(head.options)) if head is not None else b""
            yield flags, offer, hello(stream) or (stream.partition(b"\r")[0], *host)

    def sized(self, connection: int, one: Observation, same: dict[Observation, Observation]) -> Observation:
        """Return an observation of a template with the flight's bytes; equal ones are one object, of `same`."""
        if MARK not in one.details:
            return one
        size = int(self._batch.summary.flights.size[connection])
        made = replaced(one, "", (), tuple((MARK[0], size) if part == MARK else part for part in one.details))
        return same.setdefault(made, made)

    def name(self, connection: int) -> str:
        """Return the trace id of a connection."""
        where = int(self._batch.summary.columns["frame"][connection])
        return f"{self._files[where >> FILE_SHIFT]}/{where & FRAME_MASK}"

    def _inferences(
        self, connection: int, trace: Trace, streams: dict[str, bytes], secret: Sequence[DecryptedMessage]
    ) -> Iterable[Observation]:
        """Return what the inferences find; once for all connections with equal openings."""
        number = int(self._same_segments[connection])
        if not self._has_inference[connection]:
            return ()
        if number == UNIQUE:
            return self._infer(connection, trace, streams, secret)
        frames, alike = self.frames(connection), self._alike.get(number)
        if alike is None:
            found = self._infer(connection, trace, streams, secret)
            alike = self._alike[number] = tuple(_marked(one, frames) for one in found)
        return (replaced(one, trace.id, tuple(sorted(frames[-1 - n] for n in one.evidence))) for one in alike)

    def _infer(
        self, connection: int, trace: Trace, streams: dict[str, bytes], secret: Sequence[DecryptedMessage]
    ) -> Iterator[Observation]:
        """Run the inferences on this connection and yield the wanted observations."""
        found = self._batch.found
        most = OPENING_MOST if trace.probe == "rwin" else PACKETS_MOST
        begin, end = int(found.begin[connection]), int(found.end[connection])
        frames = found.rows.frame[begin : min(end, begin + most)].tolist()
        for one in traces_of(trace, packets_of(self._batch, connection, most=most), streams, secret):
            for observation in read(one, self._wanted):
                if not self._is_wanted(connection, observation):
                    continue
                evidence = tuple(sorted({frames[n] for n in observation.evidence if n < len(frames)}))
                yield _without_inexact(replaced(observation, observation.trace_id, evidence), self._inexact(connection))

    def _first_flight(self, connection: int, trace: Trace) -> Iterator[Observation]:
        """Yield the windows that the first flight shows; nothing where ACKs were withheld."""
        if not self._reads_flight[connection]:
            return
        begin, end = (int(edge[connection]) for edge in self._flight_edges)
        flight = [column[connection].item() for column in self._batch.summary.flights]
        for observation in windows(trace, flight, tuple(self._flight_frames[begin:end].tolist())):
            yield _without_inexact(observation, self._inexact(connection))

    def _at_request(self, connection: int, trace: Trace) -> Iterator[Observation]:
        """Yield the window at the first request inside TLS whose answer is longer than a segment.

        A flight that opens with a ServerHello answers no request, but a second ClientHello.
        """
        knob, known = "cwnd_at_request", self._batch.heads.kept
        heads = ((one, known.get(one.frames[0])) for one in self.later(connection))
        asked = (one for one, head in heads if head is None or not hello(head.payload))
        if (one := next(asked, None)) is None:
            return
        rtt_ns = max(int(self._batch.summary.columns["rtt"][connection]), 0)
        was_idle = one.silent_ns > rtt_ns + max(IDLE_MIN_S * 1e9, IDLE_RTTS * rtt_ns)
        doubt = "after-idle" if was_idle else "after-loss" if one.again else ""
        details, method = _flight_details(one.flight)
        grade = "C" if one.proof == PROVEN and not doubt else "L"
        details |= {"proof": doubt} if doubt and one.proof == PROVEN else {}
        yield yes(knob, one.segments, trace, "segments", method, grade, tuple(one.frames), details)

    def _over_idle(self, connection: int, trace: Trace) -> Iterator[Observation]:
        """Yield whether the window restarted in an idle time; nothing if the server repeated data, or heard of a mark.

        Without these a window only grows, and by no more segments than were sent; a flight is a lower bound of it.
        """
        later, columns, found = self.later(connection), self._batch.summary.columns, self._batch.found
        marks = found.rows.flags[int(found.begin[connection]) : int(found.end[connection])] & (ECE | SYN)
        if any(columns[f"server_{kind}"][connection] for kind in KINDS) or (marks == ECE).any():
            return
        initial, _, _, proof, *_, again = (int(column[connection]) for column in self._batch.summary.flights)
        timeout_ns = max(LONGEST_S * 1e9, 6 * columns["rtt"][connection])
        sure, since = [initial] if PROOFS[proof] == PROVEN and not again else [], 0
        for at in (n for n, one in enumerate(later) if n and one.why == "idle"):
            one, before = later[at], [each.segments for each in later[since:at]]
            # The window was never smaller than the initial one, so an exact one is no smaller than that.
            exact = next(iter([*sure, *(each.segments for each in later[:at] if each.grade == "C")]), 0)
            times = int(one.silent_ns // timeout_ns)
            most = max(exact, USUAL, exact + one.sent // one.flight[2] >> times) if exact and times else math.inf
            value = kept((initial, max(before)), one.segments, most)
            if value == "off" or value == "on" and one.grade == "C":
                details: dict[str, Value] = {"before": tuple(before), "after": one.segments}
                yield yes("slow_start_after_idle", value, trace, "", OVER_IDLE, "C", tuple(one.frames), details)
                return
            since = at

    def _inexact(self, connection: int) -> str:
        """Return the reason why counts and times of this connection are not exact; "" if they are."""
        return self._why or CLOCKS[int(self._batch.summary.columns["clock"][connection])]

    def _is_wanted(self, connection: int, observation: Observation) -> bool:
        if self._wanted is not None and observation.knob not in self._wanted:
            return False
        return not ((observation.reason or "").startswith(UNASKED) or self._unseen(connection, observation))

    def _unseen(self, connection: int, observation: Observation) -> bool:
        """Return whether an observation needs packets not captured: a missing SYN, or the options of one."""
        if self._like.cut[connection] and observation.knob in OPTIONS:
            return True
        if self._like.whole[connection] or not self._like.went_on[connection]:
            return False
        # A client that goes on after a SYN-ACK had one, though it is not here.
        return observation.reason == "no-synack" or observation.knob in OPENING


def _probes_read(wanted: frozenset[str] | None) -> frozenset[str]:
    """Return the probes whose traces hold a wanted knob."""
    rows = (row for row in INFERENCES.values() if wanted is None or not wanted.isdisjoint(row.knobs))
    return frozenset(probe for row in rows for probe in row.probes)


def _flight_frames(batch: Batch) -> tuple[Column, tuple[Column, Column]]:
    """Return the frame numbers of all first flights, and where those of each connection begin and end in them."""
    found, flights = batch.found, batch.summary.flights
    row = np.arange(found.rows.size)
    within = (row >= flights.first[found.of]) & (row <= flights.last[found.of])
    index = np.flatnonzero(within & found.server & (found.rows.length > 0))
    return found.rows.frame[index], edges(found.of[index], found.total)


def _marked(one: Observation, frames: list[int]) -> Observation:
    """Return an observation with marks in place of its frames and of a flight's bytes: `template`."""
    if one.method not in METHOD:
        return replaced(one, one.trace_id, tuple(-1 - frames.index(frame) for frame in one.evidence))
    details = tuple((name, BYTES if name == "bytes" else value) for name, value in one.details)
    return replace(one, evidence=(FLIGHT,) if one.evidence else (), details=details)


def replaced(
    one: Observation, trace_id: str, evidence: tuple[int, ...], details: tuple[tuple[str, Value], ...] | None = None
) -> Observation:
    """Return the observation for another trace and its frames; `dataclasses.replace` takes three times as long."""
    same = one.knob, one.value, one.reason, one.unit, one.method, one.grade
    return Observation(*same, trace_id, evidence, one.trials, one.details if details is None else details)


@lru_cache(maxsize=4096)
def _offer(options: bytes) -> bytes:
    """Return kinds, lengths and data of a SYN's options; of timestamps no data."""
    every = ((kind, b"" if kind == OPT_TIMESTAMPS else data) for kind, data in read_options(options))
    return b"".join(bytes((kind, len(data))) + data for kind, data in every)


def _without_inexact(found: Observation, why: str) -> Observation:
    """Replace the value of a count or a time by the reason `why` it is not exact; "": return it unchanged.

    That the first segment was lost is such a value: without times no segment is before the first ACK.
    """
    if not why or found.knob not in COUNTED or (found.value is None and found.reason != REASONS["beginning-lost"]):
        return found
    return no(found.knob, why, Trace(found.trace_id, Target(""), "", ""), found.unit, found.method)


def windows(trace: Trace, flight: Sequence[int], evidence: tuple[int, ...]) -> Iterator[Observation]:
    """Yield the first flight as a verdict on the initial window.

    After a repeated SYN-ACK the window may have been cut to one segment (RFC 5681 3.1): then the flight shows the
    window at the request, and of the initial one that it is no smaller.
    """
    segments, again = flight[0], flight[-1]
    details, method = _flight_details(flight)
    if (name := str(details["proof"])) in REASONS:
        reason = "synack-repeated" if again and name == "no-data" else REASONS[name]
        yield no("icw", reason, trace, "segments", method)
        return
    grade = "C" if name == PROVEN else "L"
    if not again:
        yield yes("icw", segments, trace, "segments", method, grade, evidence, details)
        return
    if segments > 1:
        bound: dict[str, Value] = {**details, "proof": "synack-repeated"}
        yield yes("icw", segments, trace, "segments", method, "L", evidence, bound)
    else:
        yield no("icw", "synack-repeated", trace, "segments", method)
    yield yes("cwnd_at_request", segments, trace, "segments", method, grade, evidence, details)


def _flight_details(flight: Sequence[int]) -> tuple[dict[str, Value], str]:
    """Return the details of a flight, and the method."""
    _, size, mss, proof, stamped, _, _, merged, sack, _ = flight
    details: dict[str, Value] = {"bytes": size, "mss": mss, "proof": PROOFS[proof], "timestamps": bool(stamped)}
    details["sack"] = bool(sack)
    return details | ({"merged": True} if merged else {}), METHOD[not stamped]
