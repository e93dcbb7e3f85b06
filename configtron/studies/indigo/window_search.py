# SPDX-License-Identifier: MIT
"""Find a link's best window: the fixed one with the largest throughput over 95th-percentile delay.

    tried: dict[int, float] = {}
    while windows := next_windows(tried): tried.update({window: power(window) for window in windows})
    best_window(tried)

Question   Which window is best on a link, without a formula for it?
Method     Windows that double, from the least to the largest, until the power has not risen for two in a row; then,
           between the neighbours of the best one, windows that divide each gap into `PARTS`, until gaps are below one
           packet or a twentieth of the window. Powers within a hundredth are equal, and the smaller window is better:
           a window beyond what a path and its queue hold only loses packets, which power does not show.
Reads as   the window in packets, of those that ran.
Fails as   a link whose power has several peaks further apart than the doubling: the highest that was met counts.
Source     Yan and others, USENIX ATC 2018, section 4.2: the best window of an emulated link is known to the expert
"""

from __future__ import annotations

from collections.abc import Mapping

from configtron.lab.schemes.indigo_network import LEAST_WINDOW, MOST_WINDOW

FIRST = int(LEAST_WINDOW)
PARTS = 4
# A gap below this share of the best window, or of one packet, is narrow enough.
NARROW = 0.05
# Doublings in a row whose power does not rise, before larger windows are left out.
FALLING = 2
# Chance moves the power of two flows on one link by as much.
TIE = 0.01


def next_windows(tried: Mapping[int, float]) -> list[int]:
    """Return the windows to run next; none when the best one is known. tried: the power by window."""
    doubled = [window for window in _doublings() if window in tried]
    if not doubled:
        return _doublings()[:FALLING]
    falling = [tried[later] < (1 + TIE) * tried[one] for one, later in zip(doubled, doubled[1:], strict=False)][
        -FALLING:
    ]
    if len(doubled) < len(_doublings()) and not (len(falling) == FALLING and all(falling)):
        return [_doublings()[len(doubled)]]
    return _between(tried)


def best_window(tried: Mapping[int, float]) -> int:
    """Return the window with the largest power, the smallest of equals."""
    least = (1 - TIE) * max(tried.values())
    return min(window for window, power in tried.items() if power >= least)


def _doublings() -> list[int]:
    found = [FIRST]
    while found[-1] * 2 < MOST_WINDOW:
        found.append(found[-1] * 2)
    return [*found, int(MOST_WINDOW)]


def _between(tried: Mapping[int, float]) -> list[int]:
    """Return windows that divide the gaps on both sides of the best one."""
    best, known = best_window(tried), sorted(tried)
    at, found = known.index(best), set[int]()
    for low, high in ((known[max(0, at - 1)], best), (best, known[min(len(known) - 1, at + 1)])):
        if high - low > max(1.0, NARROW * best):
            found |= {round(low + (high - low) * part / PARTS) for part in range(1, PARTS)}
    return sorted(found - set(known))
