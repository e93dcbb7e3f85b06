# SPDX-License-Identifier: MIT
"""A batch -> a report of each connection: numbers of both sides, and observations with grades.

Question   Which values does a recording prove that no probe of ours made?
Method     Everything the inferences read in the connection's traces, but the initial window, which they read only where
           the ACKs were withheld; else it is the first flight's (`first_flight.py`).
Reads as   grades C, L and N, as of any single trial. Nothing exact of a capture that lost frames, nothing about missing
           packets: a missing SYN, one side only, a merged frame are reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import NamedTuple

from configtron.fingerprint import negotiated_options, read, syn_cookies, synack_rto
from configtron.fingerprint.passive.columns import ABSENT, FILE_SHIFT, FRAME_MASK, Endpoint
from configtron.fingerprint.passive.first_flight import NONE, PROOFS
from configtron.fingerprint.passive.gathering import Batch
from configtron.fingerprint.passive.summary import CONNECTION_COLUMNS, SIDES
from configtron.fingerprint.passive.tls import Hello, hello
from configtron.fingerprint.passive.traces import (
    DecryptedMessage,
    Opener,
    end_of,
    options_cut,
    spoken,
    target_of,
    traces_of,
)
from configtron.fingerprint.verdict import no, yes
from configtron.model.nouns import Observation, Target, Trace, Value

# A round trip's share below which that end is here: a network interface away.
HERE = 0.1
METHOD = "first flight by timestamps", "first flight by time"
# Where an inference finds nothing because no probe asked for it, an absent row is clearer than a reason.
UNASKED = ("unclear:", "no-repeat")
# Knobs read from options of SYNs, and those read from the handshake as a whole.
OPTIONS = frozenset((*negotiated_options.KNOBS, "rwin", "rwin_ts", "rwin_first_ack", "signature", "stack", "ecn"))
OPENING = frozenset((*synack_rto.KNOBS, *syn_cookies.KNOBS, *OPTIONS))
REASONS = {
    "no-handshake": "unclear:no-handshake",
    "options-cut": "unclear:options-cut",
    "one-sided": "unclear:one-sided",
    "beginning-lost": "unclear:first-segment-lost",
    "no-data": "no-data",
}


class ConnectionReport(NamedTuple):
    """One connection. `numbers` by the names of `CONNECTION_COLUMNS`, None where unknown; times in s, bytes, counts."""

    file: int
    frame: int
    started_ns: int
    client: Endpoint
    server: Endpoint
    numbers: dict[str, float | None]
    place: str
    merged: bool
    hellos: tuple[Hello | None, Hello | None]
    observations: tuple[Observation, ...]
    target: Target
    incomplete: bool = False

    @property
    def duration_s(self) -> float:
        """First to last segment."""
        return ((self.numbers["ended"] or 0) - self.started_ns) / 1e9


def report_connections(
    batch: Batch, files: list[str], *, tainted: bool = False, unread: bool = False, stepped: bool = False,
    opener: Opener | None = None,
) -> Iterator[ConnectionReport]:  # fmt: skip
    """Report each connection that is over, in order.

    tainted   the capture lost frames
    unread    it holds unreadable frames, in which there may be segments of any connection
    stepped   the clock was set, so times are not certain
    opener    returns the messages that TLS keys decrypt
    """
    why = "drops" if tainted else "clock-step" if stepped else "unclear:unread-frames" if unread else ""
    columns = {name: column[batch.over].tolist() for name, column in batch.summary.columns.items()}
    flights = [column[batch.over].tolist() for column in batch.summary.flights]
    for place, connection in enumerate(batch.over.tolist()):
        numbers = {name: _number(name, column[place]) for name, column in columns.items()}
        where = int(columns["frame"][place])
        flight = tuple(column[place] for column in flights)
        file = where >> FILE_SHIFT
        ends = end_of(batch, connection, server=False), end_of(batch, connection, server=True)
        streams = spoken(batch, connection)
        hellos = hello(streams["client"]), hello(streams["server"])
        secret: Sequence[DecryptedMessage] = ()
        if opener is not None and hellos[0] is not None:
            last = int(batch.found.rows.frame[int(batch.found.end[connection]) - 1])
            secret = opener(file, *ends, where & FRAME_MASK, last & FRAME_MASK)
            hellos = hellos[0], _with_alpn(hellos[1], secret)
        traces = traces_of(batch, connection, streams, file=files[file], secret=secret)
        yield ConnectionReport(
            file, where & FRAME_MASK, columns["started"][place], *ends,
            numbers, _place(numbers), bool(flight[7]), hellos,
            tuple(_observations(batch, connection, traces, flight, why)), target_of(batch, connection), bool(why),
        )  # fmt: skip


def _with_alpn(answered: Hello | None, secret: Sequence[DecryptedMessage]) -> Hello | None:
    alpn = next((message.alpn for message in secret if message.alpn), "")
    return answered._replace(alpn=(alpn,)) if answered is not None and alpn else answered


def _number(name: str, value: int) -> float | None:
    if value == ABSENT and CONNECTION_COLUMNS[name].join != "sum":
        return None
    return value / 1e9 if CONNECTION_COLUMNS[name].unit == "ns" and name.startswith("rtt") else value


def _place(numbers: dict[str, float | None]) -> str:
    """Return where the capture stood: at the client, at the server, between, or "" (unknown)."""
    whole, server, client = numbers["rtt"], numbers["rtt_server"], numbers["rtt_client"]
    if not whole or server is None or client is None:
        return ""
    return "client" if client < HERE * whole else "server" if server < HERE * whole else "between"


def _observations(
    batch: Batch, connection: int, traces: list[Trace], flight: tuple[int, ...], why: str
) -> Iterator[Observation]:
    """Everything that is read; evidence by the file's frame numbers, not the connection's."""
    found = batch.found
    begin, end = int(found.begin[connection]), int(found.end[connection])
    unseen = _unseen(batch, connection)
    for trace in traces:
        for observation in read(trace):
            if (observation.reason or "").startswith(UNASKED) or unseen(observation):
                continue
            rows = [begin + n for n in observation.evidence if begin + n < end]
            numbers = (found.rows.frame[rows] & FRAME_MASK).tolist() if rows else ()
            yield _weaker(replace(observation, evidence=tuple(sorted(set(numbers)))), why)
    if traces[0].probe == "rwin":
        first, last = flight[5], flight[6] + 1
        data = found.server[first:last] & (found.rows.length[first:last] > 0)
        numbers = (found.rows.frame[first:last][data] & FRAME_MASK).tolist()
        for observation in windows(traces[0], flight, tuple(numbers)):
            yield _weaker(observation, why)


def _unseen(batch: Batch, connection: int) -> Callable[[Observation], bool]:
    """Return a filter of the observations that need packets not captured: a missing SYN, or the options of one."""
    found = batch.found
    begin, end = int(found.begin[connection]), int(found.end[connection])
    whole = bool(found.opened[connection].all())
    # A client that goes on after a SYN-ACK had one, though it is not here.
    went_on = bool((~found.server[begin:end] & (found.ack[begin:end] > 0)).any()) or not found.opened[connection, 0]
    cut = options_cut(batch, connection)

    def unseen(observation: Observation) -> bool:
        if cut and observation.knob in OPTIONS:
            return True
        return not whole and went_on and (observation.reason == "no-synack" or observation.knob in OPENING)

    return unseen


# Counts and times: frames missing from a capture make them wrong.
COUNTED = frozenset(("icw", "cwnd_at_request", "data_rto", "min_rto", *synack_rto.KNOBS, *syn_cookies.KNOBS))


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


def address(end: Endpoint) -> str:
    """An end's address as text."""
    return str(ip_address(end.address))


def goodput_kbps(connection: ConnectionReport, side: str) -> float | None:
    """Return bytes of the stream over the time from its first data to its last, in kbit/s; None for a single burst."""
    first, last, size = (connection.numbers[f"{side}_{name}"] for name in ("first_data", "last_data", "bytes"))
    if first is None or last is None or not size or last <= first:
        return None
    return size * 8e6 / (last - first)


def loss(connection: ConnectionReport, side: str) -> float | None:
    """Return the share of data segments that had to be sent again; None if there were none."""
    data = connection.numbers[f"{side}_data"]
    again = sum(connection.numbers[f"{side}_{cause}"] or 0 for cause in ("rto", "fast", "other"))
    return again / data if data else None


def ended(connection: ConnectionReport) -> str:
    """Return how it ended: "fin", "reset" or "open"."""
    numbers = connection.numbers
    if any(numbers[f"{side}_resets"] for side in SIDES):
        return "reset"
    return "fin" if all(numbers[f"{side}_fins"] for side in SIDES) else "open"
