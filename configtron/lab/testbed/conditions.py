# SPDX-License-Identifier: MIT
"""Network conditions as data: a link's two directions, and how they change. `families.py` has those with names.

Rules for this file: frozen values and their text, nothing of how a condition is put in force (`network.py`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from math import inf
from random import Random

from configtron.model.errors import BadInput

# A full IP packet: what one opportunity of a played link carries, and what a rate counts.
PACKET_BYTES = 1500
KINDS = ("constant", "poisson", "bursts", "trace", "policer")
# Queue managements at the bottleneck besides a queue that drops at its end.
AQMS = ("fq_codel", "cake", "pie")
# Neighbours have an address and a device each, numbered by one digit (neighbours.py).
MOST_NEIGHBOURS = 4


@dataclass(frozen=True, slots=True)
class LinkDirection:
    """One direction of a link.

    rate_kbit      of full IP packets; 0: no limit
    delay_ms       of propagation, one way
    loss           fraction lost by chance, 0 to 1
    queue_bytes    room before the bottleneck; queue_packets in packets; both 0: endless
    kind           when a packet may leave: "constant", evenly; "poisson", by chance; "bursts", `burst_packets` at once
                   (all `rate_kbit` in the mean); "trace", by the times of its file, from `offset_s` on; "policer", at
                   once if a bucket of `bucket_bytes`, filled at `rate_kbit`, holds as many bytes, else never
    offset_drawn   a trace begins at a moment drawn from the load's seed, not at `offset_s`
    loss_run       mean number of packets lost in a row, by Gilbert's and Elliott's chain, a step a packet; 0: each loss
                   by itself. loss_run_ms: mean duration of an outage, by the same chain in continuous time
    slot_ms        packets are gathered and released together so often
    aqm            how the queue is managed: one of AQMS, of at most `queue_bytes`; "": it drops what does not fit
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
    offset_drawn: bool = False
    loss_run: float = 0.0
    loss_run_ms: float = 0.0
    slot_ms: float = 0.0
    bucket_bytes: int = 0
    aqm: str = ""

    def __post_init__(self) -> None:
        numbers = (
            self.rate_kbit, self.delay_ms, self.queue_bytes, self.queue_packets, self.offset_s, self.loss_run,
            self.loss_run_ms, self.slot_ms, self.bucket_bytes,
        )  # fmt: skip
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
        if fault := self._fault():
            raise BadInput(fault)

    def _fault(self) -> str:
        """Return why these settings exclude one another; "" where they do not."""
        if (self.kind == "policer") != bool(self.bucket_bytes) or (self.bucket_bytes and not self.rate_kbit):
            return "a policer has a bucket and a rate, and nothing else has a bucket"
        if self.bucket_bytes and not self.bucket_bytes >= PACKET_BYTES:
            return f"a bucket of {self.bucket_bytes} bytes lets no full packet of {PACKET_BYTES} through"
        if self.bucket_bytes and (self.queue_bytes or self.queue_packets):
            return "a policer has no queue"
        if self.loss_run and self.loss_run_ms:
            return "losses come in runs of packets or in outages, not in both"
        if (self.loss_run or self.loss_run_ms) and not 0 < self.loss < 1:
            return "losses that come in runs need a loss between 0 and 1"
        if self.loss_run and not (self.loss_run >= 1 and self.loss <= self.loss_run / (1 + self.loss_run)):
            return "a run of losses has at least one packet, and between two runs there is one that is not lost"
        if self.aqm and (self.aqm not in AQMS or not self.rate_kbit or self.queue_packets):
            return f"a managed queue is one of {', '.join(AQMS)}, before a rate, its limit in bytes"
        if self.is_played and (self.loss_run or self.slot_ms or self.aqm):
            return "runs of packets, gathered packets and managed queues are the kernel's: not on a played link"
        if self.offset_drawn and self.kind != "trace":
            return "only a trace has an offset"
        return ""

    @property
    def is_played(self) -> bool:
        """Whether it needs the player: the kernel's own queues only know even rates and losses by packet."""
        return self.kind != "constant" or bool(self.loss_run_ms)


@dataclass(frozen=True, slots=True)
class LinkChange:
    """From `at_s` seconds after the start of a load on, the link is so."""

    at_s: float
    down: LinkDirection
    up: LinkDirection


