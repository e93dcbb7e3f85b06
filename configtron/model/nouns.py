# SPDX-License-Identifier: MIT
"""The nouns: the types that all parts of configtron exchange.

Rules for this file: standard library only; every type is immutable; no type knows where it came from (live wire,
laboratory, recording); arithmetic that *defines* a noun lives here, everything else elsewhere.

`Segment` and `Packet` are named tuples, not dataclasses: a campaign makes millions of them, and a frozen dataclass
costs three times as much to build. All other nouns are frozen dataclasses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

# TCP header flags (RFC 9293 section 3.1).
FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = 1, 2, 4, 8, 16, 32, 64, 128

# TCP option kinds (IANA "TCP Option Kind Numbers").
OPT_EOL, OPT_NOP, OPT_MSS, OPT_WSCALE, OPT_SACK_PERMITTED, OPT_SACK, OPT_TIMESTAMPS = 0, 1, 2, 3, 4, 5, 8
OPT_FASTOPEN = 34

# A setting or a measured value, as JSON can carry it.
Value = int | float | str | bool | tuple["Value", ...]


class Segment(NamedTuple):
    """One TCP segment with sequence numbers relative to each side's initial sequence number.

    seq, ack   bytes; a SYN has seq 0, the first data byte has seq 1; ack 1 acknowledges the SYN
    window     as on the wire, not scaled
    options    (kind, body) in wire order; NOP and EOL have an empty body
    payload    the bytes that were kept; a snapped capture keeps fewer than `length`
    length     payload bytes on the wire
    """

    flags: int
    seq: int = 0
    ack: int = 0
    window: int = 65535
    options: tuple[tuple[int, bytes], ...] = ()
    payload: bytes = b""
    length: int = 0

    @property
    def end(self) -> int:
        """Sequence number after this segment: payload, and one each for SYN and FIN."""
        flags, seq, _, _, _, _, length = self
        return seq + length + bool(flags & SYN) + bool(flags & FIN)

    def option(self, kind: int) -> bytes | None:
        """Body of the first option of that kind, or None."""
        for found, body in self.options:
            if found == kind:
                return body
        return None

    @property
    def mss(self) -> int | None:
        """Maximum segment size option (RFC 9293 section 3.7.1), bytes."""
        body = self.option(OPT_MSS)
        return int.from_bytes(body, "big") if body is not None and len(body) == 2 else None

    @property
    def wscale(self) -> int | None:
        """Window scale shift (RFC 7323 section 2)."""
        body = self.option(OPT_WSCALE)
        return body[0] if body is not None and len(body) == 1 else None

    @property
    def timestamps(self) -> tuple[int, int] | None:
        """(TSval, TSecr) (RFC 7323 section 3)."""
        body = self.option(OPT_TIMESTAMPS) if self.options else None
        if body is None or len(body) != 8:
            return None
        both = int.from_bytes(body, "big")
        return both >> 32, both & 0xFFFFFFFF


class Packet(NamedTuple):
    """A segment that was sent or heard, with the envelope it travelled in.

    at         seconds since the trace began
    way        "out" (we sent it) or "in" (we heard it)
    frame      ordinal of the captured frame within the trace, from 0; a frame that offloading had merged carries
               several packets, so several packets may share one number
    version    4 or 6; ttl is the hop limit for IPv6; ident and df are 0/False for IPv6
    """

    at: float
    way: str
    segment: Segment
    frame: int = 0
    version: int = 4
    ttl: int = 64
    tos: int = 0
    ident: int = 0
    df: bool = True


class Message(NamedTuple):
    """Bytes of the application's stream (after TLS), as they were handed over.

    `at` in seconds since the trace began.
    """

    at: float
    way: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Target:
    """Whom we ask. `host` is the name asked for (an address if none), `provider` who runs it, once known."""

    host: str
    address: str = ""
    port: int = 80
    path: str = "/"
    provider: str = ""
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Vantage:
    """Where we look from: a region, and how to stand there (network namespace, source address, resolver)."""

    name: str
    region: str
    netns: str = ""
    interface: str = ""
    source_address: str = ""
    source_address6: str = ""
    resolver: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """What TLS negotiated on a trace: protocol version, ALPN answer, leaf certificate (DER), or why it failed."""

    version: str = ""
    alpn: str = ""
    certificate: bytes = b""
    error: str = ""
    keylog: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """One whole connection: the evidence of every verdict.

    id          unique within a run: "vantage/host/probe.trial"
    params      the script's parameters, in canonical (sorted) order
    agent       the User-Agent of its requests
    started_at  nanoseconds since the epoch; every `at` counts from here
    packets     in the order in which they were sent or received
    messages    the application stream, for scripts that speak over one
    ending      why the script stopped ("done" or a named reason)
    tainted     reasons why the trace cannot be exact ("drops": the capture socket lost frames meanwhile)
    """

    id: str
    target: Target
    vantage: str
    probe: str
    params: tuple[tuple[str, Value], ...] = ()
    started_at: int = 0
    packets: tuple[Packet, ...] = ()
    messages: tuple[Message, ...] = ()
    session: Session | None = None
    ending: str = "done"
    tainted: tuple[str, ...] = ()
    agent: str = ""

    def param(self, name: str, default: Value = "") -> Value:
        """Return the parameter of that name, or `default`."""
        for found, value in self.params:
            if found == name:
                return value
        return default

    def heard(self) -> Iterator[tuple[int, Packet]]:
        """Return (index, packet) of every packet that came in."""
        return ((i, p) for i, p in enumerate(self.packets) if p.way == "in")


# Grades of a verdict, best first (`docs/fingerprint.md`).
GRADES = ("A", "B", "C", "L", "N")


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured parameter: it has a value, or the named reason why there is none, and never both.

    grade      A several exact trials agree and nothing contradicts them; B two exact trials agree; C one exact trial,
               or a disagreement settled by rule; L a lower bound, printed ">= n"; N none
    unit       of the value: "segments", "bytes", "s", "" for names and counts
    method     how it was read, in a few words
    trace_id   the trace it was read from ("" for a merged verdict)
    evidence   frame ordinals within that trace
    trials     a merged verdict's single readings
    details    further named facts, canonical order
    """

    knob: str
    value: Value | None = None
    reason: str | None = None
    unit: str = ""
    method: str = ""
    grade: str = "N"
    trace_id: str = ""
    evidence: tuple[int, ...] = ()
    trials: tuple[Observation, ...] = ()
    details: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None):
            raise ValueError(f"{self.knob}: an observation has a value or a reason, not both and not neither")
        if (self.grade == "N") != (self.value is None):
            raise ValueError(f"{self.knob}: grade {self.grade} does not fit value {self.value!r}")

    def detail(self, name: str, default: Value | None = None) -> Value | None:
        """Return the detail of that name, or `default`."""
        for found, value in self.details:
            if found == name:
                return value
        return default

    @property
    def text(self) -> str:
        """Return the value as printed: a lower bound always carries its sign."""
        if self.value is None:
            return f"- ({self.reason})"
        return f">= {self.value}" if self.grade == "L" else str(self.value)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """All verdicts on one target from one vantage: a view over observations, never stored twice."""

    target: Target
    vantage: str
    observations: Mapping[str, Observation]


