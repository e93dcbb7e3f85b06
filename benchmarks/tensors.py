# SPDX-License-Identifier: MIT
"""The shipped PLT-tensors: their size, the gains that are possible on them, and the gain of each policy.

    python -m benchmarks.tensors [NAME|FILE]... [--sessions N] [--seeds N]

It reports on every tensor that ships with the package, or on those that are named. First: cells and medians, loads,
virtual hours, bytes. Second: the gain on Default, as a geometric mean over conditions (by their weights) and sites, of
the best configuration for all, for each of 20 classes of networks, for each class and site, and for each condition and
site. Column "same loads" chooses and judges by the same loads, so luck counts as gain. Column "other loads" chooses by
one half of each cell's loads and judges by the other half, both ways, so it chooses by fewer loads. A cell without a
median counts as Default's. Third: `replay study gains` on the tensor, with `static`, `cell_optimum` (the best for each
class and site) and `optimal` (the best for each condition and site) beside the policies.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from configtron.learner.columns import Codes, Floats, conditions_of
from configtron.model.errors import DONE
from configtron.model.records import Json
from configtron.model.repeats import StoppingRule, judge
from configtron.model.tensor import Tensor, read
from configtron.service.shipped_tensors import shipped_names, tensor_file
from configtron.studies.registry import sessions_run
from configtron.studies.sim.world import CLASSES, classes_of
from configtron.studies.tensors.improvement import measured

# Sessions of each world: forty updates by 500 sessions. Worlds: two are the fewest that give an interval.
SESSIONS, SEEDS = 20_000, 2
# Columns of the study: what a policy gains and what it risks.
SHOWN = ("median gain", "tail gain", "worse than Default by 20 %")


class Gain(NamedTuple):
    """Shares of Default's page load time: judged by the loads that chose, and by others (NaN: one load a cell)."""

    same: float
    other: float


def groups_of(tensor: Tensor, classes: Codes) -> dict[str, Codes]:
    """Return the groups, (conditions, sites), that share one configuration, by name. classes (conditions,)."""
    conditions, sites = len(tensor.names), len(tensor.sites)
    site = np.tile(np.arange(sites), (conditions, 1))
    of_class = np.repeat(classes[:, None], sites, axis=1)
    return {
        "static": np.zeros((conditions, sites), dtype=np.int64),
        "per class": of_class,
        "per class and site": of_class * sites + site,
        "per condition and site": np.arange(conditions * sites).reshape(conditions, sites),
    }


def log_ratios(ms: Floats, default: int) -> Floats:
    """Return ln of page load time over Default's, (conditions, configurations, sites); 0 where one failed."""
    with np.errstate(invalid="ignore"):
        found = np.log(ms) - np.log(ms[:, default : default + 1])
    return np.where(np.isfinite(found), found, 0.0)


def best_configurations(over_default: Floats, share: Floats, group: Codes) -> Codes:
    """Return the configuration with the least weighted mean of each group, (conditions, sites)."""
    sums = np.zeros((int(group.max()) + 1, over_default.shape[1]))
    np.add.at(sums, group, (over_default * share[:, None, None]).transpose(0, 2, 1))
    found: Codes = sums.argmin(axis=1)[group]
    return found


def gain_of(over_default: Floats, share: Floats, pick: Codes) -> float:
    """Return the gain on Default, a share. pick: the configuration of each, (conditions, sites)."""
    mine = np.take_along_axis(over_default, pick[:, None, :], axis=1)[:, 0]
    return float(1.0 - np.exp((mine.mean(axis=1) * share).sum()))


