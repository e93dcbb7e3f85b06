# SPDX-License-Identifier: MIT
"""Client prefixes as a map needs them: how many clients each has, what its network is now, when it changed.

Question   What is the network of this prefix now, and are there enough clients behind it to name it?
Method     Every outcome is a sample of its prefix: a change-point detector on round trips (`changepoint.py`) says when
           the network changed; medians (loss: the mean) are of the samples since, at most `WINDOW`, and further
           characteristics fade (a mean over some `MEMORY` samples, begun anew at a change). Clients are counted by
           their units within one epoch, since a unit is another one in the next: the largest count of any epoch is a
           number of clients that the prefix has had at least.
Stop when  never; at most `MOST_PREFIXES` are kept, those of the oldest outcomes go first.
Reads as   one context for each prefix; its clients; the latest change of its network (`NetworkChange`), with how long
           it went unseen, in outcomes and seconds.
Fails as   a sample that lacks bandwidth, round trip or loss says nothing of the network; its client counts.
Differs    from CT, which has no floor on the clients of a prefix.
Source     CT section 4; Sweeney 2002 (k-anonymity).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from configtron.learner.changepoint import Detector, Runs, no_runs
from configtron.learner.state import decode, encode
from configtron.model.characteristics import BY_NAME
from configtron.model.fleet import OutcomeRow
from configtron.model.nearest import LEAST_RTT_MS
from configtron.model.nouns import Context

# Samples of a prefix that a median is of, and a fading mean.
WINDOW, MEMORY = 50, 20
# Prefixes that are kept: some 100 MB.
MOST_PREFIXES = 100_000
# Units of an epoch that are kept apart: more clients than any floor asks for. Epochs that a row may be late; one of an
# epoch before these is after a longer `--epoch`, or after the clock was set back, and epochs count anew from there.
MOST_UNITS, LATE_EPOCHS = 1_000, 12

# kbit/s, ms, share lost; when, ns.
Sample = tuple[float, float, float, int]


@dataclass(frozen=True, slots=True)
class NetworkChange:
    """A change of a prefix's network. since_ns: its first sample after it; seen_ns, outcomes: the sample that showed
    it, and how many there were until then."""

    since_ns: int
    seen_ns: int
    outcomes: int


@dataclass(frozen=True, slots=True)
class PrefixTraffic:
    """clients: the most of one epoch; epoch, units: the latest epoch and its units; samples: since the latest change,
    `WINDOW` at most, of `count`; further: characteristics by name, fading means."""

    runs: Runs = field(default_factory=no_runs)
    clients: int = 0
    epoch: int = -1
    units: frozenset[str] = frozenset()
    samples: tuple[Sample, ...] = ()
    count: int = 0
    further: Mapping[str, Any] = field(default_factory=dict)
    change: NetworkChange | None = None

    def with_unit(self, epoch: int, unit: str) -> PrefixTraffic:
        """Count a client; of an epoch shortly before the latest, none: its units are gone."""
        if self.epoch - LATE_EPOCHS <= epoch < self.epoch or not unit:
            return self
        units = self.units if epoch == self.epoch else frozenset()
        if unit in units or len(units) >= MOST_UNITS:
            return self
        units |= {unit}
        return replace(self, epoch=epoch, units=units, clients=max(self.clients, len(units)))

    def with_sample(self, sample: Sample, further: Mapping[str, float], detector: Detector) -> PrefixTraffic:
        """Take a sample of the network in."""
        runs, found = detector.step(self.runs, max(sample[1], LEAST_RTT_MS))
        samples, change = (*self.samples, sample)[-WINDOW:], self.change
        mean, count = dict(self.further), self.count + 1
        if found is not None:
            samples = samples[-(found.latency + 1) :]
            change, mean, count = NetworkChange(samples[0][3], sample[3], found.latency + 1), {}, 1
        pace = 1.0 / min(count, MEMORY)
        for name, value in further.items():
            mean[name] = mean[name] + pace * (value - mean[name]) if name in mean else value
        return replace(self, runs=runs, samples=samples, count=count, further=mean, change=change)

    def network(self) -> dict[str, Any]:
        """Return what is known of the network, by the names of `Context`; {} without samples."""
        if not self.samples:
            return {}
        kbps, rtt, loss, _ = zip(*self.samples, strict=True)
        numbers = {"bandwidth_kbps": median(kbps), "rtt_ms": median(rtt), "loss": sum(loss) / len(loss)}
        return {**numbers, **self.further}


class Traffic:
    """All prefixes, at most `most` of them."""

    def __init__(self, detector: Detector | None = None, most: int = MOST_PREFIXES):
        self.detector, self.most = detector or Detector(), most
        self.prefixes_: dict[str, PrefixTraffic] = {}

    def take(self, row: OutcomeRow) -> Context:
        """Take an outcome in. Return the context to learn it by: what its prefix's network is by now."""
        context = context_of(row)
        if not row.prefix:
            return context
        known = self.prefixes_.pop(row.prefix, PrefixTraffic()).with_unit(row.epoch, row.unit)
        if row.bandwidth_kbps is not None and row.rtt_ms is not None and row.loss is not None:
            further = {name: float(value) for name, value in row.more.items() if name in BY_NAME}
            sample = (row.bandwidth_kbps, row.rtt_ms, row.loss, row.at_ns)
            known = known.with_sample(sample, further, self.detector)
        self.prefixes_[row.prefix] = known
        # Dictionaries keep the order of insertion, so the first one is that of the oldest outcome.
        while len(self.prefixes_) > self.most:
            del self.prefixes_[next(iter(self.prefixes_))]
        return replace(context, **known.network())

    def contexts(self) -> list[tuple[Context, PrefixTraffic]]:
        """Return every prefix of a known network, in order of name: its present context, and its traffic."""
        every = ((prefix, self.prefixes_[prefix]) for prefix in sorted(self.prefixes_))
        return [(Context(prefix=prefix, **known.network()), known) for prefix, known in every if known.samples]

    def forget(self, prefixes: Iterable[str]) -> None:
        """Forget prefixes and their networks."""
        for prefix in prefixes:
            self.prefixes_.pop(prefix, None)

    def save(self) -> str:
        """Return all of it as JSON text."""
        rows = [
            (name, one.runs, one.clients, one.epoch, tuple(sorted(one.units)), one.samples, one.count,
             dict(one.further), None if (c := one.change) is None else (c.since_ns, c.seen_ns, c.outcomes))
            for name, one in self.prefixes_.items()
        ]  # fmt: skip
        return encode({"prefixes": rows})

    def restore(self, text: str) -> None:
        """Go on where a saved one stood. Errors: `BadInput` for other text."""
        self.prefixes_ = {
            name: PrefixTraffic(runs, clients, epoch, frozenset(units), samples, count, further,
                                None if change is None else NetworkChange(*change))
            for name, runs, clients, epoch, units, samples, count, further, change in decode(text)["prefixes"]
        }  # fmt: skip


def context_of(row: OutcomeRow) -> Context:
    """Return what a row reports of its client."""
    return Context(row.bandwidth_kbps, row.rtt_ms, row.loss, row.site, row.prefix, device=row.device)
