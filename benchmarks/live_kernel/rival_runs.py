# SPDX-License-Identifier: MIT
"""Rivals on the same kernels, in the same worlds: the paper's ensemble, MAB+NC, the best static configuration, the best
of each condition, and Default.

    python -m benchmarks.live_kernel.rival_runs FOLDER [SEED [CHOSEN]] [--docs FILE]                   as root

Question   Is the learner better than the baselines where kernels draw, and how much can be gained at all?
Method     Runs with seed CHOSEN try every configuration on every network, with equal chances (`fixed_arms.py`). From
           their loads come the best configuration for all, and the best of each condition before and after queues
           became short. Then seed SEED is played by each policy, with the same clients, pages, networks, faults and
           held-back clients: what is compared is the ln of page load time of tuned clients within network, page,
           version of HTTP and stretch; intervals by a bootstrap over clients. Held-back clients, whose loads no policy
           changes, are compared in the same way: that difference shows what chance does.
Stop when  every run is in FOLDER; a second call goes on there.
Reads as   tables
Fails as   code 1 where any run's connections, rows or propensities differ from the draw.
Differs    from `benchmarks/live/rivals.py`, which knows the truth: here it is measured, by few loads of each condition,
           pooled with those of all conditions, so that the best of each condition is below the true one.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.live.scenario import guarded, measured, settings_at
from benchmarks.live_kernel.draw_checks import RecordedRun, ServedLoad, check_draws, served_loads
from benchmarks.live_kernel.recorded_runs import load_or_play
from benchmarks.live_kernel.recovery import RESAMPLES, codes, difference, within
from benchmarks.live_kernel.report import difference_lines, first_drawn
from benchmarks.live_kernel.scenario import EVERY, FIXED, UNIFORM, KernelScenario
from benchmarks.page_marks import into
from configtron.learner.columns import Codes, Floats
from configtron.learner.live_rows import WORST_MS
from configtron.learner.rulebook import learned_profile
from configtron.model.errors import USAGE, ConfigtronError
from configtron.tune.guard import MOST_LEARNED_WINDOW, MOST_PACED_WINDOW

BEGIN, END = "<!-- benchmarks.live_kernel.rival_runs -->", "<!-- end of benchmarks.live_kernel.rival_runs -->"
# The seed that is judged, and the one that the best ones are chosen on.
SEED, CHOSEN = 9431, 9029
# First number of the seeds of the bootstrap.
DRAWING = 89
# Loads of a configuration from which its gain for all conditions is an estimate.
LEAST = 12
# As many loads count what a configuration gains for all conditions, beside its loads in one of them.
POOLED = 30
# Epochs of the run that tries every configuration; queues become short in the middle.
TRIED = 40
# Default's settings in words.
DEFAULT = "cubic/10"
Row = tuple[str, int, str]


@cache
def settings_by_name() -> dict[str, str]:
    """Return the settings of each configuration's profile, by name."""
    grids = [guarded(measured(), windows) for windows in (MOST_PACED_WINDOW, MOST_LEARNED_WINDOW)]
    return {learned_profile(grid, at).name: settings_at(grid, at) for grid in grids for at in range(len(grid))}


def gains_over_default(loads: Sequence[ServedLoad], least: int = LEAST) -> dict[str, tuple[float, int]]:
    """Return settings -> how much lower ln page load time is than Default's, within the strata, and the loads of it."""
    names = settings_by_name()
    by: dict[str, list[ServedLoad]] = defaultdict(list)
    for one in loads:
        by[names.get(one.profile, DEFAULT)].append(one)
    found = {DEFAULT: (0.0, len(by[DEFAULT]))}
    for settings, mine in sorted(by.items()):
        if settings != DEFAULT and len(mine) >= least:
            both = [*by[DEFAULT], *mine]
            tuned = np.array([False] * len(by[DEFAULT]) + [True] * len(mine))
            apart = difference(strata(both), ~tuned, ln_ms(both), np.ones(len(both)))
            found[settings] = (-apart, len(mine))
    return {name: row for name, row in found.items() if not np.isnan(row[0])}


def strata(loads: Sequence[ServedLoad]) -> Codes:
    """Return the code of each load's network, page and version of HTTP."""
    return codes([(one.visited.network, one.visited.page, one.visited.http) for one in loads])


def ln_ms(loads: Sequence[ServedLoad]) -> Floats:
    """Return the ln of each load's page load time; one that failed counts as `WORST_MS`."""
    return np.log([WORST_MS if one.visited.plt_ms is None else one.visited.plt_ms for one in loads])


