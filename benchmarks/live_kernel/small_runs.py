# SPDX-License-Identifier: MIT
"""Small runs on kernels: A/A runs, faults during a roll-out, Chromium, and repeated runs.

    python -m benchmarks.live_kernel.small_runs FOLDER WHAT... [--docs FILE]               as root

aa        A/A test: seeds in which every profile is published without settings, so that the learner draws and no arm
          differs. How often do tests claim a difference? Two seeds are played twice and must record the same bytes
faults    a version whose profile has turned harmful reaches clients by the stages of a roll-out, while a network
          changes, a server is lost and the manager is killed
browsers  headless Chromium loads the pages, and the product's script sends the beacons

Runs are saved in FOLDER; a second call plays only those that are missing. Exit code 1: an arm, a row or a propensity
differs from the draw, a client had two arms within an epoch, or a run that is played twice differs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.live.judge import claimed, compared
from benchmarks.live_kernel.draw_checks import RecordedRun, check_draws, load_columns, packed, served_loads
from benchmarks.live_kernel.recorded_runs import digest, load_or_play
from benchmarks.live_kernel.recovery import fault_lines
from benchmarks.live_kernel.report import difference_lines, first_drawn
from benchmarks.live_kernel.scenario import EVERY, FIXED, UNIFORM, KernelScenario
from benchmarks.page_marks import into
from configtron.intake.pageloads.plan_book import unit
from configtron.learner.live_rows import WORST_MS
from configtron.model.errors import USAGE, ConfigtronError

BEGIN, END = "<!-- benchmarks.live_kernel.small_runs -->", "<!-- end of benchmarks.live_kernel.small_runs -->"
# Seeds of the A/A runs, of those that are played twice, and of the other runs.
A_A, TWICE = range(5101, 5113), (5101, 5102)
FAULTS, BROWSERS = 5202, 5301
Found = tuple[list[str], bool]


def alike(seed: int) -> KernelScenario:
    """Return a small run in which no arm differs."""
    small = KernelScenario(seed=seed, epochs=3, epoch_s=24, continents=("europe", "oceania"), clients=30, hosts=1)
    return replace(small.quiet(), alike=True, begin_with=24, budget=0.5)


def faulty() -> KernelScenario:
    """Return the run of faults: the version that is published is the paced window of 64, and paced senders are slow."""
    arms = ((EVERY, 0, "cubic/64/fq"),)
    return KernelScenario(seed=FAULTS, epochs=30, policy=FIXED, arms=arms, windows=64, stages=100, holdback=0.2,
                          harmful=1, change=4, squeeze=0, lost=8, lost_for=1, restart=12)  # fmt: skip


def browsing() -> KernelScenario:
    """Return the run of a real browser."""
    some = KernelScenario(seed=BROWSERS, epochs=5, continents=("europe",), clients=30, hosts=2, policy=UNIFORM)
    return replace(some.quiet(), browsers=True, holdback=0.2)


def draws(run: RecordedRun) -> Found:
    """Return the comparison of a run with the draw."""
    found = difference_lines(run, check_draws(run))
    return found.lines, found.bad


def alike_runs(folder: Path) -> Found:
    """Return how often A/A runs claim a difference, and whether repeated runs are the same."""
    claims: Counter[str] = Counter()
    loads, rows, lines, bad = 0, 0, [], False
    for seed in A_A:
        run = load_or_play(folder, f"aa{seed}", scenario := alike(seed))
        first, continents = first_drawn(run), scenario.continents
        every = [one for one in served_loads(run) if first <= one.epoch < scenario.epochs]
        whole = load_columns(every, continents, WORST_MS)
        network = np.array([one.number for one in scenario.access_networks() for _ in range(one.clients)])
        claims["a roll-out's tests, read after each epoch"] += claimed(whole, network)
        for share, name in ((0.5, "the interval of the median"), (0.95, "the interval of p95")):
            found = compared(whole, share)
            claims[name] += found.low > 0.0 or found.high < 0.0
        loads, rows = loads + len(every), rows + len(run.rows)
        bad = bad or draws(run)[1]
    lines += [f"{len(A_A)} runs of {scenario.epochs} epochs of {scenario.epoch_s} s, {len(scenario.access_networks())}"
              f" networks, in which no arm differs (seeds {A_A[0]} to {A_A[-1]}): {loads} loads while arms are drawn,"
              f" {rows} rows; a difference is claimed by"]  # fmt: skip
    lines += [f"  {name}: {claims[name]} of {len(A_A)}" for name in claims]
    same = sum(digest(load_or_play(folder, f"aa{seed}", alike(seed)).raw)
               == digest(load_or_play(folder, f"again{seed}", alike(seed)).raw) for seed in TWICE)  # fmt: skip
    lines.append(f"played twice: {same} of {len(TWICE)} are the same, bit for bit")
    return lines, bad or same < len(TWICE)


def fault_run(folder: Path) -> Found:
    """Return how a roll-out's stages treated a harmful version, and the recovery from the other faults."""
    run = load_or_play(folder, "faults", scenario := faulty())
    loads = served_loads(run)
    harmed = [one for one in loads if one.profile and not one.held and "64" in one.profile]
    ms = [one.visited.plt_ms or WORST_MS for one in harmed]
    lines = [f"seed {scenario.seed}, {scenario.driver}: {scenario.epochs} epochs of {scenario.epoch_s} s,"
             f" {scenario.holdback:.0%} held back, stages of {scenario.stages} clients; {len(loads)} loads",
             *fault_lines(run, loads), "stages of the roll-out, s since boot"]  # fmt: skip
    for at_s, term, version, stage, why, count in run.raw["staged"]:
        lines.append(
            f"  {at_s:6.1f}  {term}.{version}  {stage}: {why}" + (f", {count:.0f} loads of it" if count else "")
        )
    if harmed:
        lines.append(f"  {len(harmed)} loads had the harmful profile, {median(ms):.0f} ms at the median")
    after, bad = draws(run)
    return [*lines, *after], bad


