# SPDX-License-Identifier: MIT
"""How long `learn initial train` takes to learn 60 000 records of the database anew, and the model of lower bounds.

    OMP_NUM_THREADS=1 python -m benchmarks.initial_windows [RECORDS [SEED]]

The records are drawn: 3000 prefixes of 100 networks, log-normal windows of which most are lower bounds. Counted is the
CPU of this process: from the database's rows to three saved classifiers, and from the rows to `WindowModel`. Claim: 2 s
for each. Exit code 1: longer.
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
from configtron.learner.initial.end_states import EndStates, of_rows
from configtron.service.learning.initial import InitialOptions, train_initial

RECORDS, NETWORKS, PREFIXES, CLAIM_S = 60_000, 100, 30, 2.0


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
    claims.hold("three classifiers, saved", train_s, CLAIM_S)
    claims.hold("model of lower bounds", model_s, CLAIM_S)
    return claims.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
