# SPDX-License-Identifier: MIT
"""The timer behind a row of gaps: how long its first wait is, how it grows, and how many copies were lost on the way.

Rules for this file: pure arithmetic on seconds; a lost copy merges two gaps, and never splits one.

A doubling timer sends copy n at base x (2^n - 1), each wait up to an eighth late (Linux's timer wheel).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import floor, log2
from typing import NamedTuple

# Linux's timer wheel rounds up by at most an eighth (kernel/time/timer.c, LVL_GRAN).
WHEEL = 0.125
# Ratio of successive gaps of a timer that does not grow, within the wheel's eighth on both.
CONSTANT = (0.85, 1.15)
# At most this many copies lost before the first one heard are still distinguished from a longer timer.
LOST_FIRST_MAX = 2
# At most this many waits in one gap of a timer that does not grow are counted as lost copies.
LOST_CONSTANT_MAX = 3
# An answer that was a copy itself came a timer late. A path's jitter stays below this share of the timer.
LATE_SHARE = 0.9
# The base may be an eighth late and a later wait not: so much is missing from the logarithm of their ratio.
LATE_LOG = log2(1 + WHEEL) + 0.01
# A single gap of a waits, base x (2^a - 1), and then a wait that an echo began anew, base x 2^(a + 1): their ratio ->
# the gap in bases; for one, two and three waits.
RATIOS = ((4.0, 1), (8 / 3, 3), (16 / 7, 7))

# Successive waits of a doubling timer, in multiples of its base, and all their sums: seven waits are two minutes of the
# shortest timer, longer than any probe listens.
WAITS = tuple(sorted((1 << b) - (1 << a) for a in range(7) for b in range(a + 1, 8)))


class Schedule(NamedTuple):
    """A timer: the first timeout (s), its growth ("" of a single gap), copies lost between, the gaps."""

    first_s: float
    kind: str
    missed: int
    gaps: tuple[float, ...]


def schedule_of(gaps: Sequence[float], late: Sequence[float] = ()) -> Schedule:
    """Return the timer behind the gaps (s); `late` are those after an echo had begun the wait anew."""
    heard = tuple(round(gap, 6) for gap in gaps)
    if min(gaps) <= 0:
        # A clock was set back: no timer is seen.
        return Schedule(gaps[0], "irregular", 0, heard)
    if len(gaps) == 1:
        return _single(gaps[0], late, heard)
    if all(CONSTANT[0] <= b / a <= CONSTANT[1] for a, b in zip(gaps, gaps[1:], strict=False)):
        return Schedule(gaps[0], "linear", 0, heard)
    fits = [_fit(gaps[0] / (2**first - 1), first, list(accumulate(gaps))) for first in range(1, 2 + LOST_FIRST_MAX)]
    best = min((fit for fit in fits if fit is not None), default=None)
    if best is not None:
        _, last, base_s = best
        return Schedule(base_s, "exponential", last - len(gaps), heard)
    steps = [round(gap / min(gaps)) for gap in gaps]
    even = all(abs(gap / min(gaps) - n) <= WHEEL * n for gap, n in zip(gaps, steps, strict=True))
    if even and max(steps) <= LOST_CONSTANT_MAX:
        return Schedule(min(gaps), "linear", sum(steps) - len(steps), heard)
    return Schedule(gaps[0], "irregular", 0, heard)


def _single(gap: float, late: Sequence[float], heard: tuple[float, ...]) -> Schedule:
    if late and CONSTANT[0] <= late[0] / gap <= CONSTANT[1]:
        return Schedule(gap, "linear", 0, heard)
    for ratio, total in RATIOS if late else ():
        if ratio * LATE_SHARE < late[0] / gap < ratio / LATE_SHARE:
            return Schedule(gap / total, "exponential", total.bit_length() - 1, heard)
    return Schedule(gap, "", 0, heard)


def _fit(base_s: float, first: int, times_s: Sequence[float]) -> tuple[float, int, float] | None:
    """Return (largest misfit, last n, base) if every time lies on base x (2^n - 1), within the wheel's eighth."""
    n, misfit = first, 0.0
    for at in times_s[1:]:
        n += 1
        while base_s * (2**n - 1) * (1 + WHEEL) < at:
            n += 1
        misfit = max(misfit, abs(at / (base_s * (2**n - 1)) - 1))
    return (misfit, n, base_s) if misfit <= WHEEL else None


def with_lost_first(schedule: Schedule, late_s: float) -> tuple[Schedule, bool]:
    """Return the schedule with the copies that were lost before the first answer heard, and whether that is certain.

    Such an answer came `late_s` later than a round trip: by the timers that had gone by, base x (2^k - 1) after k of
    them. The gaps alone look the same for a base twice as long.
    """
    base_s = schedule.first_s
    if late_s < base_s / 2 * LATE_SHARE:
        return schedule, True
    if schedule.kind == "irregular":
        return schedule, False
    if schedule.kind == "linear":
        lost = round(late_s / base_s)
        return schedule._replace(missed=schedule.missed + lost), abs(late_s / base_s - lost) <= WHEEL * max(lost, 1)
    for lost in range(1, 2 + LOST_FIRST_MAX):
        first_s = base_s / 2**lost
        if first_s * (2**lost - 1) * LATE_SHARE <= late_s <= first_s * (2**lost - 1) * (1 + WHEEL) / LATE_SHARE:
            return schedule._replace(first_s=first_s, missed=schedule.missed + lost), True
    return schedule, False


def copies(base_s: float, kind: str, passed_s: float, late: Sequence[float] = ()) -> int:
    """Return how many copies a timer of that base has sent when the last one was heard.

    passed_s   from the original to the last copy heard before any echo
    late       gaps heard after echoes; the length of the last one shows which it is
    """
    if base_s <= 0:
        return 0
    if kind == "linear":
        return round(passed_s / base_s) + sum(round(gap / base_s) for gap in late)
    if late:
        return floor(log2(max(late[-1], base_s) / base_s) + LATE_LOG) + 1
    return max(round(log2(max(passed_s, 0.0) / base_s / (1 + WHEEL / 2) + 1)), 0)


def waits(gap_s: float, base_s: float) -> int:
    """Return a doubling timer's gap in multiples of its base: a power of two, or a sum of such (copies lost)."""
    ratio = gap_s / base_s / (1 + WHEEL / 2)
    return min(WAITS, key=lambda total: abs(ratio / total - 1))


def spans(gap_s: float, base_s: float) -> bool:
    """Return whether lost copies explain a gap: it is a sum of successive waits of a timer, doubling or not."""
    sums = {2**b - 2**a for a in range(4) for b in range(a + 1, 5)} | {2, 3}
    return any(abs(gap_s / base_s - total) <= WHEEL * total for total in sums)
