# SPDX-License-Identifier: MIT
"""`probe show` hands rows on as it reads them: memory does not grow with the run."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.db.store import Store
from tests.support.sample_results import run as sample

SMALL, LARGE = 50, 2000
# ru_maxrss is in kilobytes. What Python and SQLite take more for a while, and a tenth of what the rows would take.
GROWTH_KB = 6_000
SCRIPT = """
import resource, sys
from configtron.cli.outermost import run
code = run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def peak_kb(db: Path, sites: int, form: str) -> int:
    with Store(db) as store:
        number = store.begin_run("{}")
        for n in range(sites):
            results = []
            for result in sample():
                vantage, site, probe = result.trace_id.split("/")
                trace = f"{vantage}/{site}{n}/{probe}"
                results.append(result._replace(trace_id=trace, target=replace(result.target, host=f"{site}{n}")))
            store.record(number, results)
        store.finish_run(number, "done")
    command = [sys.executable, "-c", SCRIPT, "--db", str(db), "probe", "show", "1", "-f", form]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) >= 4 * sites
    return int(done.stderr.splitlines()[-1])


@pytest.mark.slow
def test_memory_does_not_grow_with_the_run(tmp_path: Path) -> None:
    for form in ("csv", "jsonl"):
        small, large = (peak_kb(tmp_path / f"{form}{n}.db", n, form) for n in (SMALL, LARGE))
        assert large - small < GROWTH_KB, f"{form}: {small} kB for {SMALL} sites, {large} kB for {LARGE}"
