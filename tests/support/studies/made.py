# SPDX-License-Identifier: MIT
"""Small tensors with known answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from configtron.lab.testbed.studies import grid_of
from configtron.model.nouns import Value
from configtron.model.tensor import Tensor

# The names of four configurations, in their order: cubic with 10 and 30, then bbr with both.
VALUES: Mapping[str, tuple[Value, ...]] = {
    "tcp_congestion_control": ("cubic", "bbr"),
    "initcwnd": (10, 30),
    "pacing": ("pfifo_fast",),
    "http_version": ("http/1.1",),
}
Network = tuple[float, float, float]
LOOKS = (6,)


def tensor(
    ms: Sequence[Sequence[float]],
    networks: Sequence[Network],
    *,
    values: Mapping[str, tuple[Value, ...]] = VALUES,
    repeats: np.ndarray | None = None,
    sites: tuple[str, ...] = ("shop",),
    looks: tuple[int, ...] = LOOKS,
) -> Tensor:
    """ms: a row a condition, a column a configuration (the same at every site); networks: kbit/s, ms, fraction lost."""
    medians = np.repeat(np.array(ms, dtype=np.float32)[:, :, None], len(sites), axis=2)
    if repeats is None:
        # six loads around the median, nearer than any two configurations are to each other
        spread = np.array([0.999, 1.0, 1.0, 1.0, 1.0, 1.001], dtype=np.float32)
        repeats = medians[..., None] * spread
    columns = np.array(networks, dtype=np.float64).T
    names = tuple(f"n{at}" for at in range(len(ms)))
    provenance = (("looks", ",".join(map(str, looks))),)
    return Tensor(grid_of(values), sites, names, *columns, medians, "made", provenance, repeats.astype(np.float32))