@dataclass(frozen=True, slots=True)
class Condition:
    """A client's network: `down` to it, `up` from it.

    salt    mixed into every seed, so that two conditions do not lose the same packets
    steps   how it changes during a load, in order of time
    neighbours     bulk flows of cubic from other hosts, through the same link, while a page loads (neighbours.py)
    window_bytes   the most that the client advertises; 0: what Linux grows to, 3 MB
    spread         the rate and the delay of each load lie within so large a fraction of theirs, drawn from its seed
    weight         how much this condition counts in means over conditions, against the others
    think_ms       the server's own time before each answer
    resumed        the page is visited again, on new connections that resume the TLS sessions of the visit before
    warm_s         the page is visited again, on the connections of the visit before, after so long an idle time; 0: on
                   new ones
    """

    name: str
    down: LinkDirection
    up: LinkDirection
    salt: int = 0
    steps: tuple[LinkChange, ...] = ()
    neighbours: int = 0
    window_bytes: int = 0
    spread: float = 0.0
    weight: float = 1.0
    think_ms: float = 0.0
    resumed: bool = False
    warm_s: float = 0.0

    def __post_init__(self) -> None:
        numbers = (self.window_bytes, self.weight, self.think_ms, self.warm_s)
        if not all(0 <= number < inf for number in numbers) or not 0 <= self.spread < 1 or not self.weight:
            raise BadInput(f"a condition with a number out of range: {self}")
        if not 0 <= self.neighbours <= MOST_NEIGHBOURS:
            raise BadInput(f"a page loads beside 0 to {MOST_NEIGHBOURS} neighbours, not {self.neighbours}")
        if self.neighbours and self.window_bytes:
            raise BadInput("neighbours share the client's kernel, so its window: a condition has one or the other")
        if (self.resumed or self.warm_s) and (self.neighbours or self.steps):
            raise BadInput("a page is visited again on a network of its own that stays as it is")
        if self.resumed and self.warm_s:
            raise BadInput("a visit resumes TLS sessions or reuses connections, not both")
        kinds = {way.is_played for way in self.ways}
        if len(kinds) > 1 and any(way.loss_run or way.slot_ms or way.aqm for way in self.ways):
            raise BadInput("runs of packets, gathered packets and managed queues are the kernel's: the link is played")

    def drawn(self, seed: int) -> Condition:
        """Return the condition as the load with this seed meets it: the same under every configuration."""
        if not self.spread:
            return self
        chance = Random(f"{self.salt} {seed}")
        rate, delay = (1 + self.spread * chance.uniform(-1, 1) for _ in range(2))

        def moved(way: LinkDirection) -> LinkDirection:
            return replace(way, rate_kbit=way.rate_kbit * rate, delay_ms=way.delay_ms * delay)

        steps = tuple(LinkChange(step.at_s, moved(step.down), moved(step.up)) for step in self.steps)
        return replace(self, down=moved(self.down), up=moved(self.up), steps=steps)

    @property
    def rtt_ms(self) -> float:
        """Round trip without queues."""
        return self.down.delay_ms + self.up.delay_ms

    @property
    def ways(self) -> tuple[LinkDirection, ...]:
        """All that it ever is."""
        return (self.down, self.up, *(way for step in self.steps for way in (step.down, step.up)))

    @property
    def is_played(self) -> bool:
        """Whether any of its ways needs the player."""
        return any(way.is_played for way in self.ways)

    @property
    def aqms(self) -> tuple[str, ...]:
        """Managed queues that it has, each once."""
        return tuple(dict.fromkeys(way.aqm for way in self.ways if way.aqm))

    def to_json(self) -> str:
        """One line, the same for equal conditions."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Condition:
        """Return what `to_json` wrote. Errors: `BadInput`."""
        try:
            fields = json.loads(text)
            down, up = LinkDirection(**fields.pop("down")), LinkDirection(**fields.pop("up"))
            steps = tuple(
                LinkChange(s["at_s"], LinkDirection(**s["down"]), LinkDirection(**s["up"])) for s in fields.pop("steps")
            )
            return cls(down=down, up=up, steps=steps, **fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadInput(f"not a network condition: {error}") from error
