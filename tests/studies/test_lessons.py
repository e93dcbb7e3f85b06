# SPDX-License-Identifier: MIT
"""Lessons: loads read from their packets (made by hand), and in real guests the same seed with the same packets."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from configtron.lab.testbed import families
from configtron.lab.testbed.model import shipped
from configtron.lab.testbed.tap import PACKET, Seen
from configtron.model.errors import BadInput
from configtron.model.records import canonical
from configtron.studies import lessons
from configtron.studies.guests.captured import CaptureOrders, LoadRow, logs
from configtron.studies.guests.parts import Part, PartResult
from configtron.studies.guests.time_sequence import ACK, SYN, Risen, risen
from configtron.studies.lessons import LESSONS, LessonOutcome
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY
from configtron.studies.registry.kinds import Arguments

SERVER, CLIENT, MSS, ISN = 0x0A000101, 0x0A000202, 1000, 0xFFFF_FF00
RTT_S, ZERO_S = 0.1, 7.0


def packet(at_s: float, number: int, *, payload: int = 0, begin: int = 0, ack: int = 0, flags: int = ACK,
           down: bool = True, port: int = 40_000) -> tuple[int, ...]:  # fmt: skip
    """A row of `tap.PACKET`. begin and ack count the server's bytes from 0; numbers wrap near their end."""
    at_ns = round((ZERO_S + at_s) * 1e9)
    ends = (SERVER, CLIENT, 443, port) if down else (CLIENT, SERVER, port, 443)
    sequence = (ISN + (0 if flags & SYN else 1) + begin) % 2**32 if down else 0
    acknowledged = 0 if down else (ISN + 1 + ack) % 2**32
    return (at_ns, 40 + payload, number, ends[2], sequence, payload, ends[0], ends[1], ends[3], acknowledged, flags)


def rows(*packets: tuple[int, ...]) -> Seen:
    return np.array(sorted(packets), dtype=PACKET)


def asked(port: int = 40_000) -> tuple[int, ...]:
    return packet(0.0, 1, flags=SYN, down=False, port=port)


def test_a_loss_and_its_repair() -> None:
    """Three segments, the second lost, sent again after a time-out; the numbers say what happened."""
    data = [packet(0.2 + n / 1000, 10 + n, payload=MSS, begin=n * MSS) for n in range(3)]
    again = packet(0.7, 13, payload=MSS, begin=MSS)
    server = rows(packet(0.05, 9, flags=SYN | ACK), *data, again,
                  packet(0.3, 2, ack=MSS, down=False), packet(0.8, 3, ack=3 * MSS, down=False))  # fmt: skip
    client = rows(asked(), data[0], data[2], again)
    found = risen(server, client, 0.9, RTT_S)
    assert (found.connections, found.segments, found.lost, found.again) == (1, 4, 1, 1)
    assert [mark.kind for mark in found.marks] == ["data", "lost", "data", "again"]
    assert [(mark.begin, mark.end) for mark in found.marks] == [(0, 1000), (1000, 2000), (2000, 3000), (1000, 2000)]
    assert found.rounds == pytest.approx(9) and found.sent_by == (0, 0, 1000, *[3000] * 6)
    # until 0.2 and after 0.8 nothing is under way; from 0.302 to 0.7 nothing leaves
    assert found.idle_s == pytest.approx(0.2 + 0.1) and found.stuck_s == pytest.approx(0.7 - 0.202 - RTT_S)
    area = 1000 * 0.001 + 2000 * 0.001 + 3000 * (0.3 - 0.202) + 2000 * 0.5
    assert found.under_way == pytest.approx(area / (0.9 - 0.2))
    assert "and 0.40 s stuck" in found.words and "1 of 4 segments were lost" in found.words


def test_bytes_of_all_connections_have_one_height() -> None:
    one, two = (packet(0.2 + n / 100, n, payload=MSS, port=40_000 + n) for n in range(2))
    three = packet(0.3, 7, payload=MSS, begin=MSS)
    found = risen(rows(one, two, three), rows(asked(), one, two, three), 0.4, RTT_S)
    assert [(mark.connection, mark.begin) for mark in found.marks] == [(0, 0), (1, 1000), (0, 2000)]
    assert found.connections == 2 and found.again == found.lost == 0


