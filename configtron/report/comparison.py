# SPDX-License-Identifier: MIT
"""A campaign compared region by region: what the report of its diversity is made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from configtron.fingerprint.diversity import RegionDifference, bare, is_mixed, wilson
from configtron.fingerprint.region_comparison import Operator, ParameterByRegion, operators, parameter
from configtron.model.nouns import Observation
from configtron.report.target_results import TargetResult

# Parameters whose details hold the head of an answer, the plainest first; and those whose details hold a round trip.
HEADS, TRIPS = ("http_clear", "http_tls", "h2_settings"), ("data_rto", "synack_rto")


class Presence(NamedTuple):
    """The server of a site in one region, as far as its packets show; "" and None where they do not."""

    address: str
    server: str
    via: str
    place: str
    rtt_s: float | None


class ComparedSite(NamedTuple):
    """A site: its provider, how that is known, and its servers, by vantage."""

    provider: str
    provider_from: str
    presences: Mapping[str, Presence]


class RegionComparison(NamedTuple):
    """One run. `vantages` in the run's order, `mixed` are the sites that stand apart."""

    baseline: str
    vantages: tuple[str, ...]
    sites: Mapping[str, ComparedSite]
    mixed: tuple[str, ...]
    parameters: tuple[ParameterByRegion, ...]
    operators: tuple[Operator, ...]

    @property
    def differences(self) -> tuple[RegionDifference, ...]:
        """All of them, parameter by parameter."""
        return tuple(difference for each in self.parameters for difference in each.differences)

    @property
    def differing(self) -> int:
        """Sites that differ in anything anywhere."""
        return sum(operator.differing for operator in self.operators)

    @property
    def compared(self) -> int:
        """Sites that were compared in anything."""
        return sum(operator.compared for operator in self.operators)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the share of sites that differ."""
        return wilson(self.differing, self.compared)


def compared(
    found: Iterable[TargetResult], knobs: Sequence[str], vantages: Sequence[str], baseline: str
) -> RegionComparison:
    """Compare what was found; of each verdict only what comparing reads is held meanwhile."""
    verdicts: dict[str, dict[str, dict[str, Observation]]] = {knob: {} for knob in knobs}
    sites: dict[str, dict[str, Presence]] = {}
    runs: dict[str, tuple[str, str]] = {}
    mixed = set()
    alike: dict[Observation, Observation] = {}
    for item in found:
        sites.setdefault(item.site, {})[item.vantage] = _presence(item)
        if item.site not in runs or item.vantage == baseline:
            runs[item.site] = _run_by(item)
        if is_mixed(item.verdicts):
            mixed.add(item.site)
        for knob in verdicts.keys() & item.verdicts.keys():
            verdict = bare(item.verdicts[knob])
            verdicts[knob].setdefault(item.site, {})[item.vantage] = alike.setdefault(verdict, verdict)
    asked = {knob: targets for knob, targets in verdicts.items() if targets}
    rows = tuple(parameter(knob, baseline, vantages, targets, mixed) for knob, targets in asked.items())
    counted = {site: provider for site, (provider, _) in runs.items() if site not in mixed}
    return RegionComparison(
        baseline,
        tuple(vantages),
        {site: ComparedSite(*runs[site], presences) for site, presences in sites.items()},
        tuple(sorted(mixed)),
        rows,
        operators(asked, rows, counted, baseline),
    )


def _run_by(item: TargetResult) -> tuple[str, str]:
    """(provider, how it is known); the site's own name if nothing is known."""
    provider = item.verdicts.get("provider")
    if provider is not None and provider.value is not None:
        return str(provider.value), provider.method
    given = item.fingerprint.target.provider
    return (given, "target list") if given else (item.site, "name")


def _presence(item: TargetResult) -> Presence:
    address = item.verdicts.get("address")
    name = str(address.value) if address is not None and address.value is not None else item.fingerprint.target.address
    head = next((item.verdicts[knob] for knob in HEADS if knob in item.verdicts and item.verdicts[knob].details), None)
    words = {name: str((head.detail(name) if head else None) or "") for name in ("server", "via", "place")}
    trips = (item.verdicts[knob].detail("rtt") for knob in TRIPS if knob in item.verdicts)
    rtt = next((trip for trip in trips if isinstance(trip, int | float)), None)
    return Presence(name, words["server"], words["via"], words["place"], rtt)