def gains(tensor: Tensor, classes: Codes) -> dict[str, Gain]:
    """Return the gain of each way to choose configurations, by the names of `groups_of`."""
    default, share = tensor.grid.default, tensor.share
    cells, _ = measured(tensor)
    every = log_ratios(cells.ms, default)
    halves = [] if cells.halves_ms is None else [log_ratios(half, default) for half in cells.halves_ms]
    found = {}
    for name, group in groups_of(tensor, classes).items():
        pairs = [halves, halves[::-1]] if halves else []
        other = [
            gain_of(judge_by, share, best_configurations(choose_by, share, group)) for choose_by, judge_by in pairs
        ]
        same = gain_of(every, share, best_configurations(every, share, group))
        found[name] = Gain(same, float(np.mean(other)) if other else float("nan"))
    return found


def content_line(name: str, tensor: Tensor, size: int) -> str:
    """Return the size of a tensor and of its file, as one line."""
    about = dict(tensor.provenance)
    cells = tensor.median_ms.size
    repeats = tensor.repeats_ms if tensor.repeats_ms is not None else tensor.median_ms[..., None]
    looks = tuple(map(int, about.get("looks", "6").split(",")))
    loads = [[float(ms) for ms in cell if ms == ms] for cell in repeats.reshape(cells, -1)]
    known = sum(judge(cell, StoppingRule(looks)).settled for cell in loads)
    exact = sum(len(cell) > 1 and min(cell) == max(cell) for cell in loads)
    hours = float(about.get("virtual_s", "nan")) / 3600
    return (
        f"{name}: {len(tensor.names)} conditions x {len(tensor.grid)} configurations x {len(tensor.sites)} sites = "
        f"{cells} cells, {cells - tensor.missing()} with a median, {known} known within a tenth (95 %), {exact} whose "
        f"loads are all equal; {sum(map(len, loads))} loads, {hours:.0f} virtual hours; {size / 1e6:.2f} MB"
    )


def policy_rows(name: str, sessions: int, seeds: int) -> list[str]:
    """Return the rows of `replay study gains` on that tensor."""
    options = sessions_run.SessionsOptions((name,), sessions, 1, seeds)
    with TemporaryDirectory(prefix="configtron-tensors-") as folder:
        job = sessions_run.job_of(("gains",), options, _note)
        done = sessions_run.run(Path(folder) / "c.db", job, "", lambda event: None, lambda: False)
    cells = {(row["row"], row["column"]): row for row in sessions_run.rows(sessions_run.summaries(done), curves=False)}
    lines = [f"{'policy':16}" + "".join(f"{column:>32}" for column in SHOWN)]
    for row in dict.fromkeys(row for row, _ in cells):
        shown = [_interval(cells.get((row, column))) for column in SHOWN]
        lines.append(f"{str(row).split()[-1]:16}" + "".join(f"{one:>32}" for one in shown))
    return lines


def _interval(row: dict[str, Json] | None) -> str:
    if row is None or row["value"] is None:
        return "-"
    value, low, high = (
        float(str(row[end])) if row[end] is not None else float("nan") for end in ("value", "low", "high")
    )
    return f"{value:.1%} [{low:.1%}, {high:.1%}]"


def _note(text: str) -> None:
    print(text, file=sys.stderr)


def report(name: str, sessions: int, seeds: int) -> None:
    """Print all of one tensor."""
    data = tensor_file(name) if name in shipped_names() else Path(name).read_bytes()
    tensor = read(BytesIO(data), name)
    print(content_line(name, tensor, len(data)))
    here = tensor.rated()
    classes = classes_of(here, min(CLASSES, len(here.names)), 1).of(conditions_of(here))
    print(f"{'gain on Default':24}{'same loads':>12}{'other loads':>12}")
    for words, gain in gains(here, classes).items():
        print(f"{words:24}{gain.same:12.1%}{gain.other:12.1%}")
    print("\n".join(policy_rows(name, sessions, seeds)) + "\n", flush=True)


def main(words: Sequence[str]) -> int:
    """Print the tensors that the words name; return the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.tensors")
    parser.add_argument("tensors", nargs="*", default=shipped_names())
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    given = parser.parse_args(words)
    for name in given.tensors:
        report(name, given.sessions, given.seeds)
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
