# SPDX-License-Identifier: MIT
"""Many conversations at once: one thread, all vantages' sockets, one heap of deadlines.

Order of work in each round, which makes a live run the same as its replay:
1. Note the time. 2. Hear everything that has arrived. 3. Let lapse the deadlines that were over at the time noted.
A packet that came before a deadline is therefore always heard before the deadline lapses.

Nothing depends on chance: sequence numbers and first ports come from a seeded generator, stations are served in the
order given, flows are looked up, never iterated over in hash order. In virtual time the same seed gives the same run.
"""

from __future__ import annotations

import errno
import heapq
import os
import select
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import count
from random import Random
from types import TracebackType
from typing import Self, cast

from configtron.linux.clock import SteadyClock
from configtron.model.errors import BadInput
from configtron.model.nouns import Target, Trace, Value, Vantage
from configtron.probe import PROBES
from configtron.probe.script import Script, StreamScript
from configtron.probe.spacing import Spacing
from configtron.probe.wire.flow import ProbeFlow, Recording, beginning
from configtron.probe.wire.frames import Envelope, dissect, packed
from configtron.probe.wire.isolation import Isolation
from configtron.probe.wire.live import AT_ONCE, Unsuitable, VantageSockets
from configtron.probe.wire.routes import route_to
from configtron.probe.wire.sourceports import SourcePorts
from configtron.probe.wire.stream import carry
from configtron.probe.wire.tls import Trust

# Between a packet's time stamp (in the interrupt) and its place in our buffer lie microseconds; a deadline lapses only
# after this much more, so that no packet stamped before it can turn up after it.
LAPSE_GRACE_NS = 1_000_000
# How often the drop counters are read while nothing finishes.
DROPS_EVERY_NS = 100_000_000

Key = tuple[bytes, int, int]  # remote address, remote port, our port


