# SPDX-License-Identifier: MIT
"""What a campaign costs before it begins: connections, packets, bytes, hours, disk.

Question   What do so many targets, from so many vantages, by this profile and at this rate, cost?
Input      `unit_costs.json`: means over the targets of a lab run by profile and probe, and how they were measured
           (`python -m benchmarks.probe_costs --write`).
Method     Sums of the probes that the tests ask for, times targets, times vantages. Time is the longer of two limits:
           starts (SYNs, repeated ones too) over the rate, and target sessions over those that may be under way at once.
Limits     Names' questions to resolvers are in no figure. The lab's sites are drawn as the bundled list's: other lists
           redirect, refuse and repeat otherwise. A machine that cannot start as many a second takes longer.

Rules for this file: pure; the JSON text comes in.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import floor
from typing import NamedTuple

from configtron.model.choices import TESTS
from configtron.model.errors import BadInput

# Parts of every session, whatever tests it has: the address, and the page that is looked for.
ALWAYS = ("dns", "http_version")
SECONDS_AN_HOUR = 3600
RATE, CONCURRENCY = "rate", "concurrency"


@dataclass(frozen=True, slots=True)
class UnitCost:
    """Means a target and vantage. starts: SYNs sent; packets and bytes with IP headers; bytes on disk by file."""

    connections: float = 0.0
    starts: float = 0.0
    packets_out: float = 0.0
    packets_in: float = 0.0
    bytes_out: float = 0.0
    bytes_in: float = 0.0
    evidence_bytes: float = 0.0
    journal_bytes: float = 0.0
    database_bytes: float = 0.0

    def __add__(self, other: UnitCost) -> UnitCost:
        return UnitCost(*(getattr(self, name) + getattr(other, name) for name in UnitCost.__slots__))


class ProfileCost(NamedTuple):
    """One profile as measured: seconds of a target session, costs by probe."""

    session_s: float
    probes: dict[str, UnitCost]


class UnitCosts(NamedTuple):
    """All profiles, and one sentence on how they were measured."""

    measured: str
    profiles: dict[str, ProfileCost]


class CampaignCost(NamedTuple):
    """A campaign's cost. limit: what sets its hours, "rate" or "concurrency"."""

    targets: int
    vantages: int
    profile: str
    connections: int
    starts: int
    packets_out: int
    packets_in: int
    bytes_out: int
    bytes_in: int
    evidence_bytes: int
    journal_bytes: int
    database_bytes: int
    hours: float
    limit: str
    measured: str

    @property
    def disk_bytes(self) -> int:
        """Return the bytes on disk of packets, journal and database together."""
        return self.evidence_bytes + self.journal_bytes + self.database_bytes


def unit_costs(text: str) -> UnitCosts:
    """Return the unit costs in a JSON text. Errors: `BadInput`."""
    try:
        form = json.loads(text)
        profiles = {
            name: ProfileCost(float(one["session_s"]), {probe: UnitCost(**row) for probe, row in one["probes"].items()})
            for name, one in form["profiles"].items()
        }
        return UnitCosts(str(form["measured"]), profiles)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"unit costs: {type(error).__name__}: {error}") from error


def cost(
    units: UnitCosts, targets: int, vantages: int, profile: str, tests: frozenset[str], rate_per_s: float, at_once: int
) -> CampaignCost:
    """Return the cost of a campaign. tests: keys of `TESTS`; rate_per_s: starts a second, 0 is no limit."""
    if profile not in units.profiles:
        raise BadInput(f"profile {profile!r}: no unit costs; measured are {', '.join(units.profiles)}")
    wanted, sessions = {*ALWAYS, *(probe for test in tests for probe in TESTS[test])}, targets * vantages
    each = sum((unit for probe, unit in units.profiles[profile].probes.items() if probe in wanted), UnitCost())
    figures = {name: round(getattr(each, name) * sessions) for name in UnitCost.__slots__}
    hours, limit = _hours(each.starts * sessions, rate_per_s, units.profiles[profile].session_s * sessions / at_once)
    return CampaignCost(
        targets=targets,
        vantages=vantages,
        profile=profile,
        hours=hours,
        limit=limit,
        measured=units.measured,
        **figures,
    )


def _hours(starts: float, rate_per_s: float, sessions_s: float) -> tuple[float, str]:
    # a rate that is no whole number is rounded down (`spacing.py`)
    rate = floor(rate_per_s) if rate_per_s >= 1 else rate_per_s
    by_rate = starts / rate if rate else 0.0
    limit = RATE if rate and by_rate >= sessions_s else CONCURRENCY
    return max(by_rate, sessions_s) / SECONDS_AN_HOUR, limit
