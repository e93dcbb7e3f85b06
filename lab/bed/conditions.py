# SPDX-License-Identifier: MIT
"""Network conditions as data: a link's two directions, and how they change. `families.py` has those with names.

Rules for this file: frozen values and their text, nothing of how a condition is put in force (`network.py`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import inf

from configtron.errors import BadInput

# A full IP packet: what one opportunity of a played link carries, and what a rate counts.
PACKET_BYTES = 1500
KINDS = ("constant", "poisson", "bursts", "trace")


@dataclass(frozen=True, slots=True)
class Way:
    """One direction of a link.

    rate_kbit      of full IP packets; 0: no limit
    delay_ms       of propagation, one way
    loss           fraction lost by chance, 0 to 1
    queue_bytes    room before the bottleneck; queue_packets in packets; both 0: endless
    kind           when a packet may leave: "constant", evenly; "poisson", by chance; "bursts", `burst_packets` at once
                   (all `rate_kbit` in the mean); "trace", when the trace's file says, from `offset_s` on
    """

    rate_kbit: float = 0.0
    delay_ms: float = 0.0
    loss: float = 0.0
    queue_bytes: int = 0
    queue_packets: int = 0
    kind: str = "constant"
    burst_packets: int = 1
    trace: str = ""
    offset_s: float = 0.0

    def __post_init__(self) -> None:
        numbers = (self.rate_kbit, self.delay_ms, self.queue_bytes, self.queue_packets, self.offset_s)
        if self.kind not in KINDS:
            raise BadInput(f"a way of kind {self.kind!r}; there is: {', '.join(KINDS)}")
        if not all(0 <= number < inf for number in numbers) or not 0 <= self.loss <= 1 or self.burst_packets < 1:
            raise BadInput(f"a way of the network with a number out of range: {self}")
        if self.queue_bytes and self.queue_packets:
            raise BadInput("a queue is limited in bytes or in packets, not in both")
        if self.kind in ("poisson", "bursts") and not self.rate_kbit:
            raise BadInput(f"a way of kind {self.kind!r} needs a rate")
        if (self.kind == "trace") != bool(self.trace):
            raise BadInput("a way of kind 'trace' names its trace, and no other does")


@dataclass(frozen=True, slots=True)
class Step:
    """From `at_s` seconds after the start of a load on, the link is so."""

    at_s: float
    down: Way
    up: Way


@dataclass(frozen=True, slots=True)
class Condition:
    """A client's network: `down` to it, `up` from it.

    salt    mixed into every seed, so that two conditions do not lose the same packets
    steps   how it changes during a load, in order of time
    """

    name: str
    down: Way
    up: Way
    salt: int = 0
    steps: tuple[Step, ...] = ()

    @property
    def rtt_ms(self) -> float:
        """Round trip without queues."""
        return self.down.delay_ms + self.up.delay_ms

    @property
    def ways(self) -> tuple[Way, ...]:
        """All that it ever is."""
        return (self.down, self.up, *(way for step in self.steps for way in (step.down, step.up)))

    @property
    def is_played(self) -> bool:
        """Whether it needs the player: the kernel's own queues only know even rates."""
        return any(way.kind != "constant" for way in self.ways)

    def to_json(self) -> str:
        """One line, the same for equal conditions."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Condition:
        """The inverse of `to_json`. Errors: `BadInput`."""
        try:
            fields = json.loads(text)
            down, up = Way(**fields.pop("down")), Way(**fields.pop("up"))
            steps = tuple(Step(s["at_s"], Way(**s["down"]), Way(**s["up"])) for s in fields.pop("steps"))
            return cls(down=down, up=up, steps=steps, **fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadInput(f"not a network condition: {error}") from error
