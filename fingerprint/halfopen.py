# SPDX-License-Identifier: MIT
"""A half-open connection as the client sees it: times of the SYN-ACK and its copies, and the answers to two later SYNs.

Rules for this file: pure; total; it lists the packets, `synack_rto.py` and `syn_cookies.py` interpret them.

    SYN                     once, or again while unanswered
    SYN-ACK SYN-ACK ...     the answer and its copies; those within 0.1 s of the one before are duplicates
    SYN  -> SYN-ACK         the echo: our SYN again, once the server fell silent. It shows the round trip, and by its
                            sequence number whether the server still knew the connection (Linux repeats its answer, and
                            begins its wait anew) or had given it up (a new one)
    SYN-ACK ...             copies that were still to come, and then perhaps another echo
    RST SYN -> SYN-ACK      the same after a farewell: a server that has forgotten us answers with a new number, one
                            that computes it from ours (SYN cookies) with the old
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from configtron.fingerprint.schedule import WHEEL, schedule_of
from configtron.fingerprint.stream import DUPLICATE_GAP_S
from configtron.model.nouns import ACK, RST, SYN, Packet

# An echo that had to be asked for twice shows a round trip if it agrees with the first answer's, within this share.
SAME_TRIP = 0.1


@dataclass(frozen=True, slots=True)
class HalfOpen:
    """A half-open connection; indices are into the packet list, times in s.

    answers      the first SYN-ACK and its copies, duplicates left out, before any second asking
    duplicates   how many duplicates most answers had (the network doubles some, a server all); None if our own repeated
                 SYN may have made them
    doubled      how many answers had any, of how many
    arrival_s    from our last SYN to the first answer: the round trip, if the first answer was not lost
    asked        how often the first SYN was sent
    echo_rtt_s   the round trip that an echo showed; None if none did
    echoes       whether each echo carried the old number, in order; one that was not answered is left out
    late         gaps (s) before the copies that came after the first echo, counted from the echo or the copy before
    overdue      how many copies the echoes show to have been lost: each was overdue, and the server still knew us
    overdue_last those of them after the last one heard
    numbers      sequence numbers of the answers after each farewell, relative to the first answer's
    refused      a RST instead of an answer
    reset        index of the RST that ended the waiting, or None
    """

    answers: tuple[int, ...] = ()
    duplicates: int | None = 0
    doubled: tuple[int, int] = (0, 0)
    arrival_s: float = 0.0
    asked: int = 0
    echo_rtt_s: float | None = None
    echoes: tuple[bool, ...] = ()
    late: tuple[float, ...] = ()
    overdue: int = 0
    overdue_last: int = 0
    numbers: tuple[int, ...] = ()
    refused: bool = False
    reset: int | None = None

    def gaps(self, packets: Sequence[Packet]) -> tuple[float, ...]:
        """Return seconds between successive answers."""
        times = [packets[i].at for i in self.answers]
        return tuple(round(b - a, 6) for a, b in zip(times, times[1:], strict=False))


def half_open(packets: Sequence[Packet]) -> HalfOpen:
    """Read a conversation whose handshake was never completed."""
    opening, rest = _opening(packets)
    asks = [packets[i] for i in opening if _asks(packets[i])]
    synacks = [i for i in opening if _answers(packets[i])]
    if not synacks:
        return HalfOpen(asked=len(asks), refused=any(_ends(packets[i]) for i in opening))
    first = packets[synacks[0]]
    before = [p for p in asks if p.at <= first.at]
    answers, groups = _grouped(packets, synacks)
    # Our own second SYN is answered at once, and may meet a copy that the timer sent.
    counted = groups if len(before) == 1 else groups[1:]
    arrival_s = first.at - before[-1].at if before else 0.0
    echoes = _echoes(packets, answers, rest, arrival_s)
    silent, places = [n for n, echo in enumerate(echoes) if echo.gaps], (*opening, *_before_farewell(packets, rest))
    return HalfOpen(
        answers=tuple(answers),
        # Most answers: the lower median.
        duplicates=sorted(counted)[(len(counted) - 1) // 2] - 1 if counted else None,
        doubled=(sum(size > 1 for size in counted), len(counted)),
        arrival_s=arrival_s,
        asked=len(before),
        echo_rtt_s=min((echo.rtt_s for echo in echoes if echo.rtt_s is not None), default=None),
        echoes=tuple(echo.alive for echo in echoes),
        late=tuple(gap for echo in echoes for gap in echo.gaps),
        overdue=sum(echo.overdue for echo in echoes),
        overdue_last=sum(echo.overdue for echo in echoes[silent[-1] + 1 if silent else 0 :]),
        numbers=_after_farewells(packets, rest),
        reset=next((i for i in places if i > synacks[0] and _ends(packets[i])), None),
    )


class _Echo(NamedTuple):
    """An answered echo: its round trip, the old number or not, whether a copy was overdue, the gaps until the next."""

    rtt_s: float | None
    alive: bool
    overdue: bool
    gaps: tuple[float, ...] = ()


def _opening(packets: Sequence[Packet]) -> tuple[list[int], list[int]]:
    """Return indices before we spoke again, and from there on.

    An answer with another number than the first is no copy of it: a capture missed that we had asked anew.
    """
    number = None
    for i, packet in enumerate(packets):
        if number is None:
            number = packet.segment.seq if _answers(packet) else None
        elif packet.way == "out" or _answers(packet) and packet.segment.seq != number:
            return list(range(i)), list(range(i, len(packets)))
    return list(range(len(packets))), []


def _grouped(packets: Sequence[Packet], synacks: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the first of each group of SYN-ACKs that came together, and the groups' sizes."""
    firsts: list[int] = []
    sizes: list[int] = []
    last = None
    for i in synacks:
        if last is not None and packets[i].at - last < DUPLICATE_GAP_S:
            sizes[-1] += 1
        else:
            firsts.append(i)
            sizes.append(1)
        last = packets[i].at
    return firsts, sizes