class Pump:
    """Players of many probes over the sockets of several vantages. See the contract of each method."""

    def __init__(
        self,
        vantages: Sequence[Vantage],
        *,
        ports: range,
        seed: int,
        agent: str,
        turns: Spacing | None = None,
        clock: SteadyClock | None = None,
    ) -> None:
        self._clock = clock or SteadyClock()
        self._agent = agent
        # Whose turn it is to start: a SYN that is repeated waits for its own.
        self._turns = turns or Spacing()
        self._random = Random(seed)
        self._trust = Trust()
        self._posts: list[_Post] = []
        self._due: list[tuple[int, int, _Post, Key]] = []
        self._serial = count()
        self._finished: list[Recording] = []
        self._drops_read_ns = 0
        self._epoll = select.epoll()
        with ExitStack() as stack:
            stack.callback(self._trust.close)
            stack.callback(self._epoll.close)
            stack.callback(self._close_posts)
            for vantage in vantages:
                isolation = Isolation(vantage, ports)
                stack.callback(isolation.close)
                self._posts.append(_Post(vantage, ports, self._random, self._clock, self._epoll))
            self._stack = stack.pop_all()
        self._by_name = {post.vantage.name: post for post in self._posts}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    @property
    def active(self) -> int:
        """Flows that have not ended."""
        return sum(len(post.flows) for post in self._posts)

    def now(self) -> float:
        """Return seconds since the epoch, which no step of the wall clock moves; packets are stamped with it too."""
        return self._clock.now_ns() / 1e9

    def begin(
        self, vantage: str, trace_id: str, target: Target, probe: str, params: tuple[tuple[str, Value], ...]
    ) -> None:
        """Make the probe's script and start it; its recording comes from a later `poll`."""
        post = self._by_name[vantage]
        row = PROBES[probe]
        made = row.script(target, self._agent, **dict(params))
        script, log = carry(cast(StreamScript, made), target, self._trust) if row.stream else (cast(Script, made), None)
        now_ns = self._clock.now_ns()
        station = post.towards(target.address)
        key, envelope = post.ends(target, station, now_ns)
        about = beginning(trace_id, target, vantage, probe, params, now_ns, self._agent)
        flow = ProbeFlow(about, script, partial(post.send, station), envelope, self._random.getrandbits(32), log=log)
        post.flows[key] = flow
        flow.start()
        self._settle(post, key, flow)

    def poll(self, timeout_s: float) -> list[Recording]:
        """Receive packets and end flows that are over, until one finishes or the time is up."""
        until_ns = self._clock.now_ns() + int(timeout_s * 1e9)
        while True:
            now_ns = self._clock.now_ns()
            if not self._finished:
                wait_ns = until_ns - now_ns
                if self._due:
                    wait_ns = min(wait_ns, self._due[0][0] + LAPSE_GRACE_NS - now_ns)
                ready = {fd for fd, _ in self._epoll.poll(max(wait_ns, 0) / 1e9)}
                asked_ns, now_ns = now_ns, self._clock.now_ns()
            else:
                ready = {fd for fd, _ in self._epoll.poll(0)}
                asked_ns = now_ns
            self._clock.measure()
            for post in self._posts:
                for station in post.stations.values():
                    if station.fileno() in ready:
                        self._hear(post, station)
                    # Whatever waits there from now on was stamped after that.
                    station.empty_ns = asked_ns
            self._lapse(now_ns - LAPSE_GRACE_NS)
            if self._finished or now_ns >= until_ns:
                return self._hand_over(now_ns)

    def close(self) -> None:
        """RST to all open flows; sockets closed, isolation removed."""
        for post in self._posts:
            for flow in post.flows.values():
                flow.abort("interrupted")
            post.flows.clear()
        self._stack.close()

    def _close_posts(self) -> None:
        for post in self._posts:
            post.close()

    def _hear(self, post: _Post, station: VantageSockets) -> None:
        """Take in all packets that have arrived at a station."""
        clock, full = self._clock, True
        while full:
            arrivals = station.hear()
            full = len(arrivals) == AT_ONCE
            clock.measure()
            for stamp_ns, data, length, gso_size in arrivals:
                at_ns, sure = clock.steady_ns(stamp_ns, station.empty_ns)
                self._arrive(post, at_ns, data, length, gso_size, sure=sure)

    def _arrive(self, post: _Post, at_ns: int, data: bytes, length: int, gso_size: int, *, sure: bool) -> None:
        """Hand a frame to its flow, if it is one's."""
        found = dissect(data, length)
        if found is None:
            return
        key = (found.source, found.source_port, found.destination_port)
        flow = post.flows.get(key)
        if flow is None:
            return
        if not sure:
            flow.taint("clock-step")
        flow.arrive(at_ns, found, data, gso_size)
        self._settle(post, key, flow)

    def _lapse(self, over_ns: int) -> None:
        due = self._due
        while due and due[0][0] <= over_ns:
            _, _, post, key = heapq.heappop(due)
            flow = post.flows.get(key)
            if flow is None:
                continue
            flow.queued_ns = None
            if flow.due_ns <= over_ns and not self._put_off(flow):
                sent = flow.sent
                flow.lapse()
                if flow.turn_ns:
                    flow.turn_ns = 0
                    self._turns.settled(self.now() if flow.sent > sent else None)
            self._settle(post, key, flow)

    def _put_off(self, flow: ProbeFlow) -> bool:
        """Return whether the flow, unanswered until now, has to wait for its turn: its next packet may be a SYN."""
        if flow.turn_ns or not flow.unanswered:
            return False
        now = self.now()
        at = self._turns.book(flow.about.target.address, now)
        flow.turn_ns = int(at * 1e9)
        return at > now

    def _settle(self, post: _Post, key: Key, flow: ProbeFlow) -> None:
        """After a step: finish, or make sure that the next deadline is in the heap (a later entry renews itself)."""
        if flow.turn_ns and not flow.unanswered:
            # The answer came while the repeat was waiting for its turn; if it has been sent, then just now.
            flow.turn_ns = 0
            self._turns.settled(self.now())
        if flow.player.ending is not None:
            del post.flows[key]
            post.ports.give_back(flow.about.target.address, key[1], key[2], self._clock.now_ns())
            self._finished.append(flow.recording())
            return
        due_ns = flow.due_ns
        if flow.queued_ns is None or due_ns < flow.queued_ns:
            flow.queued_ns = due_ns
            heapq.heappush(self._due, (due_ns, next(self._serial), post, key))

    def _hand_over(self, now_ns: int) -> list[Recording]:
        if self._finished or now_ns - self._drops_read_ns >= DROPS_EVERY_NS:
            self._drops_read_ns = now_ns
            self._taint_dropped()
        finished, self._finished = self._finished, []
        return finished

    def _taint_dropped(self) -> None:
        for post in self._posts:
            # All are asked: asking sets a counter back.
            if not sum(station.drops() for station in post.stations.values()):
                continue
            for flow in post.flows.values():
                flow.taint("drops")
            self._finished = [
                r._replace(trace=_tainted(r.trace)) if r.trace.vantage == post.vantage.name else r
                for r in self._finished
            ]


