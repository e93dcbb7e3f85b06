# SPDX-License-Identifier: MIT
"""Variables of a connection in 10 to 30 bins, and back.

Question   Which bin has a value, and which value stands for a bin?
Method     A static table of inner edges, or a linear map from `low` to `high`. The inverse map has one value a bin: the
           middle of its edges, geometric in a table of ratios; of the two open bins, the edge.
Reads as   bins from 0; -1 for an unknown value
Fails as   `BadInput`: fewer than 10 or more than 30 bins, edges that do not rise
Differs    the paper prints no table. Edges here were set before any result was seen: round trips by the paper's bands,
           windows by ratios of about 1.3 around Linux's 10, packets linear as the paper's PktIn, where one bin holds
           most connections.
Source     Applied Learning Networks (ALN), quantisation
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.learner.initial.end_states import EndStates
from configtron.model.errors import BadInput

FEWEST_BINS, MOST_BINS = 10, 30
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class BinMap:
    """The bins of one variable: `edges` between them, rising; `values` stand for them."""

    name: str
    edges: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not FEWEST_BINS <= len(self.values) <= MOST_BINS or len(self.edges) != len(self.values) - 1:
            raise BadInput(f"{self.name} has {len(self.values)} bins: {FEWEST_BINS} to {MOST_BINS}, an edge less")
        if not all(np.isfinite(self.edges)) or list(self.edges) != sorted(set(self.edges)):
            raise BadInput(f"the edges of {self.name}'s bins do not rise")

    def bins(self, values: Floats) -> Codes:
        """Return (n,) the bin of each value, `UNKNOWN` for NaN."""
        found = np.searchsorted(np.array(self.edges), values, side="right").astype(np.int64)
        return np.where(np.isnan(values), UNKNOWN, found)

    def of_bins(self, bins: Codes) -> Floats:
        """Return (n,) the value that stands for each bin: the inverse map."""
        return np.array(self.values)[bins]


def table(name: str, edges: tuple[float, ...]) -> BinMap:
    """Return the bins of a static table of positive edges."""
    middles = [float(np.sqrt(low * high)) for low, high in zip(edges, edges[1:], strict=False)]
    return BinMap(name, edges, (edges[0], *middles, edges[-1]))


def linear(name: str, low: float, high: float, count: int) -> BinMap:
    """Return `count` bins of one width; what lies below `low` or above `high` falls into the first or last."""
    if not low < high or not FEWEST_BINS <= count <= MOST_BINS:
        raise BadInput(f"{name}: {count} bins from {low:g} to {high:g}")
    edges = np.linspace(low, high, count + 1)
    return BinMap(name, tuple(edges[1:-1].tolist()), tuple(((edges[1:] + edges[:-1]) / 2).tolist()))


# ms; the bands of published live results (10 to 600) with finer ones below.
MIN_RTT = table("min_rtt_ms", (2, 5, 10, 15, 20, 30, 40, 50, 60, 80, 100, 125, 150, 175, 200, 250, 300, 400, 500, 600))
# Segments.
MAX_CWND = table("max_cwnd", (4, 7, 9, 12, 15, 20, 26, 33, 43, 56, 73, 95, 123, 160, 208, 270, 350, 500, 1000))
# Packets.
PACKETS_IN = linear("packets_in", 0, 1000, 20)
TARGETS = {one.name: one for one in (MIN_RTT, MAX_CWND, PACKETS_IN)}
# The columns of the paper's three ratios by its names.
PAPER_NAMES = {"min_rtt_ms": "MinRTT", "max_cwnd": "MaxCwnd", "packets_in": "PktIn"}


def target_bins(states: EndStates, target: str) -> Codes:
    """Return (n,) the bins of one of `TARGETS`."""
    column: Floats = getattr(states, target)
    return TARGETS[target].bins(column)
