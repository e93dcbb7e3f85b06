# SPDX-License-Identifier: MIT
"""A campaign on a Dask cluster whose workers stand in regions: parts handed out, results stored as they come.

A worker asks for a share of the rates (`rate_shares.py`) for the part that Dask gave it, probes (`cluster_worker.py`),
and sends packets, results and ended sessions. They are stored in that order: packets in a file of the attempt, results
in the database, which keeps each call once, then the places of ended sessions. So what is lost with a worker, or with
us, is what had not arrived; the next attempt begins with what is stored, as a resumed run does.

Back-pressure: a region has one part more than its workers can run, no attempt begins while messages wait, and a part is
bounded; so memory here is too. Rates, a host's too, and opt-outs hold over all workers.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

from configtron import __version__
from configtron.fleet.transport.dask_link import ClusterLink, Message
from configtron.model.errors import BadInput, ConfigtronError, Refused
from configtron.model.records import result_from_json, result_to_json
from configtron.probe.target_session import name_of
from configtron.probe.wire.journal import Ended
from configtron.probe.wire.listing import ListedParts
from configtron.probe.wire.opt_out import OptOut
from configtron.probe.wire.shard import TARGETS, Shard
from configtron.service.campaign.cluster_parts import Parts
from configtron.service.campaign.cluster_worker import perform_part
from configtron.service.campaign.rate_shares import BEAT_S, RateShares
from configtron.service.campaign.run_options import ProbeOptions
from configtron.service.campaign.tally import RunTally

LOG = logging.getLogger("configtron.probe")
# The campaign's name on the cluster, in the run's folder: each part's messages have it.
TOPIC = "cluster"
# Messages that wait before no further attempt begins: some seconds' work of the database.
MOST_WAITING = 200
# Attempts at parts that were done already, and that are shown as done for a lease's length.
DONE_SHOWN = 1000
# Tasks of a part that may fail, for whatever reason, before the campaign ends with that reason.
FAILURES = 3
# A task that is over, and of which no end came by then, has lost its messages.
LATE_S = 2.0
LOOK_S = 0.2
# Beats between two counts of the live workers.
BEATS_A_COUNT = 4


@dataclass(slots=True)
class _Task:
    """A part that Dask has: its task, and when it was seen to be over."""

    task: Any
    over_at: float = inf


@dataclass(slots=True)
class _Beat:
    """What workers read: its number, who may probe, whose part was done before, whether to begin no further target."""

    beat: int = 0
    leases: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    stop: bool = False
    opt_out: int = 0


def perform_cluster(options: ProbeOptions, shard: Shard, size: int, folder: Path, tally: RunTally) -> None:
    """Probe the targets of a run from the workers of a cluster. Errors: `BadInput`, `Missing`, `Refused`."""
    topic = folder / TOPIC
    if not topic.exists():
        topic.write_text(f"configtron-{uuid4().hex}")
    with closing(ClusterLink(options.cluster, topic.read_text())) as link, closing(Ended(folder / shard.name)) as ended:
        campaign = ClusterCampaign(options, shard, size, folder, tally, link, ended)
        campaign.check_regions()
        campaign.perform()


class ClusterCampaign:
    """The coordinator of one campaign."""

    def __init__(
        self,
        options: ProbeOptions,
        shard: Shard,
        size: int,
        folder: Path,
        tally: RunTally,
        link: ClusterLink,
        ended: Ended,
    ) -> None:
        self._shard, self._folder, self._tally = shard, folder / shard.name, tally
        self._link, self._ended = link, ended
        listing = ListedParts(self._folder / TARGETS, options.shard_targets)
        self._parts = Parts(listing, size, len(shard.vantages))
        self._left = [self._parts.unfinished(n, ended) for n in range(len(shard.vantages))]
        self._names = [vantage.name for vantage in shard.vantages]
        self._shares, self._beat, self._beat_at = RateShares(), _Beat(), -inf
        self._tasks: dict[int, _Task] = {}
        self._failures: dict[int, int] = {}
        self._slots: dict[str, int] = {}
        self._opt_out = OptOut(options.opt_out_files)
        self._until = time.monotonic() + options.max_runtime_s if options.max_runtime_s else inf

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
        total = self._parts.size * self._parts.vantages
        try:
            while self._shares.listed() if self._beat.stop else len(self._ended) < total:
                now = time.monotonic()
                self._beat.stop = now >= self._until
                self._submit()
                self._publish(now)
                while (event := self._link.next_event(LOOK_S)) is not None:
                    self._take(event)
                    if time.monotonic() > now + BEAT_S / 2:
                        break
                self._tally.keep([])
                self._look_after(time.monotonic())
        finally:
            self._shares, self._beat.stop = RateShares(), True
            self._publish(inf)
            self._link.cancel([one.task for one in self._tasks.values()])

    def _submit(self) -> None:
        """Give Dask one part more of each region than its workers can run."""
        for number, name in enumerate(self._names):
            there = sum(1 for part in self._tasks if self._parts.vantage(part) == number)
            for _ in range(self._slots.get(name, 0) + 1 - there):
                part = None if self._beat.stop else next(self._left[number], None)
                if part is not None:
                    self._send_part(part)

    def _send_part(self, part: int) -> None:
        name = self._names[self._parts.vantage(part)]
        self._tasks[part] = _Task(self._link.submit(perform_part, name, self._link.topic, part, __version__))

    def _publish(self, now: float) -> None:
        """Publish who may probe; revoke the shares of silent attempts and grant new ones."""
        beat = self._beat
        if now < self._beat_at + BEAT_S / 2:
            return
        for part in self._shares.expire(now):
            LOG.warning("part %d: its worker is silent; another attempt follows", part)
        if beat.beat % BEATS_A_COUNT == 0:
            self._slots = self._link.slots()
        for attempt, part in self._shares.waiting():
            self._grant(attempt, part)
        sources = self._opt_out.sources()
        if self._opt_out.version != beat.opt_out:
            self._link.publish("opt-out", [list(source) for source in sources])
            beat.opt_out = self._opt_out.version
        beat.beat, self._beat_at, beat.leases = beat.beat + 1, now, self._shares.listed()
        beat.done = beat.done[-DONE_SHOWN:]
        self._link.publish("state", {name: getattr(beat, name) for name in _Beat.__slots__})

    def _grant(self, attempt: str, part: int) -> None:
        """Give a waiting attempt its orders, if a share is free and its part is not done."""
        if self._parts.done(part, self._ended):
            self._beat.done.append(attempt)
            self._shares.drop(attempt)
        elif not self._beat.stop and self._link.waiting() < MOST_WAITING:
            share = self._shares.grant(attempt, sum(self._slots.get(name, 0) for name in self._names))
            if share:
                self._give_orders(attempt, part, share)

    def _give_orders(self, attempt: str, part: int, share: float) -> None:
        name, targets = self._names[self._parts.vantage(part)], self._parts.targets(part)
        places = self._parts.places(part)
        left = [t for t, place in zip(targets, places, strict=True) if place not in self._ended]
        sites = {site for t in left for site in (t.host, name_of(t).partition("/")[0])}
        known = self._tally.stored(name, sorted(sites))
        shard = self._shard
        mine = replace(
            shard,
            name=f"part-{part}",
            targets=tuple(targets),
            vantages=(shard.vantages[self._parts.vantage(part)],),
            rate=shard.rate * share,
            network_rate=shard.network_rate * share,
            # names of several parts may have one address
            host_rate=shard.host_rate * share,
            concurrency=min(shard.concurrency, len(targets)),
        )
        orders = {
            "shard": mine.to_json(),
            "results": [result_to_json(result) for result in known],
            "ended": [at for at, place in enumerate(places) if place in self._ended],
        }
        self._link.publish(f"orders-{attempt}", orders)

    def _take(self, event: Message) -> None:
        """Store what a task sent. Errors: `Refused` for one of another version, `ConfigtronError` for a fault."""
        attempt, part, now = str(event["attempt"]), int(event["part"]), time.monotonic()
        where = f"a worker in region {self._names[self._parts.vantage(part)]!r}"
        if event["kind"] == "refused":
            raise Refused(f"{where} {event['text']}")
        if event["kind"] == "fault":
            self._fail(part, f"{where}: {event['text']}")
        if event["kind"] == "begin":
            self._shares.begin(attempt, part, now)
        self._shares.hear(attempt, now)
        sender = self._shares.active(attempt)
        if sender is None or event["kind"] == "alive":
            return
        if event["number"] != sender.number:
            LOG.warning("part %d: messages of its worker were lost; another attempt follows", part)
            self._shares.revoke(attempt, now)
            return
        sender.number += 1
        packets = self._folder / f"{self._names[self._parts.vantage(part)]}-{part}-{attempt[:8]}.pcapng"
        if event["kind"] == "packets":
            with packets.open("ab") as file:
                file.write(event["data"])
        elif event["kind"] == "results":
            self._store_results(part, f"{self._shard.name}/{packets.name}", event)
        else:
            self._shares.end(attempt, now)
            self._link.publish(f"orders-{attempt}", None)

    def _store_results(self, part: int, file: str, event: Message) -> None:
        results = [result_from_json(text) for text in event["results"]]
        self._tally.keep([one._replace(evidence_file=file) if one.frames else one for one in results])
        places = self._parts.places(part)
        for at in event["ended"]:
            self._ended.add(places[at])
        self._tally.ended(len(self._ended))

    def _look_after(self, now: float) -> None:
        """Forget tasks that are done; begin those again that are over without being done."""
        for part, one in list(self._tasks.items()):
            outcome = self._link.outcome_of(one.task)
            if outcome is None:
                continue
            if self._parts.done(part, self._ended):
                del self._tasks[part]
                continue
            one.over_at = min(one.over_at, now)
            if now < one.over_at + LATE_S or self._link.waiting() or self._beat.stop:
                continue
            if outcome:
                self._fail(part, f"part {part}: {outcome}")
            self._send_part(part)

    def _fail(self, part: int, why: str) -> None:
        self._failures[part] = self._failures.get(part, 0) + 1
        LOG.warning("%s", why)
        if self._failures[part] >= FAILURES:
            raise ConfigtronError(f"{why}; mend that, and go on by --resume")
