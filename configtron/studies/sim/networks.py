# SPDX-License-Identifier: MIT
"""A distribution that a user brings: networks as CSV, each client's drawn from them.

Question   How do policies do if clients have the networks of this survey (a regulator's broadband measurements, a speed
test's log)?
Method     A row is a network: bandwidth, round trip, loss, perhaps how often it occurs. Taken jointly, as rows are:
           fast networks are near, and marginals drawn one by one would forget that. Each prefix draws a row, and is on
           the tensor's condition nearest to it; a session that changes goes on on another prefix's.
Stop when  n sessions are drawn.
Reads as   `Sessions`, as `sessions.drawn` makes them.
Fails as   `BadInput` for a header that lacks a column, or a value out of range, by line.
Differs    CT draws from FCC's and Pantheon's records; this draws from any file.
Source     CT section 6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.columns import Floats
from configtron.model.errors import BadInput
from configtron.model.tensor import Tensor
from configtron.studies.sim.brought import MOST_WEIGHT, NUMBERS, csv_rows, network, number
from configtron.studies.sim.sessions import USUAL, Arrivals, Sessions, drawn, on

WEIGHT = "weight"


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """(n,) each: kbit/s, ms, share of packets lost, how often it occurs (sums to 1)."""

    bandwidth_kbps: Floats
    rtt_ms: Floats
    loss: Floats
    share: Floats


def csv_networks(text: str, name: str = "networks") -> Networks:
    """Return networks from CSV with a header: bandwidth_kbps, rtt_ms, loss, perhaps weight. Errors: `BadInput`, by
    line."""
    columns, lines = csv_rows(text, name)
    if absent := [column for column in NUMBERS if column not in columns]:
        raise BadInput(
            f"{name}: the header lacks {', '.join(absent)}; networks have {', '.join(NUMBERS)} and perhaps {WEIGHT},"
            " sessions at_s, prefix and site besides"
        )
    rows = [(*network(row, where), number(row, WEIGHT, where, MOST_WEIGHT) if WEIGHT in row else 1.0)
            for where, row in lines]  # fmt: skip
    if not any(row[3] for row in rows):
        raise BadInput(f"{name}: there is no network in it with a weight above 0")
    kbps, rtt, loss, weight = np.array(rows).T
    return Networks(kbps, rtt, loss, weight / weight.sum())


def placed(networks: Networks, tensor: Tensor, n: int, rng: np.random.Generator, how: Arrivals = USUAL) -> Sessions:
    """Return n sessions of clients whose networks are drawn from these, on the conditions nearest to them."""
    near = on(tensor, networks.bandwidth_kbps, networks.rtt_ms, networks.loss)
    home = near[rng.choice(len(near), size=how.prefixes, p=networks.share)]
    found = drawn(tensor, n, rng, how, home)
    other = home[rng.integers(len(home), size=n)]
    return replace(found, after=np.where(np.isinf(found.change_s), found.condition, other))
