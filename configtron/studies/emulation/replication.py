# SPDX-License-Identifier: MIT
"""The replication error: how far an emulator's flows are from a path's.

Question   By how much are conclusions off that are drawn over an emulator instead of over the path it stands for?
Method     The mean, over schemes, of how far throughput and 95th-percentile one-way delay are off, as parts of the
           path's. Several runs of a path or an emulator are their mean.
Reads as   a fraction; 0.17 is 17 %. A path held against itself in other runs has one too: the floor that no emulator
           can be asked to be below.
Fails as   ValueError where the schemes are not the same.
Differs    from Pantheon in what is not printed there: whether runs are averaged before or after. Here before: what one
           run has by chance is not the emulator's fault.
Source     Yan and others, "Pantheon: the training ground for Internet congestion-control research", USENIX ATC 2018, 5
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Figures(NamedTuple):
    """One scheme over one path: Mbit/s of whole packets, 95th percentile of the one-way delay in ms."""

    mbit: float
    delay_ms: float


# scheme -> what it got
Seen = Mapping[str, Figures]


def replication_error(path: Seen, emulator: Seen) -> float:
    """Mean relative difference of throughput and of delay over the schemes; 0.17 is 17 %. Errors: ValueError."""
    parts = differences(path, emulator)
    return sum(parts) / len(parts)


def differences(path: Seen, emulator: Seen) -> list[float]:
    """By scheme in order of names: throughput's, delay's. Errors: ValueError."""
    if not path or path.keys() != emulator.keys():
        raise ValueError(f"schemes {sorted(path)} are held against {sorted(emulator)}")
    return [
        abs(theirs - ours) / ours
        for scheme in sorted(path)
        for ours, theirs in zip(path[scheme], emulator[scheme], strict=True)
    ]


def mean_of(runs: Iterable[Seen]) -> dict[str, Figures]:
    """The mean of several runs, scheme by scheme. Errors: ValueError where there is none."""
    found = list(runs)
    if not found:
        raise ValueError("a mean of no runs")
    return {
        scheme: Figures(*(sum(values) / len(found) for values in zip(*(run[scheme] for run in found), strict=True)))
        for scheme in sorted(found[0])
    }
