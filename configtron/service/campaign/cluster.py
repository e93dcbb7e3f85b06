# SPDX-License-Identifier: MIT
"""A campaign on a Dask cluster whose workers stand in regions: parts handed out, results stored as they come.

A worker asks for a lease (`leases.py`) on the part that Dask gave it, probes (`cluster_task.py`), and sends packets,
results and ended sessions. They are stored in that order: packets in a file of the attempt, results in the database,
which keeps each call once, then the places of ended sessions. So what is lost with a worker, or with us, is what had
not arrived; the next attempt begins with what is stored, as a resumed run does.

Back-pressure: a region has one part more than its workers can run, no lease begins while messages wait, and a part is
bounded; so memory here is too. Rates, a host's too, and opt-outs hold over all workers.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from configtron import __version__
from configtron.db.store import Store
from configtron.fleet.transport.dask_link import ClusterLink, Message
from configtron.model.errors import BadInput, ConfigtronError, Refused
from configtron.model.records import result_from_json, result_to_json
from configtron.probe.target_session import name_of
from configtron.probe.wire.journal import Ended
from configtron.probe.wire.listing import ListedParts
from configtron.probe.wire.shard import TARGETS, Shard
from configtron.service.campaign.cluster_parts import Parts
from configtron.service.campaign.cluster_task import perform_part
from configtron.service.campaign.rate_shares import BEAT_S, LeaseTable
from configtron.service.campaign.opt_out import OptOut
from configtron.service.campaign.run_options import ProbeOptions
from configtron.service.campaign.tally import RunTally

LOG = logging.getLogger("configtron.probe")
# The campaign's name on the cluster, in the run's folder: workers keep their parts under it.
TOPIC = "cluster"
# Messages that wait before no further lease begins: some seconds' work of the database.
MOST_WAITING = 200
# Attempts whose work is stored and who are waiting to hear so; they wait for a lease's length.
CLOSED_SHOWN = 1000
# Tasks of a part that may fail, for whatever reason, before the campaign ends with that reason.
FAILURES = 3
# A task that is over, and of which no end came by then, has lost its messages.
LATE_S = 2.0
LOOK_S = 0.2
# Beats between two counts of the live workers.
BEATS_A_COUNT = 4


@dataclass(slots=True)
class _Attempt:
    """An attempt that sends: the next message's number, and the file of its packets."""

    part: int
    packets: Path
    number: int = 0


@dataclass(slots=True)
class _Task:
    """A part that Dask has: its task, and when it was seen to be over."""

    task: Any
    over_at: float | None = None


@dataclass(slots=True)
class _CampaignState:
    """All that changes during a campaign."""

    tasks: dict[int, _Task] = field(default_factory=dict)
    attempts: dict[str, _Attempt] = field(default_factory=dict)
    wishes: dict[str, tuple[int, float]] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)
    failures: dict[int, int] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    beat: int = 0
    beat_at: float = float("-inf")
    opt_out: int = 0
    stop: bool = False


def perform_cluster(
    options: ProbeOptions, shard: Shard, size: int, folder: Path, store: Store, run: int, tally: RunTally
) -> None:
    """Probe the targets of a run from the workers of a cluster. Errors: `BadInput`, `Missing`, `Refused`."""
    link = ClusterLink(options.cluster, _topic(folder))
    ended = Ended(folder / shard.name)
    try:
        campaign = ClusterCampaign(options, shard, size, folder, store, run, tally, link, ended)
        campaign.check_regions()
        campaign.perform()
    finally:
        ended.close()
        link.close()


def _topic(folder: Path) -> str:
    path = folder / TOPIC
    if not path.exists():
        path.write_text(f"configtron-{uuid4().hex}")
    return path.read_text()


