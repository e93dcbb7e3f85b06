# SPDX-License-Identifier: MIT
"""Which class a client is in now, from its samples, and how long a change of network went unnoticed.

Question   Is this client still on the network that its class was taken from?
Method     A change-point detector per client on its round trips. Features are medians (loss: the mean) over the samples
           since the last change, at most `window` of them; a change drops the older ones, and the class is looked up
           anew at once.
Stop when  never; memory is bounded by `window` samples a client.
Reads as   a context with the client's present features; `Reclassified` for every client that came to another class.
Fails as   a change that round trips do not show: the window forgets it within `window` samples.
Differs    from CT, which re-assigns at the manager's update: here with the sample that shows the change.
Source     CT sections 4 and 6; `configtron replay study drift` shows that this latency, not a
           learner's window, decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.changepoint import Detector, Runs, no_runs
from configtron.learner.columns import Contexts
from configtron.learner.state import decode, encode, keep
from configtron.model.nearest import LEAST_RTT_MS, nearest
from configtron.model.nouns import Context, NetworkClass

# kbit/s, ms, share lost.
Numbers = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Reclassified:
    """A client that came to another class. latency: its samples from the change to the new class."""

    prefix: str
    before: str
    now: str
    latency: int


@keep
@dataclass(frozen=True, slots=True)
class Client:
    """One client: its detector's runs, latest samples (kbit/s, ms, loss), class, whether a change is being settled."""

    runs: Runs
    samples: tuple[Numbers, ...] = ()
    class_id: str = ""
    changed_at: int = -1


class Watch:
    """All clients. classes: where to look up; window: samples per feature."""

    def __init__(self, classes: tuple[NetworkClass, ...], detector: Detector | None = None, *, window: int = 50):
        self.classes, self.detector, self.window = classes, detector or Detector(), window
        self.clients_: dict[str, Client] = {}

    def sample(self, context: Context) -> tuple[Context, Reclassified | None]:
        """One sample of a client, by its prefix. Returns the context to decide by; an incomplete sample passes
        through."""
        if context.bandwidth_kbps is None or context.rtt_ms is None or context.loss is None or not context.prefix:
            return context, None
        client = self.clients_.get(context.prefix) or Client(no_runs())
        runs, change = self.detector.step(client.runs, max(context.rtt_ms, LEAST_RTT_MS))
        row = (context.bandwidth_kbps, context.rtt_ms, context.loss)
        samples = (*client.samples, row)[-self.window :]
        if change is not None:
            samples = samples[-(change.latency + 1) :]
        kbps, rtt, loss = _features(samples)
        settled = replace(context, bandwidth_kbps=kbps, rtt_ms=rtt, loss=loss)
        found = nearest(self.classes, settled)
        now = found.id if found else ""
        since = change.since if change is not None else client.changed_at
        moved = None
        if client.class_id and now != client.class_id:
            latency = runs.samples - 1 - since if since >= 0 else 0
            moved = Reclassified(context.prefix, client.class_id, now, latency)
            since = -1
        self.clients_[context.prefix] = Client(runs, samples, now, since)
        return settled, moved

    def known(self, prefix: str) -> Numbers | None:
        """Return the kbit/s, ms and share lost to decide a client of that prefix by now; None before its first
        sample."""
        client = self.clients_.get(prefix)
        return None if client is None else _features(client.samples)

    def save(self) -> str:
        """Return all clients as JSON text."""
        return encode({"watch": self.clients_})

    def restore(self, text: str) -> None:
        """Go on where a saved watch stood."""
        clients: Mapping[str, Client] = decode(text)["watch"]
        self.clients_ = dict(clients)


def _features(samples: Sequence[Numbers]) -> Numbers:
    kbps, rtt, _ = map(float, np.median(np.array(samples), axis=0))
    return kbps, rtt, float(np.mean([sample[2] for sample in samples]))


def settled(watch: Watch, samples: Contexts, otherwise: Contexts) -> tuple[Contexts, list[tuple[int, Reclassified]]]:
    """Give samples in order of arrival to the watch. Return the context to decide each by: from its client's earlier
    samples, or for a client's first its row of `otherwise`; and by row the clients that changed class."""
    kbps, rtt, loss = otherwise.bandwidth_kbps.copy(), otherwise.rtt_ms.copy(), otherwise.loss.copy()
    came = []
    for at in range(len(samples)):
        sample = samples.row(at)
        if before := watch.known(sample.prefix):
            kbps[at], rtt[at], loss[at] = before
        _, moved = watch.sample(sample)
        came += [(at, moved)] if moved else []
    return replace(otherwise, bandwidth_kbps=kbps, rtt_ms=rtt, loss=loss), came