class _Post:
    """One vantage at work: its sockets, its ports, its open flows.

    A vantage that names its interface has one station. One that does not has a station for each pair of interface and
    source address that the routes to its targets lead by, opened when the first such target is begun.
    """

    def __init__(self, vantage: Vantage, ports: range, random: Random, clock: SteadyClock, epoll: select.epoll) -> None:
        self.vantage, self._range, self._clock, self._epoll = vantage, ports, clock, epoll
        self.ports = SourcePorts(ports, random)
        self.flows: dict[Key, ProbeFlow] = {}
        self.stations: dict[tuple[str, str], VantageSockets] = {}
        if vantage.interface:
            self._open(vantage, (vantage.interface, ""))

    def towards(self, address: str) -> VantageSockets | str:
        """Return the station by which an address is reached, or why there is none."""
        vantage = self.vantage
        if vantage.interface:
            return self.stations[vantage.interface, ""]
        field = "source_address6" if ":" in address else "source_address"
        route = route_to(address, netns=vantage.netns, source=getattr(vantage, field))
        if route is None or not route.source:
            return os.strerror(errno.ENETUNREACH)
        there = route.interface, route.source
        if there not in self.stations:
            bare = replace(vantage, interface=route.interface, source_address="", source_address6="")
            try:
                self._open(replace(bare, **{field: route.source}), there)
            except Unsuitable as error:
                return str(error)
        return self.stations[there]

    def _open(self, vantage: Vantage, place: tuple[str, str]) -> None:
        station = self.stations[place] = VantageSockets(vantage, self._range)
        station.empty_ns = self._clock.now_ns()
        self._epoll.register(station.fileno(), select.EPOLLIN)

    def close(self) -> None:
        """Close the sockets."""
        for station in self.stations.values():
            station.close()

    def ends(self, target: Target, station: VantageSockets | str, now_ns: int) -> tuple[Key, Envelope]:
        """Return a source port for a target, as the flow's key and envelope."""
        remote = packed(target.address)
        source = bytes(len(remote)) if isinstance(station, str) else station.sources[len(remote)]
        if not source:
            raise BadInput(f"vantage {self.vantage.name!r} has no source address for {target.address}")
        port = self.ports.take(target.address, target.port, now_ns)
        return (remote, target.port, port), Envelope(source, remote, port, target.port)

    def send(self, station: VantageSockets | str, packet: bytes, address: str) -> int:
        """Send; the time just before. On a short path the answer is stamped before the system call returns."""
        if isinstance(station, str):
            raise OSError(errno.ENETUNREACH, station)
        at_ns = self._clock.now_ns()
        station.send(packet, address)
        return at_ns


def _tainted(trace: Trace) -> Trace:
    return trace if "drops" in trace.tainted else replace(trace, tainted=(*trace.tainted, "drops"))
