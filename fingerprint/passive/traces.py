# SPDX-License-Identifier: MIT
"""A foreign connection as a trace, so that the same inferences read it that read our own probes.

Question   Which of our probes is this conversation like, and which trace would that probe have recorded?
Method     One end is taken for us: its segments went "out". `likeness.py` finds the probe. The clear parts of TLS and
           HTTP make a second trace.
Reads as   traces whose packets have relative numbers, the options of SYNs, timestamps, and the heads of streams.
Differs    from a trace of our own: SACK blocks and payloads beyond the heads were not kept; frames count from the
           connection's first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

from configtron.fingerprint.head import final, head_fields, head_status, status_version
from configtron.fingerprint.passive.columns import DF, STAMPED, Column, Endpoint
from configtron.fingerprint.passive.gathering import SPOKEN_MOST, Batch
from configtron.fingerprint.passive.tls import hello
from configtron.fingerprint.schedule import schedule_of
from configtron.fingerprint.stream import NEAR_S, handshake_of
from configtron.model.nouns import (
    ACK,
    OPT_NOP,
    OPT_SACK_PERMITTED,
    OPT_TIMESTAMPS,
    SYN,
    Message,
    Packet,
    Segment,
    Session,
    Target,
    Trace,
    Value,
)  # fmt: skip

# A first flight and its proof lie well within; a trace is not a copy of a download.
PACKETS_MOST = 600
# Of a conversation like `rwin` only the opening is read: handshake, request, its first ACK, the answer's head.
OPENING_MOST = 20
# How HTTP/2 opens (RFC 9113 3.4), and how long its client preface is.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
H2, HTTP1 = "h2", "http/1.1"
# The token of a request that offers HTTP/2 in clear, and the status that takes it up (RFC 7540 3.2).
H2C, SWITCHING = "h2c", 101
IPV4_BYTES = 4
# TLS versions whose servers answer ALPN in clear.
CLEAR_ALPN = ("SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2")


class DecryptedMessage(NamedTuple):
    """A message that a TLS key decrypted: the server's ALPN answer, or HTTP/2 frames. `way` as a client sees it."""

    frame: int
    way: str
    alpn: str
    data: bytes


# Who opens them: (file, client, server, first frame, last frame) -> the decrypted messages of that connection.
Opener = Callable[[int, Endpoint, Endpoint, int, int], Sequence[DecryptedMessage]]


@lru_cache(maxsize=4096)
def read_options(data: bytes) -> tuple[tuple[int, bytes], ...]:
    """Return TCP options in wire order, as far as the list makes sense."""
    options: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data) and data[at]:
        size = 1 if data[at] == OPT_NOP else data[at + 1] if at + 1 < len(data) else 0
        if size < 1 or at + size > len(data) or (size == 1 and data[at] != OPT_NOP):
            break
        options.append((data[at], data[at + 2 : at + size]))
        at += size
    return tuple(options)


def without_times(options: bytes) -> bytes:
    """Return a SYN's options; where they begin as Linux's do (MSS, SACK, times), with no times but TSval 1 or 0."""
    if options[:2] != b"\x02\x04" or options[4:8] != b"\x04\x02\x08\x0a" or len(options) < 16:
        return options
    return options[:8] + bytes((0, 0, 0, any(options[8:12]), 0, 0, 0, 0)) + options[16:]


def packets_of(
    batch: Batch, connection: int, *, observer: str = "client", most: int = PACKETS_MOST
) -> tuple[Packet, ...]:
    """Return the connection's packets as `observer` ("client" or "server") would have sent and heard them."""
    found = batch.found
    begin = int(found.begin[connection])
    part = slice(begin, min(int(found.end[connection]), begin + most))
    rows = [column[part].tolist() for column in found.rows]
    (at, frame, pair, _, _, _, flags, window, length, tsval, tsecr, _, _, ttl, tos, ident, bits, *_) = rows
    version = batch.ends.version(pair[0])
    theirs = "server" if observer == "client" else "client"
    started, kept = at[0], batch.heads.kept
    packets = []
    for row, (server, seq, ack) in enumerate(
        zip(found.server[part].tolist(), found.seq[part].tolist(), found.ack[part].tolist(), strict=True)
    ):
        head = kept.get(frame[row])
        if head is not None and head.options:
            options = read_options(head.options)
        elif bits[row] & STAMPED:
            stamps = tsval[row].to_bytes(4, "big") + tsecr[row].to_bytes(4, "big")
            options = ((OPT_NOP, b""), (OPT_NOP, b""), (OPT_TIMESTAMPS, stamps))
        else:
            options = ()
        acknowledged = ack if flags[row] & ACK else 0
        payload = head.payload if head is not None else b""
        segment = Segment(flags[row], seq, acknowledged, window[row], options, payload, length[row])
        way = "in" if ("server" if server else "client") == theirs else "out"
        envelope = (version, ttl[row], tos[row], ident[row], bool(bits[row] & DF))
        packets.append(Packet((at[row] - started) / 1e9, way, segment, row, *envelope))
    return tuple(packets)


def traces_of(trace: Trace, packets: tuple[Packet, ...], streams: dict[str, bytes],
              secret: Sequence[DecryptedMessage] = ()) -> list[Trace]:  # fmt: skip
    """Return the traces that a connection makes: `trace` with its packets; those of clear text (`streams`) or decrypted
    messages."""
    params = _asked(packets) if trace.probe == "icw" else ()
    whole = Trace(trace.id, trace.target, trace.vantage, trace.probe, params, trace.started_at, packets)
    return [whole, *_half_open(whole), *_spoken(whole, streams, secret)]


