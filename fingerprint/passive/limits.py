# SPDX-License-Identifier: MIT
"""Rows -> each connection's time, shared out by what limited it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from configtron.fingerprint.passive.columns import ABSENT

# What a connection waits for. `unknown`: the packets do not tell.
LIMITS = ("handshake", "server", "client", "receive-window", "sender", "congestion", "timeout", "tail-probe",
          "fast-retransmit", "loss", "path-mtu", "round-trip", "end", "unknown")  # fmt: skip
# Columns of each limit: nanoseconds, how often, the first and last frame (file << 40 | number) of the evidence.
PARTS = ("ns", "times", "first", "last")


class Limit(NamedTuple):
    """A share of a connection's time.

    limit    one of `LIMITS`
    ns       the time, in nanoseconds; of all limits together it is the connection's duration exactly
    times    how many waits
    grade    "B" two kinds of evidence, "C" one, "L" at least, "N" unknown
    frames   the first and the last frame (file << 40 | number) that ended such a wait
    """

    limit: str
    ns: int
    times: int
    grade: str
    frames: tuple[int, ...]


def limits(numbers: Mapping[str, float | None]) -> tuple[Limit, ...]:
    """Return the shares of a connection's time, the largest first, from its numbers (`ConnectionReport.numbers`).

    Empty where it has no times, or no time passed.
    """
    if numbers["clock"]:
        return ()
    found = []
    for name in LIMITS:
        ns, times, first, last = (int(numbers.get(f"limit_{name}_{part}") or 0) for part in PARTS)
        if ns:
            grade = "N" if name == "unknown" else "C"
            found.append(Limit(name, ns, times, grade, tuple(dict.fromkeys(f for f in (first, last) if f > ABSENT))))
    return tuple(sorted(found, key=lambda one: -one.ns))
