# SPDX-License-Identifier: MIT
"""The player's rules, as compiled, beside the same rules written out plainly: opportunity by opportunity."""

from __future__ import annotations

import shutil
import subprocess
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.lab.internet.links import splitmix64
from configtron.lab.testbed.conditions import PACKET_BYTES
from configtron.lab.testbed.player import SOURCES
from tests.support import ROOT

# Of splitmix64: from one state to the next.
GAMMA = 0x9E3779B97F4A7C15
# Every packet finds its opportunity: thirty arrive within 1200 us, the shortest period is 1 us, an offset is below 60,
# and the thirty leave one a period.
PERIODS = 1300


@dataclass(frozen=True)
class Trial:
    """A way and what arrives at it: (microseconds since the one before, bytes)."""

    at_us: list[int]
    period_us: int
    offset_us: int
    delay_us: int
    packets: int
    room_bytes: int
    loss: float
    seed: int
    arrivals: list[tuple[int, int]]
    rate: int = 0
    bucket: int = 0
    outage_us: int = 0

    def moments(self) -> list[tuple[int, int]]:
        """(ns, bytes) of what arrives."""
        found, at = [], 0
        for gap, length in self.arrivals:
            at += gap
            found.append((at * 1000, length))
        return found


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("gcc"):
        pytest.skip("missing; run: apt-get install gcc libc6-dev")
    built = tmp_path_factory.mktemp("way") / "way_trial"
    source = ROOT / "tests" / "support" / "lab" / "way_trial.c"
    subprocess.run(["gcc", "-Wall", f"-I{SOURCES[1].parent}", "-o", str(built), str(source), "-lm"], check=True)
    return built