@dataclass(frozen=True, slots=True)
class Knob:
    """One parameter of a server's stack: its values, its scope, and notes about it."""

    name: str
    layer: str
    unit: str = ""
    default: Value | None = None
    values: tuple[Value, ...] = ()
    scope: str = "socket"
    note: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Profile:
    """A configuration: the paper's c in C. Settings are kept in canonical order, so equal profiles are equal keys."""

    name: str
    settings: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", tuple(sorted(self.settings)))


@dataclass(frozen=True, slots=True)
class Context:
    """The known characteristics of a client before a decision; unknown numbers are None, unknown names "".

    bandwidth_kbps is the rate that the path has carried, delivery_kbps the latest rate; region is a country (ISO 3166).
    min_rtt_ms and all numbers from there on: `characteristics.py`.
    """

    bandwidth_kbps: float | None = None
    rtt_ms: float | None = None
    loss: float | None = None
    site: str = ""
    prefix: str = ""
    asn: int | None = None
    region: str = ""
    device: str = ""
    min_rtt_ms: float | None = None
    jitter_ms: float | None = None
    delivery_kbps: float | None = None
    queue_ms: float | None = None
    loss_run: float | None = None
    window_bytes: float | None = None
    delivery_share: float | None = None
    ack_gap_ms: float | None = None
    reordering: float | None = None
    browser: str = ""


# A coordinate of a class's point beyond the first three: (name, coordinate by value), the latter () for a number.
Axis = tuple[str, tuple[tuple[str, float], ...]]


@dataclass(frozen=True, slots=True)
class NetworkClass:
    """A cluster of contexts that behave alike; centroid and scale over `nearest.point`; device "": any.

    axes   coordinates of the point beyond bandwidth, round trip and loss: a characteristic's name and (), or the name
           of a category (asn, region, device, browser) and the coordinate of each of its values
    """

    id: str
    centroid: tuple[float, ...]
    scale: tuple[float, ...]
    count: int = 0
    spread: float = 0.0
    device: str = ""
    axes: tuple[Axis, ...] = ()

    def distance(self, point: tuple[float, ...]) -> float:
        """Return the Euclidean distance of a point in units of the class's scale, over known coordinates (no NaN)."""
        every = zip(point, self.centroid, self.scale, strict=True)
        return math.sqrt(sum(((p - c) / s) ** 2 for p, c, s in every if not math.isnan(p)))


@dataclass(frozen=True, slots=True)
class Decision:
    """A profile chosen for a context; `arm` names the rule that chose it: gp, epsilon, tree, default, ...

    propensity   probability of this profile when it was drawn; None where no record has it
    """

    context: Context
    class_id: str
    profile: Profile
    arm: str
    expected_ms: float | None = None
    propensity: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The measured result of a decision; `source` is sim, lab or live, with the same type for all three."""

    decision: Decision
    plt_ms: float
    measured_at: int
    source: str = field(default="live")