def browser_run(folder: Path) -> Found:
    """Return how the loop counted a real browser's page loads, and the errors of their times."""
    run = load_or_play(folder, "browsers", scenario := browsing())
    rows, apart = Counter(row["why_not"] or "teaches" for row in run.rows), load_time_errors_ms(run)
    versions = Counter(one.http for one in run.loads)
    failed = sum(one.plt_ms is None for one in run.loads)
    over = ", ".join(f"{count} over {name}" for name, count in sorted(versions.items()))
    taught = ", ".join(f"{count} {name}" for name, count in rows.most_common())
    lines = [f"seed {scenario.seed}, {scenario.driver}: {len(run.loads)} loads by headless Chromium ({over}), {failed}"
             f" failed; {len(run.rows)} rows ({taught})"]  # fmt: skip
    if apart:
        lines.append(f"page load time of a row beside the browser's own load event: {median(apart):.1f} ms apart at the"
                     f" median, {max(apart):.1f} ms at most, of {len(apart)}")  # fmt: skip
    after, bad = draws(run)
    return [*lines, *after], bad


def load_time_errors_ms(run: RecordedRun) -> list[float]:
    """Return the difference between each row's page load time and the nearest load of its client from that server."""
    found = []
    for row in run.rows:
        plan = run.plans.get((row["term"], row["version"], row["epoch"]))
        if plan is None or row["plt_ms"] is None:
            continue
        key, epoch = plan.unit_key, row["epoch"]
        units = {one: unit(key, packed(run.address(one)), epoch) for one in run.loads if one.plt_ms is not None}
        mine = [one for one, name in units.items() if name == row["unit"] and f"web{one.server}" == row["agent"]]
        found += [min(abs(one.plt_ms - row["plt_ms"]) for one in mine if one.plt_ms is not None)] if mine else []
    return found


WHAT = {"aa": alike_runs, "faults": fault_run, "browsers": browser_run}


def main(arguments: Sequence[str]) -> int:
    """Play the runs that the folder lacks, then print."""
    at = arguments.index("--docs") if "--docs" in arguments else len(arguments)
    words, files = list(arguments[:at]), list(arguments[at + 1 :])
    if len(words) < 2 or set(words[1:]) - set(WHAT) or len(files) > 1:
        print(f"benchmarks.live_kernel.small_runs: write a folder, then any of {', '.join(WHAT)}, --docs FILE",
              file=sys.stderr)  # fmt: skip
        return USAGE
    found = [WHAT[name](Path(words[0])) for name in words[1:]]
    text = "\n\n".join("\n".join(lines) for lines, _ in found) + "\n"
    print(text, end="")
    if files:
        into(Path(files[0]), text, BEGIN, END)
    return int(any(bad for _, bad in found))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ConfigtronError as error:
        print(f"benchmarks.live_kernel.small_runs: {error}", file=sys.stderr)
        sys.exit(error.code)