def test_what_the_load_before_left_is_not_of_this_one_and_no_packet_is_no_error() -> None:
    old, new = packet(-0.5, 3, payload=MSS, begin=5 * MSS, port=39_999), packet(0.2, 4, payload=MSS)
    found = risen(rows(old, new), rows(old, asked(), new), 0.3, RTT_S)
    assert found.segments == 1 and found.marks[0].at_s == pytest.approx(0.2)
    none = risen(np.zeros(0, PACKET), np.zeros(0, PACKET), 1.0, RTT_S)
    assert (none.segments, none.lost, none.under_way, none.marks, none.idle_s) == (0, 0, 0, (), 1.0)


def outcome(*pairs: tuple[float, float]) -> LessonOutcome:
    nothing = Risen(1.0, 0.1, 1, 0, 0, 0, 0.0, 0.0, 0.0, (0,) * 9, ())
    return LessonOutcome(LESSONS[0], pairs, nothing, nothing)


def test_a_claim_needs_every_repeat() -> None:
    assert lessons.fact(outcome((2, 1), (3, 1))).verdict == HOLDS
    assert lessons.fact(outcome((2, 1), (3, 1), (1, 2))).verdict == PARTLY
    assert lessons.fact(outcome((2, 1), (1, 2))).verdict == ABSENT
    assert "initial window 30 1.00 s, initial window 10 2.00 s" in lessons.fact(outcome((2, 1))).ours


def test_lessons_are_of_things_that_there_are() -> None:
    for lesson in LESSONS:
        assert lesson.site in shipped() and families.named(lesson.condition).rtt_ms > 0
        wanted = lesson.wanted(Arguments(Path("x"), seed=4))
        assert CaptureOrders.from_json(wanted.to_json()) == wanted and wanted.repeats == lessons.REPEATS
        slow, fast = (dict(one.settings) for one in wanted.configurations)
        assert len(set(slow.items()) ^ set(fast.items())) == 2, "one knob"
    assert len({lesson.name for lesson in LESSONS}) == len(LESSONS)


def test_the_drawn_repeat_is_the_median_one(tmp_path: Path) -> None:
    """Ratios 3, 1.5 and 2 and a failed load: drawn is the repeat of 2."""
    slow, fast = (300.0, 150.0, 200.0, 100.0), 100.0
    text = canonical([list(LoadRow(at, r, (slow[r], fast)[at], 1, "timeout" if r == 3 and at else "", ""))
                      for at in (0, 1) for r in range(4)])  # fmt: skip
    for at in (0, 1):
        for repeat in range(4):
            for end in ("server", "client"):
                np.save(tmp_path / f"{at}-{repeat}-{end}.npy", np.zeros(0, PACKET))
    found = lessons.read(LESSONS[0], PartResult(Part("x", "y", "z"), tmp_path, text))
    assert found is not None and len(found.pairs) == 3 and (found.slow.plt_s, found.fast.plt_s) == (0.2, 0.1)
    assert lessons.read(LESSONS[0], PartResult(Part("x", "y", "z"), tmp_path, "", "failed")) is None
    (tmp_path / "0-0-server.npy").write_bytes(b"no log")
    with pytest.raises(BadInput, match="cannot be read"):
        logs(tmp_path, LoadRow(0, 0, 1.0, 1, "", ""))


@pytest.mark.root
@pytest.mark.lab
def test_the_same_seed_draws_the_same(tmp_path: Path) -> None:
    """Real guests: a lesson's claim, a loss that is repaired, and two boots with one seed."""
    given = [
        Arguments(tmp_path / str(n), seed=3, smoke=True, worker="configtron.studies.guests.worker") for n in range(2)
    ]
    one, same = (lessons.run(one, LESSONS[:1]) for one in given)
    assert one.whole and one == same
    assert one.facts[0].verdict == HOLDS
    assert re.search(r", and 0 of \d+ segments were lost", one.facts[0].words)
    # by the third round trip one window of ten segments has been sent (and the handshake's), or of thirty
    by_third = [row[4] for row in one.tables[1].rows]
    assert 8 < by_third[0] < 10 * 1.46 + 2 and 30 < by_third[1] < 30 * 1.46 + 2
