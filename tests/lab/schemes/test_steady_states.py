# SPDX-License-Identifier: MIT
"""Where each scheme settles on a path without noise: its own paper's formula, from the path's figures alone."""

from __future__ import annotations

from math import inf

import pytest

from configtron.lab.schemes.copa import Copa
from configtron.lab.schemes.ledbat import Ledbat
from configtron.lab.schemes.scheme import PACKET_BYTES, SendingLimit
from tests.support.scripted_path import ScriptedPath, Starting, run


class Reno:
    """What other flows are: one packet more each round trip, half on loss. Of TCP as RFC 5681 has it, no more."""

    def __init__(self) -> None:
        self.cwnd, self.rtt, self.reduced = 10.0 * PACKET_BYTES, 0.1, -inf

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        self.cwnd += bytes * (1.0 if self.reduced == -inf else PACKET_BYTES / self.cwnd)
        self.rtt = rtt

    def on_loss(self, now: float, n: int) -> None:
        if now >= self.reduced + self.rtt:
            self.cwnd, self.reduced = max(2.0 * PACKET_BYTES, self.cwnd / 2), now

    def on_tick(self, now: float) -> SendingLimit:
        return SendingLimit(self.cwnd, inf)


@pytest.mark.parametrize(("mbit", "delay_s"), [(2.0, 0.05), (6.0, 0.01)])
def test_ledbat_keeps_a_tenth_of_a_second_waiting(mbit: float, delay_s: float) -> None:
    found = run(ScriptedPath(mbit, delay_s, 400), [Starting(Ledbat())], 20.0)[0].between(12, 20)
    assert found.queueing_s == pytest.approx(0.1, rel=0.05) and found.mbit == pytest.approx(mbit, rel=0.01)


def test_ledbat_yields_to_tcp_where_the_queue_is_longer_than_its_target() -> None:
    ledbat, tcp = run(ScriptedPath(3.0, 0.02, 150), [Starting(Ledbat()), Starting(Reno(), 3.0)], 40.0)
    assert ledbat.between(1, 3).mbit == pytest.approx(3.0, rel=0.05)
    assert ledbat.between(20, 40).mbit < 0.1 * tcp.between(20, 40).mbit


def test_ledbat_comes_late_and_takes_more() -> None:
    first, late = run(ScriptedPath(3.0, 0.02, 400), [Starting(Ledbat()), Starting(Ledbat(), 8.0)], 30.0)
    assert late.between(20, 30).mbit > 3 * first.between(20, 30).mbit


@pytest.mark.parametrize(("mbit", "delay_s"), [(2.0, 0.05), (6.0, 0.02)])
@pytest.mark.parametrize("delta", [0.5, 0.25])
def test_copa_waits_behind_one_over_delta(mbit: float, delay_s: float, delta: float) -> None:
    """The queue swings between none and 2.5 / delta packets, 1.25 / delta in the mean."""
    packet_s = 12e-3 / mbit
    found = run(ScriptedPath(mbit, delay_s, 400), [Starting(Copa(delta))], 20.0)[0].between(8, 20)
    assert found.queueing_s / packet_s == pytest.approx(1.25 / delta, rel=0.2)
    assert found.most_queueing_s / packet_s <= 2.5 / delta + 1 and found.mbit > 0.98 * mbit


def test_copas_share_a_path_and_do_not_compete() -> None:
    schemes = [Copa(), Copa()]
    logs = run(ScriptedPath(4.0, 0.02, 200), [Starting(schemes[0]), Starting(schemes[1], 3.0)], 30.0)
    rates = [log.between(15, 30).mbit for log in logs]
    assert min(rates) > 0.8 * max(rates) and sum(rates) > 0.98 * 4.0
    assert not any(scheme.competes for scheme in schemes)
    # two flows: twice 2.5 / delta
    assert max(log.between(15, 30).most_queueing_s for log in logs) < (2 * 5 + 1) * 3e-3


@pytest.mark.parametrize(("mbit", "delay_s", "queue"), [(4.0, 0.02, 20), (4.0, 0.02, 40), (6.0, 0.03, 60)])
def test_copa_competes_with_what_fills_the_queue(mbit: float, delay_s: float, queue: int) -> None:
    """Over the whole span: the mode alternates, since TCP's queue is nearly empty for a while after each loss."""
    logs = run(ScriptedPath(mbit, delay_s, queue), [Starting(Copa()), Starting(Reno(), 2.0)], 40.0)
    rates = [log.between(15, 40).mbit for log in logs]
    assert 0.35 < rates[0] / sum(rates) < 0.65 and sum(rates) > 0.95 * mbit


def test_three_copas_take_each_other_for_copas() -> None:
    logs = run(ScriptedPath(6.0, 0.02, 200), [Starting(Copa(), 3.0 * number) for number in range(3)], 25.0)
    rates = [log.between(15, 25).mbit for log in logs]
    assert min(rates) > 0.9 * max(rates) and max(log.between(15, 25).most_queueing_s for log in logs) < 0.035


def test_copa_pays_no_heed_to_losses_by_chance() -> None:
    path = ScriptedPath(4.0, 0.02, 200, lambda number, _: number % 33 == 0)
    assert run(path, [Starting(Copa())], 15.0)[0].between(5, 15).mbit > 0.95 * 4.0
