# SPDX-License-Identifier: MIT
"""Probes on wires in virtual time: what is read of a conversation, and that its recording plays the same again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from configtron.fingerprint import read
from configtron.model.nouns import OPT_MSS, Observation, Packet, Segment, Target, Trace
from configtron.model.protocols import Wire
from configtron.probe import PROBES
from configtron.probe.play import Recorded, play
from tests.support.timed_wire import TimedWire

TARGET = Target("site.example", "192.0.2.1")
MSS = 1460
MSS_OPTION = (OPT_MSS, MSS.to_bytes(2, "big"))
RTT_S = 0.05
# What we sent, with its type of service -> what comes back, each with its time to live.
Rule = Callable[[Segment, int], Sequence[tuple[Segment, int]]]


def played(probe: str, wire: Wire, /, **params: Any) -> Trace:
    script: Any = PROBES[probe].script
    packets, ending = play(script(TARGET, "agent", **params), wire)
    assert play(script(TARGET, "agent", **params), Recorded(packets)) == (packets, ending)
    return trace_of(packets, probe, ending, **params)


def trace_of(packets: Sequence[Packet], probe: str, ending: str = "done", /, **params: Any) -> Trace:
    return Trace("t", TARGET, "here", probe, tuple(sorted(params.items())), 0, tuple(packets), ending=ending)


def seen(probe: str, wire: Wire, /, **params: Any) -> dict[str, Observation]:
    return {o.knob: o for o in read(played(probe, wire, **params))}


class Ruled(TimedWire):
    """The other end answers each segment by rule; `lose` names those of ours that are lost, by number."""

    def __init__(self, rule: Rule, lose: frozenset[int] | set[int] = frozenset()) -> None:
        super().__init__()
        self.rule, self.lose, self.number = rule, lose, count()

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        for answer, ttl in self.rule(segment, tos) if next(self.number) not in self.lose else ():
            self.say(self.now + RTT_S, answer, ttl=ttl)
        return self.sent(segment, tos)
