# SPDX-License-Identifier: MIT
"""How long `learn initial train` takes to learn 60 000 records of the database anew, and the model of lower bounds.

    OMP_NUM_THREADS=1 python -m benchmarks.initial_windows [RECORDS [SEED]]

The records are drawn: 3000 prefixes of 100 networks, log-normal windows of which most are lower bounds. Counted is the
CPU of this process: from the database's rows to three saved classifiers and the saved model of paths' windows, and to
that model alone. Claim: 2 s for each. Then one prefix sends forged traffic, as much as all others: printed is how far
that moves the windows of others, and without the bound on votes. Claims: `OTHERS`, and `NEVER_SEEN` for prefixes never
seen of its own network. Exit code 1: longer, or further.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.claims import Claims
from configtron.db.end_state_rows import EndStateRows
from configtron.learner.initial.censored_hierarchy import WindowModel
from configtron.learner.initial.end_states import EndStates, joined, of_rows
from configtron.service.learning.initial import InitialOptions, train_initial

RECORDS, NETWORKS, PREFIXES, CLAIM_S = 60_000, 100, 30, 2.0
# Shares; windows (segments) that the forger shows.
OTHERS, NEVER_SEEN = 0.07, 0.20
FORGER, FORGED_WINDOWS = "10.3.2.0/24", (1.0, 1e6)


def drawn_records(count: int, seed: int) -> EndStates:
    """Return records of connections, a minute apart."""
    rng = np.random.default_rng(seed)
    path = 4.0 + 0.8 * rng.standard_normal((NETWORKS, PREFIXES))
    network, prefix = rng.integers(NETWORKS, size=count), rng.integers(PREFIXES, size=count)
    true, most = np.exp(path[network, prefix]), np.exp(3.6 + 0.8 * rng.standard_normal(count))
    return of_rows([
        {"at_s": 1.6e9 + 60.0 * at, "prefix": f"10.{network[at]}.{prefix[at]}.0/24", "min_rtt_ms": 20.0 + prefix[at],
         "max_cwnd": max(1.0, float(min(true[at], most[at]))), "bound": bool(most[at] < true[at]),
         "packets_in": 50.0, "packets_out": 100.0}
        for at in range(count)
    ])  # fmt: skip


def moved(states: EndStates, *, bounded: bool) -> tuple[float, float]:
    """Return by which share a forger moves medians at most: of all others, of prefixes never seen beside it."""
    asked = [f"10.{network}.{prefix}.0/24" for network in range(5) for prefix in (*range(PREFIXES), 200)]
    rows = of_rows([{"prefix": one, "at_s": 1.6e9, "min_rtt_ms": 30.0} for one in asked if one != FORGER])
    beside = np.array([one.startswith("10.3.") and one.endswith(".200.0/24") for one in rows.prefix.tolist()])
    was, far = WindowModel(states, bounded=bounded).quantiles(rows)[:, 1], np.zeros(len(rows))
    for window in FORGED_WINDOWS:
        forged = of_rows([{"prefix": FORGER, "at_s": 1.6e9 + at, "min_rtt_ms": 22.0, "max_cwnd": window}
                          for at in range(len(states))])  # fmt: skip
        now = WindowModel(joined([states, forged]), bounded=bounded).quantiles(rows)[:, 1]
        far = np.maximum(far, np.expm1(np.abs(np.log(now / was))))
    return float(far[~beside].max()), float(far[beside].max())


def main(arguments: list[str]) -> int:
    count, seed = (int(word) for word in (*arguments, *map(str, (RECORDS, 1)[len(arguments) :])))
    claims = Claims()
    with TemporaryDirectory() as folder:
        options = InitialOptions(Path(folder) / "x.db")
        with EndStateRows(options.db) as store:
            store.add(drawn_records(count, seed))
        begun = time.process_time()
        found = train_initial(options)
        train_s = time.process_time() - begun
        with EndStateRows(options.db) as store:
            begun = time.process_time()
            WindowModel(store.every())
            model_s = time.process_time() - begun
    print(f"{found.learned} records learned anew; seconds of CPU")
    claims.hold("all models, saved", train_s, CLAIM_S)
    claims.hold("model of paths' windows alone", model_s, CLAIM_S)
    few = drawn_records(count // 10, seed)
    others, beside = moved(few, bounded=True)
    loose = moved(few, bounded=False)
    print(f"{len(few)} records and as many forged of one prefix; shares by which windows move")
    print(f"without the bound: others {loose[0]:.2f}, never seen beside it {loose[1]:.2f}")
    claims.hold("others", others, OTHERS)
    claims.hold("prefixes never seen beside it", beside, NEVER_SEEN)
    return claims.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
