# SPDX-License-Identifier: MIT
"""`probe plan`: what a campaign would cost, by measured unit costs; nothing is read but those."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from configtron.model.bounds import check_choice, check_number
from configtron.model.choices import PROFILES, TESTS
from configtron.probe.costs import CampaignCost, cost, unit_costs

# More than there are IPv4 addresses; beyond it, digits are a mistake.
MOST_TARGETS = 1 << 32
MOST_VANTAGES = 10_000


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """targets: how many; vantages: how many regions probe each; rate_per_s: starts a second, all together, 0 is none;
    concurrency: target sessions under way at once.
    """

    targets: int
    vantages: int = 1
    profile: str = "standard"
    tests: tuple[str, ...] = ()
    rate_per_s: float = 100.0
    concurrency: int = 1000

    def __post_init__(self) -> None:
        """Check names and ranges. Errors: `BadInput`."""
        check_choice("profile", self.profile, PROFILES)
        for test in self.tests:
            check_choice("tests", test, TESTS)
        check_number("targets", self.targets, 1, MOST_TARGETS, whole=True)
        check_number("vantages", self.vantages, 1, MOST_VANTAGES, whole=True)
        check_number("rate_per_s", self.rate_per_s, 0)
        check_number("concurrency", self.concurrency, 1, whole=True)


def campaign_cost(options: PlanOptions) -> CampaignCost:
    """Return what a campaign of these options would cost."""
    units = unit_costs((files("configtron.probe") / "unit_costs.json").read_text("utf-8"))
    tests = frozenset(options.tests or TESTS)
    return cost(
        units, options.targets, options.vantages, options.profile, tests, options.rate_per_s, options.concurrency
    )