def _before_farewell(packets: Sequence[Packet], rest: Sequence[int]) -> list[int]:
    reset = next((n for n, i in enumerate(rest) if packets[i].way == "out" and packets[i].segment.flags & RST), None)
    return list(rest[:reset])


def _echoes(packets: Sequence[Packet], answers: Sequence[int], rest: Sequence[int], arrival_s: float) -> list[_Echo]:
    """Return every answered echo before a farewell."""
    times = [packets[i].at for i in answers]
    if len(times) < 2:
        return []
    last, gap_s = times[-1], times[-1] - times[-2]
    constant = schedule_of([b - a for a, b in zip(times, times[1:], strict=False)]).kind == "linear"
    found: list[_Echo] = []
    asked: list[float] = []
    for i in _before_farewell(packets, rest):
        at = packets[i].at
        if _asks(packets[i]):
            asked.append(at)
        elif _answers(packets[i]) and asked:
            overdue = asked[0] - last > gap_s * (1 if constant else 2) * (1 + WHEEL)
            alive = packets[i].segment.seq == 0
            sure = len(asked) == 1 or abs(at - asked[-1] - arrival_s) <= SAME_TRIP * arrival_s
            found.append(_Echo(at - asked[-1] if sure else None, alive, alive and overdue))
            asked, last = [], at
            gap_s *= 1 if constant else 2
        elif _answers(packets[i]) and found and at - last >= DUPLICATE_GAP_S:
            last, gap_s = at, round(at - last, 6)
            found[-1] = found[-1]._replace(gaps=(*found[-1].gaps, gap_s))
    return found


def _after_farewells(packets: Sequence[Packet], rest: Sequence[int]) -> tuple[int, ...]:
    """Return sequence numbers of the first answer after each RST of ours."""
    found: list[int] = []
    waiting = False
    for i in rest:
        if packets[i].way == "out" and packets[i].segment.flags & RST:
            waiting = True
        elif waiting and _answers(packets[i]):
            found.append(packets[i].segment.seq)
            waiting = False
    return tuple(found)


def _asks(packet: Packet) -> bool:
    return packet.way == "out" and packet.segment.flags & (SYN | ACK) == SYN


def _answers(packet: Packet) -> bool:
    return packet.way == "in" and packet.segment.flags & (SYN | ACK | RST) == SYN | ACK


def _ends(packet: Packet) -> bool:
    return packet.way == "in" and bool(packet.segment.flags & RST)
