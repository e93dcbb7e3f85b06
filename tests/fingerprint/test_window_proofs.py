# SPDX-License-Identifier: MIT
"""The tables of proofs and doubts: complete, in order, and each row decides."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from configtron.fingerprint.stream import handshake_of
from configtron.fingerprint.window import read_window
from configtron.fingerprint.window_proofs import BETTERED, BOUND, DOUBTS, EXACT, PROOFS, SUPPORT, SUPPORTS
from configtron.model.nouns import SYN, Packet, Trace
from configtron.probe.wire.evidence_reader import read_located
from tests.support import ROOT

ROWS = (*PROOFS, *DOUBTS)


def mutated(trace: Trace, rng: random.Random) -> Trace:
    """The trace with one packet lost, late, shorter, or of the client, as another capture or a slower clock."""
    packets = list(trace.packets)
    place = rng.randrange(len(packets))
    kind = rng.choice(("lose", "delay", "cut", "slow", "ask", "none"))
    if kind == "lose":
        del packets[place]
    elif kind == "delay":
        late_s = rng.choice((0.02, 0.1, 0.3, 1.0, 4.0))
        packets[place:] = [p._replace(at=p.at + late_s) for p in packets[place:]]
    elif kind == "cut":
        segment = packets[place].segment
        packets[place] = packets[place]._replace(segment=segment._replace(length=rng.randrange(segment.length + 1)))
    elif kind == "slow":
        factor = rng.choice((0.1, 0.5, 2.0, 10.0))
        packets = [p._replace(at=p.at * factor) for p in packets]
    elif kind == "ask":
        packets[place] = packets[place]._replace(way="out")
    return replace(trace, packets=tuple(packets), vantage=rng.choice((trace.vantage, "capture")))


def decided(traces: list[Trace], count: int) -> set[str]:
    rng = random.Random(7)
    found = set()
    for _ in range(count):
        trace = mutated(rng.choice(traces), rng)
        start = rng.choice((0, 0, rng.randrange(len(trace.packets) or 1)))
        found.add(str(read_window("icw", trace, handshake_of(trace.packets), start).detail("proof", "")))
    return found


@pytest.fixture(scope="module")
def recorded() -> list[Trace]:
    files = sorted((ROOT / "fixtures").rglob("*.gz"))
    return [t for file in files for t, _ in read_located(file) if t.probe.startswith(("icw", "cwnd")) and t.packets]


def test_names_are_given_once_and_effects_are_known() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert {row.effect for row in ROWS} == {EXACT, SUPPORT, BOUND}
    assert not any(row.effect == EXACT for row in DOUBTS)


def test_what_supports_or_is_worth_another_trial_is_a_row() -> None:
    assert SUPPORTS == {"after-timer", "short-end", "no-round-trip", "after-idle", "after-loss"}
    assert SUPPORTS <= BETTERED and "window-limited" not in BETTERED


@pytest.mark.slow
def test_each_row_decides_some_conversation(recorded: list[Trace]) -> None:
    assert {row.name for row in ROWS} - decided(recorded, 4000) == set()


def test_a_conversation_without_fresh_data_is_unverified(recorded: list[Trace]) -> None:
    def until_our_ack(trace: Trace) -> tuple[Packet, ...]:
        acks = [n for n, p in enumerate(trace.packets) if p.way == "out" and p.segment.ack > 1]
        return trace.packets[: acks[0]] if acks else ()

    cut = [replace(t, packets=until_our_ack(t)) for t in recorded if t.probe == "icw"]
    verdicts = [read_window("icw", t, handshake_of(t.packets)) for t in cut]
    assert {v.detail("proof") for v in verdicts if v.value is not None} == {"unverified"}


def test_a_clients_numbers_below_its_syns_are_compared_as_they_are() -> None:
    (trace, _), *_ = read_located(ROOT / "fixtures/icw/4/trace.pcapng.gz")
    below = 335_544_319

    def moved(packet: Packet) -> Packet:
        segment = packet.segment
        if segment.flags & SYN:
            return packet
        if packet.way == "out":
            return packet._replace(segment=segment._replace(seq=segment.seq - below))
        return packet._replace(segment=segment._replace(ack=segment.ack - below))

    other = replace(trace, packets=tuple(moved(packet) for packet in trace.packets))
    found = [read_window("icw", one, handshake_of(one.packets), 0).detail("proof") for one in (trace, other)]
    assert found[0] == found[1] != "client-data"