def target_of(server: Endpoint) -> Target:
    """Return the server's end as a target."""
    name = address_text(server.address)
    return Target(name, name, server.port)


@lru_cache(maxsize=4096)
def address_text(address: bytes) -> str:
    """Return an address of 4 or 16 bytes as text."""
    return ".".join(map(str, address)) if len(address) == IPV4_BYTES else str(ip_address(address))


def ends_of(batch: Batch, connections: Column) -> list[tuple[Endpoint, Endpoint]]:
    """Return client and server of each of these connections."""
    found = batch.found
    pairs, clients = found.rows.pair[found.begin[connections]].tolist(), found.client[connections].tolist()
    return [ends[::-1] if client else ends for ends, client in zip(batch.ends.of(pairs), clients, strict=True)]


def spoken(batch: Batch, connection: int) -> dict[str, bytes]:
    """Return how each side's stream opens, as far as it was kept, from the first byte on without a hole."""
    found, kept = batch.found, batch.heads.kept
    begin, end = int(found.begin[connection]), int(found.end[connection])
    end = min(end, begin + SPOKEN_MOST)
    streams = {"client": b"", "server": b""}
    for row, frame in enumerate(found.rows.frame[begin:end].tolist(), begin):
        head = kept.get(frame)
        if head is None or not head.payload:
            continue
        side = "server" if found.server[row] else "client"
        at = int(found.seq[row]) + bool(found.rows.flags[row] & SYN) - 1
        if at <= len(streams[side]):
            streams[side] = streams[side][:at] + head.payload if at >= 0 else streams[side]
    return streams


def _half_open(trace: Trace) -> list[Trace]:
    """Return SYN and SYN-ACKs of a handshake that ended late, as `rto` would have recorded them.

    A copy that was lost before the capture would lengthen the timer: it stands at the server, or the waits double.
    """
    opening = handshake_of(trace.packets)
    repeats = opening.repeats(trace.packets)
    if trace.probe == "rto" or not repeats or opening.rtt_s is None:
        return []
    schedule = schedule_of([gap_s for _, gap_s in repeats])
    if opening.rtt_s > NEAR_S and (schedule.kind != "exponential" or schedule.missed):
        return []
    packets = tuple(p for p in trace.packets if p.segment.flags & SYN)
    return [Trace(trace.id, trace.target, trace.vantage, "rto", (), trace.started_at, packets)]


def _spoken(trace: Trace, streams: dict[str, bytes], secret: Sequence[DecryptedMessage]) -> list[Trace]:
    """Return traces of TLS and of plain HTTP/2, if the streams open so."""
    asked, answered = hello(streams["client"]), hello(streams["server"])
    found = []
    if asked is not None and answered is not None and answered.versions:
        version = answered.versions[0]
        alpn = next((message.alpn for message in secret if message.alpn), next(iter(answered.alpn), ""))
        session = Session(version, alpn)
        # Asked for one of them only, a server has no choice to show.
        if {H2, HTTP1} <= set(asked.alpn) and (alpn or version in CLEAR_ALPN):
            found.append(_again(trace, "http_version", (("way", "tls"),), (), session))
        messages = tuple(Message(0.0, message.way, message.data) for message in secret if message.data)
        if messages:
            found.append(_again(trace, "h2_settings", (), messages, Session(version, H2)))
    elif streams["client"].startswith(PREFACE[:14]) and streams["server"]:
        heard = (Message(0.0, "out", PREFACE), Message(0.0, "in", streams["server"]))
        found.append(_again(trace, "http_version", (("way", "h2c"),), heard, None))
        found.append(_again(trace, "h2_settings", (), heard, Session("", H2)))
    elif streams["server"] and _offers_h2c(streams["client"]):
        found += _upgraded(trace, streams["server"])
    return found


def _offers_h2c(request: bytes) -> bool:
    """Return whether an HTTP/1 request offers to go on in HTTP/2."""
    offers = ",".join(value for name, value in head_fields(request) if name == "upgrade")
    return H2C in (token.strip().lower() for token in offers.split(","))


def _upgraded(trace: Trace, answer: bytes) -> list[Trace]:
    """Return the traces of a connection whose client offered HTTP/2 by Upgrade, if the server took it up and its frames
    came.

    One that goes on in HTTP/1 may speak HTTP/2 all the same: that is no evidence.
    """
    head, _, rest = final(answer).partition(b"\r\n\r\n")
    if status_version(head) is None or head_status(head) != SWITCHING or not rest:
        return []
    heard = (Message(0.0, "in", rest),)
    return [
        _again(trace, "http_version", (("by", "upgrade"), ("way", "h2c")), heard, None),
        _again(trace, "h2_settings", (), heard, Session("", H2)),
    ]


def _again(
    trace: Trace, probe: str, params: tuple[tuple[str, Value], ...], messages: tuple[Message, ...],
    session: Session | None
) -> Trace:  # fmt: skip
    same = trace.id, trace.target, trace.vantage
    return Trace(*same, probe, params, trace.started_at, trace.packets, messages, session)


def _asked(packets: tuple[Packet, ...]) -> tuple[tuple[str, Value], ...]:
    """Return the parameters of a script that would have held this conversation."""
    copies = sum(p.way == "in" and p.segment.seq == 1 and p.segment.length > 0 for p in packets)
    repeats: tuple[tuple[str, Value], ...] = (("repeats", copies - 1),) if copies > 1 else ()
    return (*repeats, ("sack", True)) if _sack(packets) else repeats


def _sack(packets: tuple[Packet, ...]) -> bool:
    return bool(packets) and packets[0].segment.option(OPT_SACK_PERMITTED) is not None