def best_of(loads: Sequence[ServedLoad], whole: Mapping[str, tuple[float, int]] | None = None) -> str:
    """Return the settings of the largest gain over Default. whole: gains of all conditions, which the gains of these
    loads are pooled with: else the largest of many gains by few loads each is one by chance."""
    if whole is None:
        found = gains_over_default(loads)
        return max(sorted(found), key=lambda name: found[name][0])
    here, pooled = gains_over_default(loads, 1), {}
    for name, (gain, _) in whole.items():
        mine, count = here.get(name, (0.0, 0))
        pooled[name] = (count * mine + POOLED * gain) / (count + POOLED)
    return max(sorted(pooled), key=lambda name: pooled[name])


def best_rows(run: RecordedRun, loads: Sequence[ServedLoad]) -> list[Row]:
    """Return the best settings of each condition, from the first epoch on and from the one in which queues become
    short; loads of networks that changed count for the condition that they had."""
    squeeze = run.scenario.squeeze or run.scenario.epochs
    rows = []
    for since, until in ((0, squeeze), (squeeze, run.scenario.epochs)):
        of: dict[str, list[ServedLoad]] = defaultdict(list)
        for epoch in range(since, until):
            condition = {one.number: one.condition for one in run.scenario.networks_in(epoch)}
            for one in loads:
                if one.epoch == epoch:
                    of[condition[one.visited.network]].append(one)
        whole = gains_over_default([one for one in loads if since <= one.epoch < until])
        rows += [(name, since, best_of(some, whole)) for name, some in sorted(of.items())]
    return rows


def compared_runs(ours: Sequence[ServedLoad], theirs: Sequence[ServedLoad], held: bool, ends: Sequence[int] = ()
                  ) -> tuple[float, float, float]:  # fmt: skip
    """Return how much faster loads of the first run are than those of the second, as a share, with its 95 % interval.

    held: of held-back clients instead of tuned ones; ends: first epochs of the phases, each compared alone"""
    both = [one for one in (*ours, *theirs) if one.held == held]
    first = np.array([run == 0 for run, loads in enumerate((ours, theirs)) for one in loads if one.held == held])
    stratum = codes([(one.visited.network, one.visited.page, one.visited.http, sum(one.epoch >= end for end in ends))
                     for one in both])  # fmt: skip
    client, ln = codes([one.client for one in both]), ln_ms(both)
    rng, clients = np.random.default_rng(DRAWING), int(client.max(initial=-1)) + 1
    found = [difference(stratum, ~first, ln, np.ones(len(ln)))]
    for _ in range(RESAMPLES):
        times = np.bincount(rng.integers(clients, size=clients), minlength=clients)
        found.append(difference(stratum, ~first, ln, times[client].astype(np.float64)))
    gain = 1.0 - np.exp(np.array(found))
    low, high = np.nanquantile(gain[1:], (0.025, 0.975))
    return float(gain[0]), float(low), float(high)


