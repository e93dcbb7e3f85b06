# SPDX-License-Identifier: MIT
"""Captures of foreign origin: what they do not show is not claimed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configtron.fingerprint.passive.connection_report import ConnectionReport
from configtron.fingerprint.passive.connections import unwrapped
from configtron.fingerprint.passive.retransmissions import CAUSES
from configtron.model.nouns import ACK, RST, SYN, Observation
from configtron.report.connections import Servers
from configtron.service.capture import CaptureReading
from tests.support import capture_bytes as write
from tests.support.made_capture import FULL, MSS, RTT_S, Conversation, seen, written
from tests.support.read_capture import reports

ASKED = RTT_S + 0.001
FLIGHT = ASKED + RTT_S
NS = 1_000_000_000
MSS_1460, MSS_1000 = ((2, b"\x05\xb4"),), ((2, b"\x03\xe8"),)

# Numbers that say at which frame something stands.
FRAMES = re.compile(r"^frame$|_first$|_last$")


def proven(count: int = 10, size: int = FULL, **more: Any) -> Conversation:
    """An initial window of so many segments, as exact as a capture shows it."""
    conversation = Conversation(mss=size + MSS - FULL, **more)
    conversation.flight(FLIGHT, 0, count, echo_s=ASKED, size=size)
    conversation.ack(FLIGHT + 0.002, count, size=size)
    conversation.flight(FLIGHT + 0.002 + RTT_S, count, 4, size=size)
    conversation.ack(FLIGHT + 0.003 + RTT_S, count + 4, size=size)
    return conversation


def asked(synacks_s: Iterable[float] = (), *, offer: Any = MSS_1460, **more: Any) -> Conversation:
    """A SYN, and SYN-ACKs at these times: all that there is."""
    conversation = Conversation(opened=False, asked=False, **more)
    conversation.send(0, 0, SYN, 0, 0, options=offer)
    for at in synacks_s:
        conversation.send(1, at, SYN | ACK, 0, 1, options=offer)
    return conversation


def read_back(frames: Sequence[write.Stamped], folder: Path, *, snap: int = 0) -> ConnectionReport:
    (one,), _ = reports(written(frames, folder, snap=snap))
    return one


def numbered(frame: bytes, number: int) -> bytes:
    """An IPv4 packet with that number."""
    return frame[:4] + number.to_bytes(2, "big") + frame[6:]


def verdicts(one: ConnectionReport) -> dict[str, Observation]:
    return {o.knob: o for o in one.observations}


def verdict(conversation: Conversation, knob: str, folder: Path) -> Observation:
    return verdicts(read_back(conversation.frames, folder))[knob]


@pytest.mark.parametrize("snap", [40, 48, 52])
def test_cut_options_claim_nothing(snap: int, tmp_path: Path) -> None:
    """Without the scale the window is unknown, without the MSS the segment size."""
    one = read_back(proven().frames, tmp_path, snap=snap)
    assert one.numbers["options_cut"] == 1 and one.numbers["rtt"] == pytest.approx(RTT_S)
    names = ("sack", "stamps", "server_max_window", "client_max_window", "server_mss", "client_wscale")
    assert [name for name in names if one.numbers[name] is not None] == []
    found = verdicts(one)
    assert found.pop("icw").reason == "unclear:options-cut"
    assert not found.keys() & {"stack", "signature", "rwin", "rwin_ts", "rwin_first_ack", "sack", "timestamps"}


@pytest.mark.parametrize(("sources", "first", "reason"), [
    # one side says nothing of the other; nor a capture from the middle, that no SYN-ACK came
    ((b"\x00\x50",), 0, "unclear:one-sided"),
    ((b"\x9c\x40",), 0, "unclear:one-sided"),
    ((b"\x00\x50", b"\x9c\x40"), 3, "unclear:no-handshake"),
])  # fmt: skip
def test_what_is_missing_is_not_claimed(sources: tuple[bytes, ...], first: int, reason: str, tmp_path: Path) -> None:
    conversation = proven()
    if first == 0:
        conversation.send(1, 0.9 * RTT_S + 1, SYN | ACK, 0, 1, options=MSS_1000)
    one = read_back([frame for frame in conversation.frames[first:] if frame[1][20:22] in sources], tmp_path)
    assert {o.knob: o.reason for o in one.observations} == {"icw": reason}


@pytest.mark.parametrize(("apart_ns", "later_ns", "number", "stamps"), [
    (500_000, 1_000, 0, True), (500_000, 400_000, 0, True), (0, 300_000, 0, True), (0, 300_000, 1, False),
    (0, 250_000_000, 1, True), (0, 50_000_000, 1, False),
])  # fmt: skip
def test_what_two_interfaces_show_is_one_segment(
    apart_ns: int, later_ns: int, number: int, stamps: bool, tmp_path: Path
) -> None:
    """A capture on `any`, a mirror that holds a burst, two ends of a path: numbers of one place, no repeat, no loss."""
    talk = proven(stamps=stamps)
    frames = [(at + n * apart_ns, numbered(frame, (n + 1) * number)) for n, (at, frame) in enumerate(talk.frames)]
    plain = read_back(frames, tmp_path)
    one = read_back([(at + later, frame) for at, frame in frames for later in (0, later_ns)], tmp_path)
    assert one.numbers["copies"] == len(frames)
    names = [name for name in one.numbers if not FRAMES.search(name) and name != "copies"]
    assert {name: one.numbers[name] for name in names} == {name: plain.numbers[name] for name in names}
    (icw, other) = (verdicts(each)["icw"] for each in (one, plain))
    assert (icw.value, icw.grade) == (other.value, other.grade) == (10, "C" if stamps else "L")


@pytest.mark.parametrize(("later_s", "repeats"), [(0.0, 0), (0.3, 2)])
def test_merged_frames_beside_their_segments_are_no_repeats(later_s: float, repeats: int, tmp_path: Path) -> None:
    """A host whose one interface merges: the same stamps. A later stamp is a repeat."""
    conversation = proven()
    frames = [(at + 1_000 * n, numbered(frame, 0)) for at, frame in conversation.frames for n in (0, 1)]
    for first, stamp_s in ((0, 0.0), (5, 0.0007)):
        conversation.send(1, FLIGHT + stamp_s + later_s, ACK, 1 + first * FULL, 101, 5 * FULL, echo_s=ASKED)
        conversation.delay(FLIGHT + first / 10_000 - 0.000005 + later_s)
    one = read_back([*frames, *conversation.frames[-2:]], tmp_path)
    again = ("rto", "tlp", "fast", "unneeded", "other", "reordered")
    assert sum(int(one.numbers[f"server_{cause}"] or 0) for cause in again) == repeats


def test_segments_before_a_synack_hide_no_copies_of_another_connection(tmp_path: Path) -> None:
    one, other = proven(5), Conversation(port=50000, opened=False, asked=False)
    doubled = [(at + n, numbered(frame, 0)) for at, frame in one.frames for n in (0, 1_000)]
    one.send(1, FLIGHT, ACK, 1, 101, 5 * FULL, echo_s=ASKED)
    one.delay(FLIGHT - 0.000005)
    other.send(1, 0.1, ACK, -1_000_000, 1, FULL)
    other.send(1, 0.2, SYN | ACK, 0, 1)
    other.flight(FLIGHT, 0, 2)
    (found, _), _ = reports(written([*doubled, one.frames[-1], *other.frames], tmp_path))
    assert not any(found.numbers[f"server_{cause}"] for cause in CAUSES)


def test_what_nothing_had_brought_is_no_copy(tmp_path: Path) -> None:
    one = Conversation(opened=False, asked=False)
    for n, (flags, seq, length) in enumerate(((ACK, 1 + FULL, FULL), (ACK, 1, FULL), (SYN | ACK, 0, 0))):
        one.send(1, FLIGHT + n / 10_000, flags, seq, 101, length)
    found = read_back([(at + n, numbered(frame, 0)) for at, frame in one.frames for n in (0, 1_000)], tmp_path)
    assert (found.numbers["copies"], found.numbers["server_other"]) == (3, 1)


def test_a_repeat_is_no_copy(tmp_path: Path) -> None:
    """What is sent again carries a later stamp; what a duplicate ACK asked for came after that ACK."""
    conversation = Conversation(stamps=False)
    conversation.flight(FLIGHT, 0, 3, size=FULL)
    conversation.ack(FLIGHT + 0.0005, 1)
    conversation.flight(FLIGHT + 0.0008, 1, 1)
    assert [n for name, n in seen(conversation.batch(tmp_path)).items() if name in CAUSES] == [1]


def test_duplicate_acks_with_growing_blocks_are_no_copies(tmp_path: Path) -> None:
    """Where a network card is to sum, the captured checksum is the same for all; a true copy stands beside them."""
    conversation = Conversation()
    end = conversation.flight(FLIGHT, 0, 10, size=FULL, skip=(0,))
    for blocks in (2, 3, 4):
        conversation.ack(end, 0, sack=(1 + FULL, 1 + blocks * FULL))
    conversation.frames.append((conversation.frames[3][0] + 1000, conversation.frames[3][1]))
    # IPv4 has 20 bytes, and the checksum stands 16 into TCP's header.
    unsummed = [(at, frame[:36] + b"\1\2" + frame[38:]) for at, frame in conversation.frames]
    assert read_back(unsummed, tmp_path).numbers["copies"] == 1


def test_a_wild_number_does_not_move_the_stream(tmp_path: Path) -> None:
    """A reset by a middlebox, or corrupt data, may have any; the stream goes on where it was, and has not ended."""
    for wild in (5, 0x12345678, 0x80000000, 0x80000100, 0xFFFFFFFF):
        seq, rst = np.array([0, 1, 1001, wild, 2001, wild, 3001], np.uint32), np.isin(np.arange(7), (3, 5))
        assert unwrapped(seq, np.zeros(7, int), np.zeros(1, "u4"), rst)[~rst].tolist() == [0, 1, 1001, 2001, 3001]
    conversation = proven()
    conversation.send(1, FLIGHT + 0.004, RST, 0x80000000 + 5 * FULL, 0)
    conversation.send(1, FLIGHT + 0.005 + RTT_S, ACK, 10**9, 101, FULL)
    conversation.flight(FLIGHT + 0.02 + RTT_S, 14, 1)
    one = read_back(conversation.frames, tmp_path)
    assert (one.numbers["server_bytes"], one.ending) == (15 * FULL, "open")


def test_syns_that_cross_open_one_connection(tmp_path: Path) -> None:
    conversation = asked((0.06,))
    conversation.send(1, 0.01, SYN, 0, 0, options=MSS_1460)
    assert read_back(conversation.frames, tmp_path).client.port == 40000


@pytest.mark.parametrize("most", [None, 5])
def test_a_port_that_is_used_again_is_another_connection(most: int | None, tmp_path: Path) -> None:
    first, second = Conversation(), Conversation(start_s=1100.0, opened=False, asked=False)
    first.flight(1.0, 0, 3)
    first.end(1.1, 3)
    second.base = (77, 99)
    second.send(0, 0.0, SYN, 0, 0, options=MSS_1000)
    second.send(1, 0.1, SYN | ACK, 0, 1, options=MSS_1000)
    second.send(0, 0.1, ACK, 1, 1)
    found, _ = reports(written([*first.frames, *second.frames], tmp_path), most=most)
    assert [(one.frame, one.numbers["packets"]) for one in found] == [(1, 9), (10, 3)]


@pytest.mark.parametrize(("times", "clock"), [
    # set between SYN and SYN-ACK, or within the flight; forward, it looks like a path of an hour
    (lambda n, at: at + (5000 - 3600 * (n > 0)) * NS, "clock-step"),
    (lambda n, at: at - 2 * NS * (n > 8), "clock-step"),
    (lambda n, at: at + 3600 * NS * (n > 0), ""),
    (lambda n, at: 0, "unclear:no-times"),
    (lambda n, at: (at + 10**18) * (n > 0), "unclear:no-times"),
    (lambda n, at: 5000 * NS, "unclear:no-times"),
])  # fmt: skip
def test_a_clock_that_steps_or_stands_claims_no_time(
    times: Callable[[int, int], int], clock: str, tmp_path: Path
) -> None:
    path = tmp_path / "clock.pcap"
    path.write_bytes(write.pcap([(times(n, at), frame) for n, (at, frame) in enumerate(proven().frames)], nano=True))
    (one,), gathering = reports(path)
    known = one.numbers["rtt"], one.duration_s, one.goodput_kbps["server"]
    assert [name is None for name in known] == [bool(clock)] * 3 and one.clock == clock
    assert gathering.counts["clock-step"] == (clock == "clock-step")
    icw = verdicts(one)["icw"]
    assert icw.reason == clock if clock else icw.value == 10


def test_files_are_one_capture_by_their_times(tmp_path: Path) -> None:
    """A tap's two files, rotated files, queues read one by one, another machine's late clock, files put together."""
    frames = [(at, numbered(frame, n)) for n, (at, frame) in enumerate(proven().frames)]
    plain = read_back(frames, tmp_path)
    sides = [[one for one in frames if one[1][20:22] == port] for port in (b"\x00\x50", b"\x9c\x40")]
    queues = [*frames[:4], *(one for n in range(4, 20, 5) for way in (1, 0) for one in frames[n : n + 5][way::2])]
    late, twice = [(at + 50_000_000, frame) for at, frame in frames], [*frames, *frames]
    for parts in (sides, sides[::-1], [frames[9:], frames[:9]], [frames[9:], frames[:3], frames[3:9]], [queues],
                  [late, frames], [twice]):  # fmt: skip
        paths = [tmp_path / f"{n}.pcap" for n in range(len(parts))]
        for path, part in zip(paths, parts, strict=True):
            path.write_bytes(write.pcap(part, nano=True))
        reading = CaptureReading(list(map(str, paths)))
        (one,) = reading.connections()
        # the order of a queue's packets decides what a wait is put down to
        other = ("copies", "out_of_order", *(["limit_"] if parts[0] is queues else []))
        names = [name for name in one.numbers if not FRAMES.search(name) and not name.startswith(other)]
        assert {name: one.numbers[name] for name in names} == {name: plain.numbers[name] for name in names}
        assert (verdicts(one)["icw"].value, verdicts(one)["icw"].grade) == (10, "C")
        assert one.numbers["copies"] == (len(frames) if parts[0] in (late, twice) else 0)
        assert bool(one.numbers["out_of_order"]) == (parts[0] is queues) == bool(reading.counts["out-of-order-us"])


@pytest.mark.parametrize("late_s", [-0.15, 0.15])
def test_a_tap_whose_clocks_differ_by_more_than_the_path_claims_nothing(late_s: float, tmp_path: Path) -> None:
    """Answers before what they answer, or ACKs before what they acknowledge: one connection, and no false window."""
    conversation = proven()
    conversation.flight(2.0, 14, 3)
    shifted = [(at + round(late_s * NS) * (frame[20:22] == b"\x00\x50"), frame) for at, frame in conversation.frames]
    one = read_back(shifted, tmp_path)
    icw = verdicts(one)["icw"]
    assert icw.reason == "clock-step" == one.clock if late_s < 0 else (icw.grade, icw.value) == ("L", 10)


def test_one_wrong_stamp_does_not_end_what_goes_on(tmp_path: Path) -> None:
    """In parts: a frame from the year 2100 is not "now" for all other connections."""
    talk = proven().frames
    odd = write.conversation(4, port=5000, start_ns=4_102_444_800 * NS)[:1]
    others = [f for n in range(15) for f in write.conversation(4, port=6000 + n, start_ns=(1001 + 2 * n) * NS)]
    rest = [(at + 40 * NS, frame) for at, frame in talk[4:]]
    (path := tmp_path / "future.pcap").write_bytes(write.pcap([*talk[:4], *odd, *others, *rest], nano=True))
    (found, counts), (whole, _) = reports(path, most=100, buffer=256), reports(path)
    assert not counts.counts["told-early"]
    assert sorted(one.numbers["packets"] or 0 for one in found) == sorted(one.numbers["packets"] or 0 for one in whole)


@pytest.mark.parametrize("size", [1000, 1460])
def test_without_an_mss_a_segment_is_no_super_frame(size: int, tmp_path: Path) -> None:
    """A SYN without the option asks for 536 bytes; servers that send more did not send three segments in one."""
    conversation = Conversation(stamps=False, opened=False, asked=False)
    conversation.send(0, 0, SYN, 0, 0, options=((1, b""),))
    conversation.send(1, RTT_S, SYN | ACK, 0, 1, options=MSS_1460)
    conversation.send(0, RTT_S, ACK, 1, 1)
    conversation.send(0, RTT_S + 0.001, ACK, 1, 1, 100)
    conversation.flight(FLIGHT, 0, 10, size=size)
    conversation.ack(FLIGHT + 0.002, 2, size=size)
    conversation.flight(FLIGHT + 0.002 + RTT_S, 10, 4, size=size)
    found = verdict(conversation, "icw", tmp_path)
    assert found.value == 10 and found.detail("merged") is None


def test_data_in_a_syn_leaves_the_round_trip(tmp_path: Path) -> None:
    conversation = Conversation(opened=False, asked=False)
    conversation.send(0, 0, SYN, 0, 0, 100, options=MSS_1460)
    conversation.send(1, RTT_S, SYN | ACK, 0, 101, options=MSS_1460)
    conversation.send(0, RTT_S + 0.001, ACK, 101, 1)
    assert read_back(conversation.frames, tmp_path).numbers["rtt"] == pytest.approx(RTT_S + 0.001)


def test_asking_at_a_closed_window_is_no_keep_alive_and_no_loss(tmp_path: Path) -> None:
    conversation = proven()
    conversation.window = 0
    conversation.send(0, 1.0, ACK, 101, 1 + 14 * FULL)
    conversation.window = 65535
    for at, size in ((1.2, 1), (1.6, 1), (2.4, FULL)):
        conversation.send(1, at, ACK, 1 + 14 * FULL, 101, size)
    assert not seen(conversation.batch(tmp_path)).keys() & {*CAUSES, "keep_alives"}


@pytest.mark.parametrize("odd", [False, True])
def test_an_answer_with_another_number_is_no_repeat(odd: bool, tmp_path: Path) -> None:
    """The SYN that asked for it is missing: a client that tries again meets a server that has forgotten the first."""
    conversation = asked((0.1, 1.1, 3.1, 7.1))
    if odd:
        conversation.send(1, 30.0, SYN | ACK, 378_000_000, 1, options=MSS_1460)
    found = verdicts(read_back(conversation.frames, tmp_path))
    assert (found["synack_retries"].value, found["synack_backoff"].value) == (3, "exponential")


def test_one_segment_that_is_not_the_first_is_no_flight(tmp_path: Path) -> None:
    """It came late enough to have been a probe of the tail, and how late after the first one is unknown."""
    conversation = Conversation()
    conversation.send(1, FLIGHT, ACK, 1, 101, 238, echo_s=ASKED)
    conversation.send(1, FLIGHT + 0.24, ACK, 239, 101, FULL, echo_s=ASKED)
    conversation.ack(FLIGHT + 0.3, 1, size=238 + FULL)
    conversation.flight(FLIGHT + 0.3 + RTT_S, 1, 1, size=238 + FULL)
    assert verdict(conversation, "icw", tmp_path).value == 1
    del conversation.frames[-4]
    assert verdict(conversation, "icw", tmp_path).reason == "unclear:first-segment-lost"


@pytest.mark.parametrize("later_s", [RTT_S, 7 + RTT_S])
def test_an_echo_that_was_held_up_takes_no_repeat_away(later_s: float, tmp_path: Path) -> None:
    """Five repeats were heard; the answer to the SYN after them came 7 s late, on the path or by the clock."""
    conversation = asked((0.1, 0.3, 0.7, 1.5, 3.1, 6.3))
    conversation.send(0, 20, SYN, 0, 0, options=MSS_1460)
    conversation.send(1, 20 + later_s, SYN | ACK, 378_000_000, 1, options=MSS_1460)
    found = verdict(conversation, "synack_retries", tmp_path)
    assert (found.value, found.grade, found.detail("missed")) == (5, "C", 0)


def half_opened(gaps_s: Sequence[float], port: int = 4000, start_s: float = 1000) -> Conversation:
    """A SYN, its SYN-ACK and copies of it, a second of silence, a RST of the server."""
    at_s = [0.1 + sum(gaps_s[:n]) for n in range(len(gaps_s) + 1)]
    conversation = asked(at_s, port=port, start_s=start_s)
    conversation.send(1, at_s[-1] + 1, RST, 1, 0)
    return conversation


@pytest.mark.parametrize(("gaps_s", "least"), [
    # six repeats whose gaps are 1 s and 2 s: four lost ones, or a timer that grows in steps
    ([1.0, 1.0, 2.0, 2.0, 2.0, 2.0], 6),
    ([1.0, 2.0, 4.0, 24.0], 4),
])  # fmt: skip
def test_copies_that_no_one_saw_are_not_counted(gaps_s: list[float], least: int, tmp_path: Path) -> None:
    found = verdict(half_opened(gaps_s), "synack_retries", tmp_path)
    assert (found.value, found.grade) == (least, "L")


def of_server(frames: Sequence[write.Stamped], knob: str, folder: Path) -> Observation:
    """The verdict of all connections of the only server."""
    found = []
    for servers in (Servers(every=True), Servers()):
        for batch in CaptureReading((str(written(frames, folder)),)).batches():
            servers.take(batch)
        ((_, fingerprint, _),) = servers.found()
        found.append(fingerprint.observations[knob])
    # trace ids are needed where trials are unlike, and change no verdict
    assert (found[0].text, found[0].grade, found[0].details) == (found[1].text, found[1].grade, found[1].details)
    return found[1]


@pytest.mark.parametrize(("third", "grade"), [(2.0, "A"), (1.0, "L")])
def test_the_same_gaps_on_four_connections_are_no_losses(third: float, grade: str, tmp_path: Path) -> None:
    steps = [[1.0, 1.0 + n / 50, third if n == 3 else 2.0, 2.0 - n / 50, 2.0, 2.0] for n in range(4)]
    frames = [f for n, gaps in enumerate(steps) for f in half_opened(gaps, 4000 + n, 1000 + 100 * n).frames]
    verdict = of_server(frames, "synack_retries", tmp_path)
    assert (verdict.value, verdict.grade) == (6, grade)


@pytest.mark.parametrize(("sack", "sizes", "grade"), [
    (True, (FULL, FULL, 700), "A"), (True, (FULL, FULL, FULL), "B"), (False, (FULL, FULL, 700), "B"),
    (True, (FULL, 700), "B"), (True, (FULL,), "C"),
])  # fmt: skip
def test_three_windows_at_two_segment_sizes_are_sure(
    sack: bool, sizes: tuple[int, ...], grade: str, tmp_path: Path
) -> None:
    talks = [proven(10, size, sack=sack, port=4000 + n, start_s=1000 + 9 * n) for n, size in enumerate(sizes)]
    verdict = of_server([frame for talk in talks for frame in talk.frames], "icw", tmp_path)
    assert (verdict.value, verdict.grade) == (10, grade)


def named(host: bytes) -> bytes:
    """A ClientHello with that server name."""
    body = host
    for head in (b"\0", b"", b"\0\0", b"\3\3" + bytes(33) + b"\0\2\x13\1\1\0"):
        body = head + len(body).to_bytes(2, "big") + body
    return b"\x16\3\1" + (len(body) + 4).to_bytes(2, "big") + b"\1\0" + len(body).to_bytes(2, "big") + body


ASKS = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize(("sack", "first", "other", "client", "text"), [
    # a scanner's SYNs, or two Hosts, paths or names of one edge: each may have an answer of its own
    (False, ASKS, ASKS, 1, "unclear:unlike-offers"),
    (True, ASKS, ASKS.replace(b"a", b"b"), 1, "unclear:unlike-offers"),
    (True, ASKS, ASKS.replace(b"/ ", b"/b "), 1, "unclear:unlike-offers"),
    (True, named(b"a.test"), named(b"b.test"), 1, "unclear:unlike-offers"),
    (True, ASKS, ASKS, 1, "mixed"),
    (True, named(b"a.test"), named(b"a.test"), 1, "mixed"),
    # a route has its own window
    (True, ASKS, ASKS, 9, "unclear:few-connections"),
])  # fmt: skip
def test_load_balancing_compares_connections_that_asked_alike(
    sack: bool, first: bytes, other: bytes, client: int, text: str, tmp_path: Path
) -> None:
    frames: list[write.Stamped] = []
    for n, count in enumerate((10, 10, 4, 4)):
        talk = proven(count, port=4000 + n, start_s=1000 + 100 * n, sack=sack or n < 2)
        talk.frames[3] = talk.frames[3][0], talk.frames[3][1][:-100] + (other if n > 1 else first).ljust(100)
        address = b"\xc0\x00\x02" + bytes([client if n > 1 else 1])
        frames += [(at, frame.replace(b"\xc0\x00\x02\x01", address)) for at, frame in talk.frames]
    verdict = of_server(frames, "load_balancing", tmp_path)
    assert (verdict.value or verdict.reason) == text


NEAR = 1e-4


@pytest.mark.parametrize(("server_s", "synacks_s", "sent", "timers"), [
    # three segments, a tail loss probe, the timer from there; the capture must stand at the server
    (NEAR, (), [(0, 0.0), (1, 0.0), (2, 0.0), (2, 0.2), (0, 0.502)], (0.302, None)),
    (NEAR, (), [(0, 0.0), (1, 0.0), (2, 0.0), (0, 0.302)], (0.302, None)),
    (0.05, (), [(0, 0.0), (1, 0.0), (2, 0.0), (0, 0.502)], (None, None)),
    # one segment: the probe of a stack whose timer is longer comes at 0.4 s, a timer not before 0.3 s
    (0.05, (), [(0, 0.0), (0, 0.302)], (0.302, None)),
    (NEAR, (), [(0, 0.0), (0, 0.4)], (None, None)),
    (NEAR, (), [(0, 0.0), (0, 0.25)], (None, None)),
    # a copy that was lost before the capture would be two timers
    (NEAR, (1.0,), [(0, 0.0)], (None, 1.0)),
    (0.05, (1.0,), [(0, 0.0)], (None, None)),
    (0.05, (1.0, 3.0), [(0, 0.0)], (None, 1.0)),
    (0.05, (2.0, 3.0), [(0, 0.0)], (None, None)),
])  # fmt: skip
def test_timers_of_connections_that_went_on(
    server_s: float, synacks_s: tuple[float, ...], sent: list[tuple[int, float]],
    timers: tuple[float | None, float | None], tmp_path: Path,
) -> None:  # fmt: skip
    conversation = asked((server_s + at for at in (0.0, *synacks_s)), offer=(*MSS_1460, (4, b"")))
    begun = RTT_S + max(synacks_s, default=0.0)
    conversation.send(0, begun, ACK, 1, 1, 100)
    for place, at in sent:
        conversation.send(1, begun + server_s + at, ACK, 1 + place * FULL, 101, FULL)
    conversation.send(0, begun + 1, ACK, 101, 1 + FULL * len({place for place, _ in sent}))
    found = verdicts(read_back(conversation.frames, tmp_path))
    values = [found[knob].value if knob in found else None for knob in ("data_rto", "synack_rto")]
    assert values == [timer if timer is None else pytest.approx(timer, abs=1e-3) for timer in timers]
    assert {found[knob].grade for knob in ("data_rto", "synack_rto") if knob in found} <= {"C"}
