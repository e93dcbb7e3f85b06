# SPDX-License-Identifier: MIT
"""Sessions as servers see them: every session is one sample of its network, and what is known of a client is watched.

Question   For how long is a client taken for one of its old network after that changed?
Method     A session shows its network's bandwidth and round trip, a little off and now and then far off, and how many
           of its packets were lost. `reclassify.Watch` keeps each client's features; a session is decided by what those
           before it showed, a client's first one by the history.
Stop when  all sessions were seen.
Reads as   the same sessions under the watch's features; for each client that moved to another class the sessions and
           seconds until it was taken for one of it; how often clients that had not moved came to another class.
Fails as   a client that is never taken for one of its new class, or had no session any more: counted as missed.
Differs    from CT, which reports no such latency.
Source     CT sections 4 and 6; Adams and MacKay 2007.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.classes import Classes
from configtron.learner.columns import Codes, Floats
from configtron.learner.reclassify import Watch, settled
from configtron.model.tensor import Tensor
from configtron.studies.sim.sessions import USUAL, Sessions, networks_of

# Packets of a page of a megabyte and a half: what a session's loss is counted over.
PACKETS = 1000
# Share of sessions whose round trips meet a bad moment, and how many times as long they are then.
SPIKES, SPIKE = 0.02, 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """sessions: decided by the watch's features. after: (moved clients,) sessions that each still had under an old
    class, waited_s: seconds; NaN where it was never noticed. restless: clients that came to another class though they
    had not moved, per session."""

    sessions: Sessions
    after: Floats
    waited_s: Floats
    restless: float


def watched(
    sessions: Sessions, tensor: Tensor, classes: Classes, rng: np.random.Generator, *, moved_s: float = np.inf
) -> Watched:
    """Sessions whose clients may change their network for good at `moved_s`, as a watch over `classes` sees them."""
    seen = sessions.seen
    kbps, rtt, loss = _samples(sessions, tensor, rng)
    samples = replace(seen, bandwidth_kbps=kbps, rtt_ms=rtt, loss=loss)
    shown, moved = settled(Watch(classes.nouns()), samples, seen)
    came = sum(sessions.at_s[at] < moved_s for at, _ in moved)
    calm = max(int((sessions.at_s < moved_s).sum()), 1)
    found = replace(sessions, seen=shown)
    return Watched(found, *_latency(found, tensor, classes, moved_s), float(came / calm))


def _samples(sessions: Sessions, tensor: Tensor, rng: np.random.Generator) -> Floats:
    """(3, n) what each session shows of the network it began on: kbit/s, ms, share lost."""
    code, n = sessions.condition, len(sessions)
    wrong = np.exp(USUAL.off_ln * rng.standard_normal((2, n)))
    rtt = tensor.rtt_ms[code] * wrong[1] * np.where(rng.random(n) < SPIKES, SPIKE, 1.0)
    lost = rng.binomial(PACKETS, tensor.loss[code]) / PACKETS
    return np.stack((tensor.bandwidth_kbps[code] * wrong[0], rtt, lost))


def _latency(sessions: Sessions, tensor: Tensor, classes: Classes, moved_s: float) -> tuple[Floats, Floats]:
    """For each client whose class changed at `moved_s`: sessions and seconds until one was decided by the new class."""
    home = classes.of(networks_of(tensor))
    decided, true = classes.of(sessions.seen), home[sessions.condition]
    after, waited = [], []
    for rows in _by_prefix(sessions.seen.prefix):
        old, new = (rows[flag] for flag in (sessions.at_s[rows] < moved_s, sessions.at_s[rows] >= moved_s))
        if not len(old) or not len(new) or true[old[-1]] == true[new[0]]:
            continue
        right = np.flatnonzero(decided[new] == true[new[0]])
        after.append(float(right[0]) if len(right) else np.nan)
        waited.append(float(sessions.at_s[new[right[0]]] - moved_s) if len(right) else np.nan)
    return np.array(after), np.array(waited)


def _by_prefix(prefix: Codes) -> list[Codes]:
    """Each client's sessions, in order."""
    order = np.argsort(prefix, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(prefix[order])) + 1) if len(order) else []
