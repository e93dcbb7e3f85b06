# SPDX-License-Identifier: MIT
"""The run that a page is about, and the form of its numbers and names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from xml.etree.ElementTree import Element

from configtron.fingerprint.diversity import RegionDifference
from configtron.fingerprint.region_comparison import ParameterByRegion, RegionCounts
from configtron.model.nouns import Observation, Trace, Value
from configtron.report.page.charts import Rate
from configtron.report.page.markup import el, short
from configtron.report.printed import text

# Rows of the paper's Table 2, as it writes them; others go by their own names.
TITLES = {
    "http_version": "HTTP version",
    "h2_max_header_list_size": "Max header list size",
    "h2_header_table_size": "Header table size",
    "h2_max_concurrent_streams": "Max concurrent streams",
    "h2_initial_window_size": "Initial window size",
    "h2_max_frame_size": "Max frame size",
    "icw": "Initial congestion window",
    "synack_rto": "Retransmission timeout",
    "rwin": "Receive window",
}
# Units that a reader needs; names and plain counts have none.
UNITS = {"segments": "segments", "bytes": "bytes", "s": "seconds", "streams": "streams"}


class RunFacts(NamedTuple):
    """The run: its number, when it began, how it ended, the version, and the regions of its vantages."""

    run: int
    begun_at: str
    status: str
    version: str
    regions: Mapping[str, str]

    def region(self, vantage: str) -> str:
        """The region's name, the vantage's own where it has none."""
        return self.regions.get(vantage) or vantage


class ReadingProof(NamedTuple):
    """One side of a difference: the reading behind it, its packets, where they lie; or why they cannot be shown."""

    vantage: str
    reading: Observation | None = None
    trace: Trace | None = None
    where: str = ""
    missing: str = ""


# Both sides of a difference.
Proofs = Mapping[RegionDifference, tuple[ReadingProof, ReadingProof]]


def title(knob: str) -> str:
    """A parameter's name for people."""
    return TITLES.get(knob, knob.replace("_", " "))


def named(knob: str, unit: str) -> str:
    """A parameter's name for people, with its unit."""
    return f"{title(knob)}, {UNITS[unit]}" if unit in UNITS else title(knob)


def valued(value: Value) -> str:
    """A value as printed, cut if it is long."""
    return short(text(value), 60)


def anchor(difference: RegionDifference) -> str:
    """The name of a difference's drawing within the page; of letters, digits and signs that a link may hold."""
    words = f"{difference.knob}.{difference.target}.{difference.region}"
    return "proof." + "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in words)


def change(baseline: str, difference: RegionDifference) -> Element:
    """Here and there, with an arrow between."""
    here = f"{baseline} {valued(difference.here)} "
    return el("span", here, el("span", "→", class_="arrow"), f" {difference.region} {valued(difference.there)}")


def rate(parameter: ParameterByRegion) -> Rate:
    """Return how many targets differ anywhere."""
    row = parameter.row
    return Rate(row.differing, row.compared, row.low, row.high)


def rate_in(region: RegionCounts) -> Rate:
    """Return how many targets differ in that region."""
    return Rate(region.differs, region.compared, *region.interval)
