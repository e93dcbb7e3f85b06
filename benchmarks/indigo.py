# SPDX-License-Identifier: MIT
"""Claim: Indigo, as trained here, has more power than cubic on at least half of the calibrated paths held out.

    python -m benchmarks.indigo [--runs 5] [--seconds 20] [--jobs 1] [--folder DIR] [CONDITION ...]     as root
    python -m benchmarks.indigo --windows

One flow of each scheme alone on each path, `runs` times with other seeds, in the lab's guest; the packets are logged at
both ends as the study `pantheon` logs them. Power is ln(Mbit/s over the 95th percentile of one-way delay in ms), and
the last column is Indigo's minus cubic's, run by run, with Student's 95 % interval: above zero, Indigo is better. Paths
that were trained on are marked, and do not count. Exit code 1: the interval is above zero on fewer than half.

--windows prints the window that Indigo keeps on each link that it was only tried on, and on some that it learned from,
beside the best one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from configtron.lab.testbed.families import named
from configtron.studies.flows import flows
from configtron.studies.flows.flows import Flow, FlowOutcome, Trial
from configtron.studies.flows.spread import margin
from configtron.studies.indigo.training import show_indigo
from configtron.studies.indigo.training_flows import FlowOrder, in_guest
from configtron.studies.indigo.training_links import CALIBRATED, HELD_OUT, links, other_links
from configtron.studies.registry.kinds import Arguments

SCHEMES = ("indigo", "cubic")
WORKER = "configtron.studies.guests.worker"
# Links of the grid whose windows are shown too; a flow on any lasts so long at least.
LEARNED = tuple(f"emulated:{link}/0/300" for link in ("5/10", "20/40", "50/80", "100/40", "200/80"))
LEAST_S = 4.0


def trials(path: str, runs: int, seconds: float) -> list[Trial]:
    """Both schemes under each seed."""
    return [Trial(named(path), (Flow(scheme),), seconds, seed) for seed in range(1, runs + 1) for scheme in SCHEMES]


def figures(flows_of: Sequence[FlowOutcome]) -> str:
    """Mean rate, delay, loss and power of a scheme's runs."""
    rate, late, loss, power = (
        fmean(getattr(one, name) for one in flows_of) for name in ("mbit", "late_ms", "loss", "power")
    )
    return f"{rate:8.2f} {late:8.1f} {100 * loss:7.2f} {power:7.2f}"


def compared(path: str, outcomes: Sequence[FlowOutcome]) -> tuple[str, bool]:
    """A path's row, and whether Indigo is better beyond the interval."""
    ours, cubic = ([one for one in outcomes if one.scheme == scheme] for scheme in SCHEMES)
    gains = [one.power - other.power for one, other in zip(ours, cubic, strict=True)]
    gain, half = fmean(gains), margin(gains) or 0.0
    trained = path in {*CALIBRATED, *(link.name for link in links())}
    row = f"{path + (' trained' if trained else ''):28} {figures(ours)}   {figures(cubic)}   {gain:+.3f} +- {half:.3f}"
    return row, gain - half > 0


def print_windows() -> int:
    """Drive a flow over each of these links, in one boot; print its window in its second half."""
    trained = show_indigo()
    some = [link for link in links() if link.name in (*CALIBRATED, *LEARNED)]
    asked = [FlowOrder("learned", link.name, max(LEAST_S, link.seconds), 77) for link in (*other_links(), *some)]
    print(f"{'link':24} {'best':>6} {'kept':>6} {'kept / best':>11} {'queueing ms':>12} {'Mbit/s':>8}")
    for found in in_guest()(asked, trained.weights):
        later, best = found.steps[len(found.steps) // 2 :], trained.windows[found.link]
        kept, (queueing, mbit) = float(np.median(later[:, 3])), later[:, :2].mean(0)
        print(f"{found.link:24} {best:6} {kept:6.0f} {kept / best:11.2f} {queueing:12.1f} {mbit:8.1f}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--jobs", type=int, default=1, help="guests at once")
    parser.add_argument("--folder", type=Path, help="of the flows' parts; those that are whole are not run again")
    parser.add_argument("conditions", nargs="*", default=sorted({*CALIBRATED, *HELD_OUT}))
    parser.add_argument("--windows", action="store_true", help="show windows instead")
    given = parser.parse_args()
    if given.windows:
        return print_windows()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as temporary:
        arguments = Arguments(given.folder or Path(temporary), jobs=given.jobs, worker=WORKER)
        ran = flows.run(
            arguments,
            {path.replace(":", "-").replace("/", "-"): trials(path, given.runs, given.seconds)
             for path in given.conditions},
        )  # fmt: skip
    print(f"{'path':28} {'indigo: Mbit/s, p95 ms, loss %, power':34}  {'cubic: the same':33}   power, indigo - cubic")
    better = 0
    for path in given.conditions:
        outcomes = ran.outcomes.get(path.replace(":", "-").replace("/", "-"), ())
        valid = [flow for one in outcomes for flow in one.flows if not flow.reason]
        if len(valid) < 2 * given.runs:
            print(f"{path:28} missing: {ran.missing or [flow.reason for one in outcomes for flow in one.flows]}")
            continue
        row, is_better = compared(path, valid)
        better += is_better and path in HELD_OUT
        print(row, flush=True)
    judged = [path for path in given.conditions if path in HELD_OUT]
    print(f"better than cubic on {better} of {len(judged)} calibrated paths that were held out")
    return int(2 * better < len(judged))


if __name__ == "__main__":
    sys.exit(main())