class ClusterCampaign:
    """The coordinator of one campaign."""

    def __init__(
        self, options: ProbeOptions, shard: Shard, size: int, folder: Path, store: Store, run: int, tally: RunTally,
        link: ClusterLink, ended: Ended,
    ) -> None:  # fmt: skip
        self._shard, self._folder, self._store, self._run, self._tally = shard, folder / shard.name, store, run, tally
        self._link, self._ended = link, ended
        listing = ListedParts(self._folder / TARGETS, options.shard_targets)
        self._parts = Parts(listing, size, len(shard.vantages))
        self._left = [self._parts.unfinished(n, ended) for n in range(len(shard.vantages))]
        self._names = [vantage.name for vantage in shard.vantages]
        self._leases, self._state = LeaseTable(), _CampaignState()
        self._opt_out = OptOut(options.opt_out_files)
        self._until = time.monotonic() + options.max_runtime_s if options.max_runtime_s else float("inf")

    def check_regions(self) -> None:
        """Refuse a campaign of which a region has no worker. Errors: `BadInput`."""
        there = self._link.slots()
        for name in self._names:
            if not there.get(name):
                raise BadInput(
                    f"no worker of the cluster stands in region {name!r}; start one there: dask worker tls://SCHEDULER"
                    f" --nthreads 1 --resources region:{name}=1"
                )

    def perform(self) -> None:
        """Go through all parts."""
        try:
            while self._busy():
                now = time.monotonic()
                self._state.stop = now >= self._until
                self._submit()
                self._beat(now)
                while (event := self._link.next_event(LOOK_S)) is not None:
                    self._take(event)
                    if time.monotonic() > now + BEAT_S / 2:
                        break
                self._tally.keep([])
                self._look_after(time.monotonic())
        finally:
            self._leases, self._state.stop = LeaseTable(), True
            self._beat(float("inf"))
            self._link.cancel([one.task for one in self._state.tasks.values()])

    def _busy(self) -> bool:
        if self._state.stop:
            return bool(self._leases.listed())
        return len(self._ended) < self._parts.size * self._parts.vantages

    def _submit(self) -> None:
        """Give Dask one part more of each region than its workers can run."""
        for number, name in enumerate(self._names):
            there = sum(1 for part in self._state.tasks if self._parts.vantage(part) == number)
            for _ in range(self._state.slots.get(name, 0) + 1 - there):
                part = None if self._state.stop else next(self._left[number], None)
                if part is not None:
                    self._send_part(part)

    def _send_part(self, part: int) -> None:
        name = self._names[self._parts.vantage(part)]
        self._state.tasks[part] = _Task(self._link.submit(perform_part, name, self._link.topic, part, __version__))

    def _beat(self, now: float) -> None:
        """Publish who may probe; expire leases and grant new ones."""
        state = self._state
        if now < state.beat_at + BEAT_S / 2:
            return
        for attempt in self._leases.expire(now):
            LOG.warning("part %d: its worker is silent; another attempt follows", state.attempts.pop(attempt).part)
        self._grant(now)
        sources = self._opt_out.sources()
        if self._opt_out.version != state.opt_out:
            self._link.publish("opt-out", [list(source) for source in sources])
            state.opt_out = self._opt_out.version
        state.beat, state.beat_at = state.beat + 1, now
        state.closed = state.closed[-CLOSED_SHOWN:]
        self._link.publish("state", {
            "beat": state.beat, "leases": self._leases.listed(), "closed": state.closed, "stop": state.stop,
            "opt_out": state.opt_out,
        })  # fmt: skip

    def _grant(self, now: float) -> None:
        state = self._state
        if state.beat % BEATS_A_COUNT == 0:
            state.slots = self._link.slots()
        slots = sum(state.slots.get(name, 0) for name in self._names)
        for attempt, (part, _) in list(state.wishes.items()):
            if self._parts.done(part, self._ended):
                state.closed.append(attempt)
                del state.wishes[attempt]
            elif not state.stop and self._link.waiting() < MOST_WAITING:
                share = self._leases.grant(attempt, part, slots, now)
                if share:
                    self._give_orders(attempt, part, share)
                    del state.wishes[attempt]

    def _give_orders(self, attempt: str, part: int, share: float) -> None:
        name, targets = self._names[self._parts.vantage(part)], self._parts.targets(part)
        places = self._parts.places(part)
        left = [t for t, place in zip(targets, places, strict=True) if place not in self._ended]
        sites = {site for t in left for site in (t.host, name_of(t).partition("/")[0])}
        known = self._store.results_of(self._run, name, sorted(sites))
        orders = {
            "vantage": name,
            "shard": self._share_of(part, share, tuple(targets)).to_json(),
            "results": [result_to_json(result) for result in known],
            "ended": [at for at, place in enumerate(places) if place in self._ended],
        }
        self._link.publish(f"orders-{attempt}", orders)
        packets = self._folder / f"{name}-{part}-{attempt[:8]}.pcapng"
        self._state.attempts[attempt] = _Attempt(part, packets, 1)

    def _share_of(self, part: int, share: float, targets: tuple[Any, ...]) -> Shard:
        shard = self._shard
        return replace(
            shard,
            name=f"part-{part}",
            targets=targets,
            vantages=(shard.vantages[self._parts.vantage(part)],),
            rate=shard.rate * share,
            network_rate=shard.network_rate * share,
            # names of several parts may have one address
            host_rate=shard.host_rate * share,
            concurrency=min(shard.concurrency, len(targets)),
        )

    def _take(self, event: Message) -> None:
        """Store what a task sent. Errors: `Refused` for one of another version, `ConfigtronError` for a fault."""
        attempt, part, now = str(event["attempt"]), int(event["part"]), time.monotonic()
        where = f"a worker in region {self._names[self._parts.vantage(part)]!r}"
        if event["kind"] == "refused":
            raise Refused(f"{where} {event['text']}")
        if event["kind"] == "fault":
            self._fail(part, f"{where}: {event['text']}")
        if event["kind"] == "begin":
            self._state.wishes[attempt] = part, now
        elif attempt in self._state.wishes:
            self._state.wishes[attempt] = part, now
        self._leases.hear(attempt, now)
        sender = self._state.attempts.get(attempt)
        if sender is not None and event["kind"] != "alive":
            self._store_event(attempt, sender, event, now)

    def _store_event(self, attempt: str, sender: _Attempt, event: Message, now: float) -> None:
        if event["number"] != sender.number:
            LOG.warning("part %d: messages of its worker were lost; another attempt follows", sender.part)
            self._leases.revoke(attempt, now)
            del self._state.attempts[attempt]
            return
        sender.number += 1
        if event["kind"] == "packets":
            with sender.packets.open("ab") as file:
                file.write(event["data"])
        elif event["kind"] == "results":
            self._store_results(sender, event)
        else:
            self._end(attempt, sender, now)

    def _store_results(self, sender: _Attempt, event: Message) -> None:
        file = f"{self._shard.name}/{sender.packets.name}"
        results = [result_from_json(text) for text in event["results"]]
        self._tally.keep([one._replace(evidence_file=file) if one.frames else one for one in results])
        places = self._parts.places(sender.part)
        for at in event.get("ended", ()):
            self._ended.add(places[at])
        self._tally.ended(len(self._ended))

    def _end(self, attempt: str, sender: _Attempt, now: float) -> None:
        self._leases.end(attempt, now)
        del self._state.attempts[attempt]
        self._link.publish(f"orders-{attempt}", None)
        if self._parts.done(sender.part, self._ended):
            self._state.closed.append(attempt)

    def _look_after(self, now: float) -> None:
        """Forget tasks that are done; begin those again that are over without being done."""
        state = self._state
        state.wishes = {a: wish for a, wish in state.wishes.items() if now - wish[1] < LATE_S + 5 * BEAT_S}
        for part, one in list(state.tasks.items()):
            outcome = self._link.outcome_of(one.task)
            if outcome is None:
                continue
            if self._parts.done(part, self._ended):
                del state.tasks[part]
                continue
            one.over_at = one.over_at or now
            if now < one.over_at + LATE_S or self._link.waiting() or state.stop:
                continue
            if outcome:
                self._fail(part, f"part {part}: {outcome}")
            self._send_part(part)

    def _fail(self, part: int, why: str) -> None:
        self._state.failures[part] = self._state.failures.get(part, 0) + 1
        LOG.warning("%s", why)
        if self._state.failures[part] >= FAILURES:
            raise ConfigtronError(f"{why}; mend that, and go on by --resume")