def trying(seed: int) -> KernelScenario:
    """Return the run that tries every configuration. Default is one of them, so that no client is held back."""
    return KernelScenario(seed=seed, epochs=TRIED, policy=UNIFORM, holdback=0.0, squeeze=TRIED // 2, lost=0, restart=0)


def scenarios(seed: int, chosen: RecordedRun) -> dict[str, KernelScenario]:
    """Return the runs that are compared, by name. chosen: the run that tried every configuration."""
    ours, tried = KernelScenario(seed=seed), served_loads(chosen)
    static = replace(ours, policy=FIXED, arms=((EVERY, 0, best_of(tried)),))
    optimum = replace(ours, policy=FIXED, arms=tuple((name, since and ours.squeeze, words)
                                                     for name, since, words in best_rows(chosen, tried)))  # fmt: skip
    return {
        "ours": ours, "static": static, "optimum": optimum, "mab_nc": replace(ours, policy="mab_nc"),
        "ensemble": replace(ours, policy="configtron"),
    }  # fmt: skip


def tried_lines(chosen: RecordedRun) -> list[str]:
    """Return the gain of every configuration over all networks of the run that tried it, and the best of each condition
    in both phases."""
    loads, scenario = served_loads(chosen), chosen.scenario
    found = sorted(gains_over_default(loads).items(), key=lambda one: -one[1][0])
    lines = [f"seed {scenario.seed}, {scenario.epochs} epochs, every configuration with equal chances, {len(loads)}"
             " loads: gain over Default",
             "  " + ", ".join(f"{name} {1 - np.exp(-gain):+.1%}" for name, (gain, _) in found)]  # fmt: skip
    best: dict[str, list[str]] = defaultdict(list)
    for name, _, words in best_rows(chosen, loads):
        best[name].append(words)
    lines += [f"  {name:38s} best {', with short queues '.join(words)}" for name, words in sorted(best.items())]
    return lines


def phases(scenario: KernelScenario, first: int) -> list[tuple[str, int, int]]:
    """Return the phases between planted faults: name, first epoch, end."""
    ends = sorted({first, *(at for at in (scenario.change, scenario.squeeze, scenario.harmful) if at > first),
                   scenario.epochs})  # fmt: skip
    rows = [(f"epochs {begin} to {end - 1}", begin, end) for begin, end in zip(ends, ends[1:], strict=False)]
    return [*rows, ("all", first, scenario.epochs)]


def rival_lines(runs: dict[str, RecordedRun]) -> list[str]:
    """Return the table of gains over held-back clients of the same run, and of our learner against each baseline."""
    loads, first = {name: served_loads(run) for name, run in runs.items()}, first_drawn(runs["ours"])
    scenario = runs["ours"].scenario
    rows = phases(scenario, first)
    lines = [f"seed {scenario.seed}, {scenario.driver}: gain of tuned over held-back clients within network, page and"
             " version of HTTP", f"{'':16s}" + "".join(f"{name:>26s}" for name in runs)]  # fmt: skip
    for name, begin, end in rows:
        cells = [within([one for one in some if begin <= one.epoch < end]) for some in loads.values()]
        lines.append(f"{name:16s}" + "".join(f"   {_cell(one)}" for one in cells))
    ends = [begin for _, begin, _ in rows[:-1]]
    lines += ["",
              "ours against each, tuned clients of both runs; held-back clients, who have the same settings in both",
              f"{'':16s}" + "".join(f"{name:>26s}" for name in runs if name != "ours")]  # fmt: skip
    for name, begin, end, held in [*((*row, False) for row in rows), ("all, held back", first, scenario.epochs, True)]:
        some = {which: [one for one in every if begin <= one.epoch < end] for which, every in loads.items()}
        cells = [compared_runs(some["ours"], some[which], held, ends) for which in runs if which != "ours"]
        lines.append(f"{name:16s}" + "".join(f"   {_cell(one)}" for one in cells))
    best = compared_runs(_from(loads["optimum"], first), _from(loads["static"], first), False, ends)
    lines += ["", f"possible gain beyond the best static configuration, by the best of each condition: {_cell(best)}"]
    return lines


def _from(loads: Sequence[ServedLoad], first: int) -> list[ServedLoad]:
    return [one for one in loads if one.epoch >= first]


def _cell(found: tuple[float, float, float]) -> str:
    return "{:+6.1f}% [{:+6.1f}, {:+6.1f}]".format(*(100 * one for one in found))


def main(arguments: Sequence[str]) -> int:
    """Play the runs that the folder lacks, then print."""
    at = arguments.index("--docs") if "--docs" in arguments else len(arguments)
    words, files = list(arguments[:at]), list(arguments[at + 1 :])
    if not 1 <= len(words) <= 3 or not all(word.isdecimal() for word in words[1:]) or len(files) > 1:
        print("benchmarks.live_kernel.rival_runs: write a folder, a seed, the seed that the best ones are chosen on,"
              " --docs FILE", file=sys.stderr)  # fmt: skip
        return USAGE
    folder, (seed, other) = Path(words[0]), (*map(int, words[1:]), *(SEED, CHOSEN)[len(words) - 1 :])
    chosen = load_or_play(folder, "tried", trying(other))
    # ours is the run that `benchmarks.live_kernel --runs` keeps
    names = {"ours": f"kmod{seed}"}
    runs = {name: load_or_play(folder, names.get(name, name), one) for name, one in scenarios(seed, chosen).items()}
    lines, bad = [*tried_lines(chosen), "", *rival_lines(runs), ""], False
    for name, run in {"tried": chosen, **runs}.items():
        compared = difference_lines(run, checks := check_draws(run))
        bad = bad or compared.bad
        mixed = checks.clients_mixed + checks.banded_mixed
        lines.append(f"{name:10s} {len(run.loads)} loads, {checks.connections} connections, {checks.rows} rows:"
                     f" {sum(checks.wrong.values())} differ from the draw; {mixed} clients with two arms")  # fmt: skip
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if files:
        into(Path(files[0]), text, BEGIN, END)
    return int(bad)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ConfigtronError as error:
        print(f"benchmarks.live_kernel.rival_runs: {error}", file=sys.stderr)
        sys.exit(error.code)
