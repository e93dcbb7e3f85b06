# SPDX-License-Identifier: MIT
"""What a manager and its agents exchange: the map of classes, and rows of outcomes.

Rules for this file: those of `nouns.py`. A class is a network class of clients; an arm is one of its profiles. An epoch
is a stretch of wall-clock time in which each client keeps its arm. Shares are counted in 65536ths, as the kernel does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from configtron.model.nouns import Profile

# What shares and weights are counted in; the most arms of a class; the most bands of round-trip time.
WHOLE, MOST_ARMS, MOST_BANDS = 65_536, 8, 4
# Connections that start so close to a turn of the epoch do not teach: their SYN-ACK had the former arm (s).
TURN_MARGIN_S = 3.0
# The failure of a row that is no page load but a connection's end (`configtron/intake/end_reports.py`).
END_STATE = "end-state"

# Settings that a fleet uses though some drivers lack them (Careful Resume, which only kmod has). An arm with one of
# them is the untouched stack there, under this name: the draw is the same on every server, and what was not applied is
# not recorded as if it had been.
OPTIONAL_KNOBS, NOT_HERE = frozenset(("resume_cwnd", "resume_rtt")), "not-here"
# Before the name of such a profile, among what an agent reports as left out of a map.
ARM = "arm "


@dataclass(frozen=True, slots=True)
class Band:
    """Clients without a prefix whose handshake took at most `up_to_us`, and their class."""

    up_to_us: int
    class_name: str


@dataclass(frozen=True, slots=True)
class FleetMap:
    """One version of the manager's map: which profiles a class draws from, and which prefixes are of which class.

    term, version  of the manager: `term` counts its starts, `version` its maps; a pair is never used twice
    profiles       by name; the empty profile is Default's
    mixes          class -> (profile's name, weight) of at most 8 arms; weights are positive and sum to 65536
    prefixes       prefix -> class, prefixes as `Rules` writes them
    bands          classes of clients without a prefix by handshake round trip, ascending; none: Default
    holdback       share of clients, of 65536, that keep Default in every epoch on every server
    key            16 bytes of the draw, secret while its epochs last
    epoch_s        length of an epoch; epoch number = wall-clock seconds // epoch_s
    ports          local ports whose connections are tuned; empty: none
    lease_s        after so long without an agent's heartbeat, new connections get Default
    not_after_ns   wall clock, ns since 1970: then the map is void and Default applies
    """

    term: int
    version: int
    profiles: Mapping[str, Profile]
    mixes: Mapping[str, tuple[tuple[str, int], ...]]
    prefixes: Mapping[str, str]
    key: bytes
    not_after_ns: int
    bands: tuple[Band, ...] = ()
    holdback: int = 0
    epoch_s: int = 600
    ports: tuple[int, ...] = (80, 443)
    lease_s: float = 3.0


class OutcomeRow(NamedTuple):
    """One outcome as an agent reports it; (agent, boot, sequence) names it, so that it is stored once.

    A named tuple, not a dataclass: a manager makes a hundred thousand a second.

    at_ns          when the page load ended, agent's wall clock, ns since 1970
    prefix         /24 or /48 of the client: whole addresses never leave the agent's root reader
    unit           what intervals cluster by: a keyed hash of (client, epoch), 16 hexadecimal digits, useless later
    plt_ms         page load time; None where the load failed
    failure        "" or why the load never finished (`dns`, `tcp`, `tls`, `h2`, `abandoned`, ...)
    arm            index in the class's mix; None: nothing was drawn (Default)
    propensity     chance of this arm for this client, holdback counted; None: unknown
    held           the client is held back
    teaches        False: too close to a turn, on a reused connection, or doubtful; the reason is in `why_not`
    bandwidth_kbps largest delivery rate that was not limited by the application; None: unknown
    loss           retransmitted share of segments; None: unknown
    """

    agent: str
    boot: str
    sequence: int
    at_ns: int
    site: str
    prefix: str
    unit: str
    plt_ms: float | None
    term: int = 0
    map_version: int = 0
    epoch: int = 0
    class_name: str = ""
    arm: int | None = None
    profile: str = ""
    propensity: float | None = None
    held: bool = False
    failure: str = ""
    teaches: bool = True
    why_not: str = ""
    device: str = ""
    protocol: str = ""
    rtt_ms: float | None = None
    bandwidth_kbps: float | None = None
    loss: float | None = None
    more: Mapping[str, float] = {}
