# SPDX-License-Identifier: MIT
"""Queueing disciplines: a way of the network in the kernel's units, and what differs is named."""

from __future__ import annotations

import pytest

from configtron.lab.testbed.conditions import LinkDirection
from configtron.lab.testbed.families import named
from configtron.lab.testbed.network import queues
from configtron.linux.qdisc import FORMS, ROOT, Qdisc, attributes, differences

DOWN = named("hotcloud:5/150/1").down


def by_handle(way: LinkDirection, seed: int = 1) -> dict[int, Qdisc]:
    return {qdisc.handle: qdisc for qdisc in queues(way, seed)}


def test_a_way_in_the_kernels_units() -> None:
    netem, tbf, fifo = queues(DOWN, 7)
    assert netem.parent == ROOT and (netem.knobs["delay_ns"], netem.knobs["seed"]) == (75_000_000, 7)
    assert netem.knobs["loss"] == 42_949_673
    # 5 Mbit/s of IP packets of 1500 bytes are frames of 1514
    assert tbf.knobs["rate"] == round(5e6 / 8 * 1514 / 1500)
    assert (fifo.kind, fifo.knobs["limit"]) == ("bfifo", 93_750)
    assert [qdisc.kind for qdisc in queues(named("pantheon:4").down, 1)] == ["netem", "tbf", "pfifo"]
    assert [qdisc.kind for qdisc in queues(LinkDirection(delay_ms=3), 1)] == ["netem"]


@pytest.mark.parametrize("kind", ["netem", "bfifo", "pfifo"])
def test_settings_come_back_from_their_bytes(kind: str) -> None:
    for qdisc in (*queues(DOWN, 2**64 - 1), *queues(named("pantheon:1").down, 3)):
        if qdisc.kind == kind:
            write, read = FORMS[kind]
            assert read(write(qdisc.knobs)) == qdisc.knobs


def test_each_difference_is_named() -> None:
    wanted = queues(DOWN, 7)
    assert differences(wanted, by_handle(DOWN, 7)) == []
    (seed,) = differences(wanted, by_handle(DOWN, 8))
    assert seed == "netem seed is 8 instead of 7"
    (absent,) = differences(wanted, {h: q for h, q in by_handle(DOWN, 7).items() if q.kind != "tbf"})
    assert "tbf" in absent and "absent" in absent
    assert differences((), by_handle(LinkDirection(delay_ms=3))) == ["there is also netem"]
    # what the kernel puts by itself has no number
    assert differences((), {0: Qdisc(0, ROOT, "noqueue")}) == []


def test_the_kernels_rounding_of_a_burst_is_no_difference() -> None:
    netem, tbf, fifo = queues(DOWN, 7)

    def found(less: int) -> dict[int, Qdisc]:
        other = tbf._replace(knobs=dict(tbf.knobs) | {"burst": tbf.knobs["burst"] - less})
        return {qdisc.handle: qdisc for qdisc in (netem, other, fifo)}

    assert differences((netem, tbf, fifo), found(1)) == []
    assert differences((netem, tbf, fifo), found(50)) != []


def test_attributes_end_with_the_message() -> None:
    assert attributes(b"\x08\0\x01\0abcd\x02\0") == {1: b"abcd"}
