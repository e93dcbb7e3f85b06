# SPDX-License-Identifier: MIT
"""A connection's time by what limited it: each wait to its cause, all of them to the duration, in words."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from configtron.fingerprint.passive.connection_report import ConnectionReport
from configtron.model.nouns import ACK, FIN, PSH
from configtron.report.slow_because import slow_because
from tests.support import capture_bytes as write
from tests.support.made_capture import FULL, Conversation, Step, acked, flight, says, talk, written
from tests.support.read_capture import reports

# Two addresses: documentation's without its prefix, as `capture_bytes` has them.
SIX = bytes(15) + b"\1" + bytes(15) + b"\2"
ANSWER = flight(0.2, 0, 10), acked(10, 0.21)
SHUT = tuple(step for n in range(3) for step in (
    lambda c, n=n: setattr(c, "window", 0), acked(10, 1.0 + n), lambda c: setattr(c, "window", 65535)))  # fmt: skip


def too_big(port: int = 40000, version: int = 4, kind: tuple[int, int] = (3, 4), mtu: int = 1280) -> Step:
    """A router's message that the server's packet to this port was too big."""
    ports = struct.pack(">HHI", 80, port, 1)
    if version == 4:
        ends = bytes((198, 51, 100, 2, 192, 0, 2, 1))
        body = struct.pack(">BBHHH", *kind, 0, 0, mtu) + _ip4(6, 1500) + ends + ports
        packet = _ip4(1, 20 + len(body)) + ends[4:] + ends[:4] + body
    else:
        # It was on its way to another address before the client's.
        way = struct.pack(">BBBBI", 6, 2, 4, 1, 0) + SIX[:16]
        quoted = struct.pack(">IHBB", 6 << 28, 32, 43, 64) + SIX[16:] + b"\xfd" + bytes(15) + way + ports
        body = struct.pack(">BBHI", 2, 0, 0, 1280) + quoted
        packet = struct.pack(">IHBB", 6 << 28, len(body), 58, 64) + SIX + body
    return lambda c: c.frames.append((round(1000.3e9), packet))


def _ip4(protocol: int, size: int) -> bytes:
    return struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0, 64, protocol, 0)


def read(conversation: Conversation, folder: Path) -> ConnectionReport:
    (one,), _ = reports(written(conversation.frames, folder))
    assert sum(share.ns for share in one.limits) == int(one.numbers["ended"] or 0) - one.started_ns
    return one


@pytest.mark.parametrize(("steps", "limit", "grade", "seconds", "words"), [
    ((flight(2.2, 0, 10), acked(10, 2.21)), "server", "C", 2.0, "slow first byte: server thought 2.0 s"),
    ((*ANSWER, says(0, 3.2, ACK | PSH, 101, 1 + 10 * FULL, 50), flight(3.3, 10, 1)),
     "client", "C", 2.99, "client thought 3.0 s"),
    ((*ANSWER, flight(3.2, 10, 1), acked(11, 3.2)), "sender", "C", 3.0, "sender's application or buffer 94 %"),
    ((*ANSWER, lambda c: c.end(0.6, 10), lambda c: c.end(5.2, 10)), "end", "C", 4.9, "open 4.9 s after the last data"),
    ((says(1, 0.2, ACK, 1, 101), says(0, 4.0, ACK | FIN, 101, 1)), "server", "C", 3.8,
     "server did not answer for 3.8 s"),
    # the window closes, and opens after three seconds
    ((*ANSWER, *SHUT, acked(10, 4.0), flight(4.1, 10, 1), acked(11, 4.1)), "receive-window", "B", 3.0,
     "receive window 73 %; zero window: client's 3 x"),
    # nothing came but acknowledgements: what the other side sent is not known
    ((acked(0, 0.4), acked(5, 1.0), acked(9, 3.0)), "unknown", "N", 2.9, "unknown 97 %"),
    # only what the server sent
    ((*ANSWER, lambda c: setattr(c, "frames", c.frames[1:2] + c.frames[4:-1])), "unknown", "N", 0.1, "unknown 100 %"),
    # the capture begins with the request
    ((*ANSWER, lambda c: c.frames.__delitem__(slice(3))), "round-trip", "C", 0.1, "round trips 93 %"),
    # frames of six packets each, and no MSS is known
    ((says(1, 0.2, ACK, 1, 101), acked(0, 0.2), says(1, 0.32, ACK, 1, 101, 6000), says(0, 0.32, ACK, 101, 6001),
      says(1, 3.3, ACK, 6001, 101, 6000), lambda c: setattr(c, "frames", [
          (at, one[:5] + bytes([(0, 1, 0, 2, 0, 9)[n]]) + one[6:]) for n, (at, one) in enumerate(c.frames[3:])
      ])), "sender", "C", 3.0, "sender's application or buffer 93 %"),
    # the window never opens
    ((lambda c: setattr(c, "window", 0), says(1, 0.2, ACK, 1, 101), acked(0, 0.2), says(1, 4.0, ACK, 1, 101)),
     "receive-window", "B", 3.8, "receive window 95 %; zero window: client's 1 x, server's 2 x"),
])  # fmt: skip
def test_each_wait_has_its_cause(
    steps: tuple[Step, ...], limit: str, grade: str, seconds: float, words: str, tmp_path: Path
) -> None:
    one = read(talk(*steps), tmp_path)
    first = one.limits[0]
    assert (first.limit, first.grade) == (limit, grade), one.limits
    assert first.ns / 1e9 == pytest.approx(seconds, abs=0.12) and slow_because(one.numbers) == words


@pytest.mark.parametrize(("message", "told"), [
    (too_big(), 1280), (too_big(40001), None), (too_big(kind=(3, 1)), None), (too_big(version=6), None),
    (too_big(mtu=0), 0),
])  # fmt: skip
def test_a_router_names_the_connection(message: Step, told: int | None, tmp_path: Path) -> None:
    one = read(talk(*ANSWER, message), tmp_path)
    assert (one.numbers["frag_needed"], one.numbers["frag_needed_mtu"]) == (int(told is not None), told)
    assert slow_because(one.numbers).partition("; ICMP fragmentation needed 1 x")[2] == (", MTU 1280" if told else "")


def test_a_router_names_the_connection_over_ipv6(tmp_path: Path) -> None:
    frames = [
        (at, frame.replace(bytes.fromhex("20010db8") + bytes(11), bytes(15))) for at, frame in write.conversation(6)
    ]
    talked = talk(too_big(version=6))
    (one,), _ = reports(written([*frames, (frames[-1][0] + 1, talked.frames[-1][1])], tmp_path))
    assert (one.numbers["frag_needed"], one.numbers["frag_needed_mtu"]) == (1, 1280)


@pytest.mark.parametrize("seed", range(8))
def test_shares_add_up_whatever_the_rows(seed: int, tmp_path: Path) -> None:
    """Random numbers, flags and lengths, read at once and in parts."""
    random = np.random.default_rng(seed)
    conversation = Conversation(opened=bool(seed % 2))
    for n in range(400):
        flags = int(random.choice([16, 24, 17, 2, 18, 4, 20]))
        way, seq, ack, size = random.integers([0, 0, 0, 0], [2, 1 << 16, 1 << 16, 3]).tolist()
        conversation.send(way, 1 + n / 100, flags, seq, ack, size * 700)
    for most in (None, 50):
        found, _ = reports(written(conversation.frames, tmp_path), most=most, buffer=1 << 12)
        for one in found:
            whole = int(one.numbers["ended"] or 0) - one.started_ns
            assert one.clock or sum(share.ns for share in one.limits) == whole


@pytest.mark.parametrize(("size", "limit"), [(FULL, "timeout"), (2 * FULL, "sender")])
def test_a_merged_frame_counts_no_packets(size: int, limit: str, tmp_path: Path) -> None:
    """Two packets are missing before the last segment, unless the frame before it was merged of some."""
    sizes = [FULL, FULL, FULL, size, FULL]
    ends = [sum(sizes[:n]) for n in range(6)]
    steps = [step for n in range(5) for step in (
        says(1, 0.2 + n * 0.1 + (n == 4) * 2, ACK, 1 + ends[n], 101, sizes[n]),
        says(0, 0.21 + n * 0.1 + (n == 4) * 2, ACK, 101, 1 + ends[n + 1]))]  # fmt: skip
    conversation = talk(*steps)
    theirs = [n for n, (_, frame) in enumerate(conversation.frames) if frame[12] == 198]
    for count, n in enumerate(theirs):
        at, frame = conversation.frames[n]
        ident = struct.pack(">H", 100 + count + 2 * (n == theirs[-1]))
        conversation.frames[n] = at, frame[:4] + ident + frame[6:]
    (_, most) = max((share.ns, share.limit) for share in read(conversation, tmp_path).limits)
    assert most == limit


@pytest.mark.parametrize(("grows", "lost", "limit"), [
    (0, (), "sender"), (1, (), "congestion"), (0, (20,), "congestion"), (0, (1, 290), "congestion"),
])  # fmt: skip
def test_a_level_flight_stays_level_over_parts(grows: int, lost: tuple[int, ...], limit: str, tmp_path: Path) -> None:
    """Flights of four segments or more, each released by the ACK of the one before."""
    conversation, sent = Conversation(mss=200), 0
    for n in range(600 - 300 * grows):
        at, many = 0.2 + n / 10, 4 + grows * n // 3
        conversation.flight(at, sent, many, skip=(0,) if n in lost else (), size=188)
        if n in lost:
            for k in range(1, 4):
                conversation.ack(at + 0.001 * k, sent, size=188)
            conversation.flight(at + 0.05, sent, 1, size=188)
        conversation.ack(at + 0.0999, sent := sent + many, size=188)
    path = written(conversation.frames, tmp_path)
    for most in (None, 1100, 1400, 2000):
        (one,), _ = reports(path, most=most, buffer=1 << 14)
        assert one.limits[0].limit == limit, (most, one.limits)
