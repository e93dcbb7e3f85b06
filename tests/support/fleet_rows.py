# SPDX-License-Identifier: MIT
"""Rows of outcomes as agents report them: prefixes of three classes, two arms each, a holdback of a fifth."""

from __future__ import annotations

import numpy as np

from configtron.model.fleet import OutcomeRow

# 2026-11-20 12:00 UTC; an epoch of ten minutes.
BEGUN_NS, EPOCH_S = 1_795_176_000 * 10**9, 600
CLASSES = {"near": 300.0, "far": 900.0, "cellular": 1600.0}
HELD = 0.2


def fleet_rows(
    seed: int, n: int, gain: float = 0.15, *, lost_of_treated: float = 0.0, prefixes: int = 60
) -> list[OutcomeRow]:
    """n rows over three hours. gain: what the profile `wide` saves; lost_of_treated: share of
    its rows that never come."""
    rng = np.random.default_rng(seed)
    client_of_prefix = 12
    held_client = rng.random((prefixes, client_of_prefix)) < HELD
    client_ln = rng.normal(0.0, 0.2, (prefixes, client_of_prefix))
    at = np.sort(rng.uniform(0.0, 3 * 3600.0, n))
    rows = []
    for sequence, second in enumerate(at):
        prefix, client = int(rng.integers(prefixes)), int(rng.integers(client_of_prefix))
        class_name = list(CLASSES)[prefix % 3]
        epoch = int(second // EPOCH_S)
        held = bool(held_client[prefix, client])
        arm = None if held else int((prefix * 7 + client * 13 + epoch * 5) % 2)
        wide = arm == 1
        if wide and rng.random() < lost_of_treated:
            continue
        site = ("news", "shop")[int(rng.integers(2))]
        ln = np.log(CLASSES[class_name] * (1.0 if site == "news" else 2.5)) + client_ln[prefix, client]
        ln += rng.normal(0.0, 0.4) + np.log1p(-gain) * wide
        failed = rng.random() < 0.01
        slow, rtt_ms = rng.random() < 0.02, CLASSES[class_name] / 10.0
        rows.append(OutcomeRow(
            agent=("ams", "fra")[prefix % 2], boot="b1", sequence=sequence, at_ns=BEGUN_NS + int(second * 1e9),
            site=site, prefix=f"198.51.{prefix}.0/24", unit=f"{prefix:04x}{client:04x}{epoch:08x}",
            plt_ms=None if failed else float(np.exp(ln)), term=1, map_version=1 + int(second // 3600), epoch=epoch,
            class_name=class_name, arm=arm, profile="" if arm is None else ("plain", "wide")[arm],
            propensity=HELD if held else (1.0 - HELD) / 2.0, held=held, failure="abandoned" if failed else "",
            teaches=not slow, why_not="turn" if slow else "", rtt_ms=rtt_ms * np.exp(rng.normal(0.0, 0.1)),
            bandwidth_kbps=5000.0, loss=0.01,
        ))  # fmt: skip
    return rows