def compiled(program: Path, trial: Trial) -> list[tuple[int, int]]:
    head = [trial.period_us, len(trial.at_us), *trial.at_us, trial.offset_us, trial.delay_us]
    words = [*head, trial.packets, trial.room_bytes, trial.loss, trial.rate, trial.bucket, trial.outage_us]
    words.append(trial.seed)
    lines = [" ".join(map(str, words)), *(f"{at} {length}" for at, length in trial.moments())]
    reported = subprocess.run([str(program)], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
    return [(int(line.split()[0]), int(line.split()[1])) for line in reported.splitlines()]


def plainly(trial: Trial) -> list[tuple[int, int]]:
    """(number of the packet, ns at which it is there)."""
    queue: deque[list[int]] = deque()  # [number, length, what of it is left]
    there: list[tuple[int, int]] = []
    drawn = 0

    def leave(number: int, at_ns: int) -> None:
        nonlocal drawn
        chance = (splitmix64((trial.seed + drawn * GAMMA) % 2**64) >> 11) * 2.0**-53
        drawn += trial.loss > 0
        if not (trial.loss > 0 and chance < trial.loss):
            there.append((number, at_ns + trial.delay_us * 1000))

    def arrive(number: int, length: int, at_ns: int) -> None:
        held = sum(other for _, other, _ in queue)
        if trial.packets and len(queue) >= trial.packets or trial.room_bytes and held + length > trial.room_bytes:
            return
        if trial.at_us:
            queue.append([number, length, length])
        else:
            leave(number, at_ns)

    def opportunity(at_ns: int) -> None:
        room = PACKET_BYTES
        while room and queue:
            part = min(room, queue[0][2])
            queue[0][2] -= part
            room -= part
            if not queue[0][2]:
                leave(queue.popleft()[0], at_ns)

    chances = ((n * trial.period_us + at - trial.offset_us) * 1000 for n in range(PERIODS) for at in trial.at_us)
    # at one moment the opportunity comes first: who arrives with it waits for the next
    events = [(at_ns, 0, -1, 0) for at_ns in chances]
    events += [(at_ns, 1, number, length) for number, (at_ns, length) in enumerate(trial.moments())]
    for at_ns, is_arrival, number, length in sorted(events):
        if is_arrival:
            arrive(number, length, at_ns)
        else:
            opportunity(at_ns)
    return there


@st.composite
def trials(draw: st.DrawFn) -> Trial:
    period = draw(st.integers(1, 60))
    packets, room = draw(st.sampled_from(((0, 0), (1, 0), (3, 0), (0, 1500), (0, 4000))))
    return Trial(
        at_us=sorted(draw(st.lists(st.integers(0, period), max_size=4))),
        period_us=period,
        offset_us=draw(st.integers(0, 59)) % period,
        delay_us=draw(st.integers(0, 30)),
        packets=packets,
        room_bytes=room,
        loss=draw(st.sampled_from((0, 0.3))),
        seed=draw(st.integers(0, 2**64 - 1)),
        arrivals=draw(st.lists(st.tuples(st.integers(0, 40), st.integers(8, PACKET_BYTES)), max_size=30)),
    )


@pytest.mark.slow
@settings(max_examples=200)
@given(trial=trials())
def test_packets_leave_as_the_rules_say(program: Path, trial: Trial) -> None:
    assert compiled(program, trial) == plainly(trial)


def test_a_policers_queue_lets_one_wait(program: Path) -> None:
    """One packet each 10 us, room for one: of three at once one is let go."""
    trial = Trial([0], 10, 0, 5, 1, 0, 0, 1, [(3, 1500), (0, 1500), (0, 1500), (10, 1500)])
    assert compiled(program, trial) == [(0, 15_000), (3, 25_000)]


def test_small_packets_share_an_opportunity(program: Path) -> None:
    """As ACKs do behind one packet each 100 ms."""
    trial = Trial([0], 100, 0, 0, 0, 0, 0, 1, [(1, 60)] * 30)
    assert [at for _, at in compiled(program, trial)] == [100_000] * 25 + [200_000] * 5


def test_an_opportunity_carries_no_byte_more(program: Path) -> None:
    trial = Trial([0], 100, 0, 0, 0, 0, 0, 1, [(1, 750), (0, 750), (100, 750), (0, 751)])
    assert [at for _, at in compiled(program, trial)] == [100_000, 100_000, 200_000, 300_000]


@given(
    bucket=st.integers(PACKET_BYTES, 9000),
    rate=st.integers(1000, 2_000_000),
    arrivals=st.lists(st.tuples(st.integers(0, 20_000), st.integers(8, PACKET_BYTES)), max_size=40),
)
def test_a_policer_is_a_token_bucket(program: Path, bucket: int, rate: int, arrivals: list[tuple[int, int]]) -> None:
    """What conforms leaves at once, what does not never; in exact arithmetic, but where a byte is at stake."""
    trial = Trial([], 1, 0, 5, 0, 0, 0, 1, arrivals, rate, bucket)
    tokens, before, let, close = Fraction(bucket), 0, [], False
    for number, (at, length) in enumerate(trial.moments()):
        tokens = min(Fraction(bucket), tokens + Fraction((at - before) * rate, 10**9))
        before = at
        close |= abs(tokens - length) < Fraction(1, 1000)
        if tokens >= length:
            tokens -= length
            let.append((number, at + 5000))
    assert close or compiled(program, trial) == let


def test_a_bucket_lets_a_page_through_that_it_holds(program: Path) -> None:
    """38 kB at once meet 64 kB of tokens; a hundred packets at once do not."""
    burst = Trial([], 1, 0, 0, 0, 0, 0, 1, [(0, 1500)] * 100, 1_250_000, 64_000)
    assert [number for number, _ in compiled(program, burst)] == list(range(42))


@pytest.mark.slow
def test_outages_last_as_long_and_take_as_much(program: Path) -> None:
    """A packet each 5 ms for 1000 s, 5 % of the time out, 100 ms each: 500 outages, four standard errors."""
    trial = Trial([], 1, 0, 0, 0, 0, 0.05, 7, [(5000, 100)] * 200_000, outage_us=100_000)
    through = {number for number, _ in compiled(program, trial)}
    lost = [number not in through for number in range(200_000)]
    runs = [len(list(group)) * 5 for is_lost, group in groupby(lost) if is_lost]
    assert abs(sum(lost) / len(lost) - 0.05) < 4 * 0.05 * (2 / 500) ** 0.5
    # an outage shorter than the gap between two packets is not seen: the mean of those seen is a little longer
    assert abs(sum(runs) / len(runs) - 102.5) < 4 * 100 / len(runs) ** 0.5
