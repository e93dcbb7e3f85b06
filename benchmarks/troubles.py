"""Claim: whatever a server or its network does, no verdict claims too much, and most say all that can be said.

    python -m benchmarks.troubles [--seed N]... [--sites N] [--loss PERCENT] [--profile NAME] [--all] [-v]     as root

Runs the program itself over the laboratory with troubles, once for each seed, and compares each verdict with its truth.
A case is one site with a trouble, seen from one region. Verdicts of a case are

    right     the value, at A or B          single    the value, at C
    bound     a true bound, where no more can be seen
    reason    no value, for a reason that the truth names, or where there is nothing to find
    missed    honest, but more could be told: a bound or no value where a server shows one
    wrong     an overclaim: another value, or a bound above the truth

`icw` is the share of reachable sites (their SYN is answered) whose initial window is told at A or B or bounded: the
yield that other studies print. Exit code: 1 if anything is wrong or more reasons than twenty were given.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from configtron.cli.probe.truth import judged
from configtron.db.store import Store
from configtron.lab.truth import Expectation
from configtron.report.score import ABSENT, Judged, percent

KINDS = ("right", "single", "bound", "reason", "missed", "wrong")
# Documented reasons are at most so many; a family counts once.
REASONS_MAX = 20
# A trouble is called by its name without its amount.
CALM = "(none)"


def kind(one: Judged) -> str:
    """Which of `KINDS` a verdict is."""
    verdict, truth = one.observation, one.expectation
    assert isinstance(truth, Expectation)
    if verdict.grade == "L":
        value = verdict.value
        true = isinstance(value, int | float) and any(isinstance(v, int | float) and value <= v for v in truth.values)
        return "wrong" if not true else "bound" if truth.bound else "missed"
    if verdict.grade == "N":
        return "reason" if truth.admits(None, reason=verdict.reason or "") else "missed"
    if not truth.admits(None if verdict.value == ABSENT else verdict.value):
        return "wrong"
    return "single" if verdict.grade == "C" else "right"


class Tally:
    """Counts of one trouble."""

    def __init__(self) -> None:
        self.cases: set[tuple[int, str, str]] = set()
        self.kinds: Counter[str] = Counter()
        self.reachable = self.usable = 0

    def add(self, seed: int, one: Judged, named: str) -> None:
        """Count a verdict; `named` is its kind."""
        self.cases.add((seed, one.region, one.host))
        self.kinds[named] += 1
        if one.knob == "icw" and one.expectation.bound | bool(one.expectation.values):
            self.reachable += 1
            self.usable += one.observation.grade in "ABL"


def probed(seed: int, database: Path, arguments: argparse.Namespace) -> None:
    """One run of the program."""
    words = ["--lab", "--lab-troubles", "--seed", str(seed), "--sites", str(arguments.sites)]
    words += ["--lab-loss", str(arguments.loss)] if arguments.loss else []
    command = [sys.executable, "-m", "configtron", "--db", str(database), "-q", "probe", "alexa-top1k", *words]
    subprocess.run([*command, "--profile", arguments.profile, "-o", str(database.with_suffix(".txt"))], check=True)


def verdicts(database: Path) -> Iterable[tuple[str, Judged]]:
    """(trouble, verdict) of the database's only run."""
    import json

    with Store(database, read_only=True) as store:
        (run,) = store.runs()
        folder = database.with_name(f"{database.name}.runs") / str(run.id)
        truth = json.loads((folder / "truth.json").read_text())
        regions = [region["name"] for region in truth["regions"]]
        trouble = {
            (region, site["host"]): server["trouble"].partition(":")[0]
            for site in truth["sites"]
            for region, server in zip(regions, site["servers"], strict=True)
        }
        for one in judged(store, run):
            yield trouble[one.region, one.host] or CALM, one


def line(name: str, tally: Tally) -> str:
    """A row of the table."""
    counts = "".join(f"{tally.kinds[named] or '-':>8}" for named in KINDS)
    return f"{name:<20}{len(tally.cases):>7}{counts}{percent(tally.usable, tally.reachable):>10}"


def main(words: list[str] | None = None) -> int:
    """Probe, count, print."""
    parser = argparse.ArgumentParser(prog="benchmarks.troubles")
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument("--sites", type=int, default=250)
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--profile", default="standard")
    parser.add_argument("--all", action="store_true", help="sites without trouble too")
    parser.add_argument("-v", action="store_true", help="every wrong and missed verdict")
    arguments = parser.parse_args(words)
    tallies: dict[str, Tally] = defaultdict(Tally)
    reasons: Counter[str] = Counter()
    shown: list[str] = []
    for seed in arguments.seed or [1]:
        with tempfile.TemporaryDirectory(prefix="troubles-", dir="/var/tmp") as folder:
            database = Path(folder) / "troubles.db"
            probed(seed, database, arguments)
            for trouble, one in verdicts(database):
                named = kind(one)
                if trouble != CALM or arguments.all:
                    tallies[trouble].add(seed, one, named)
                    reasons[(one.observation.reason or "").partition(":")[0]] += one.observation.grade == "N"
                if named in ("missed", "wrong") and (trouble != CALM or arguments.all):
                    said = one.observation.reason or f"{one.observation.text} {one.observation.grade}"
                    truth = f"{one.expectation.values} {one.expectation.reason}"
                    shown.append(f"{named} {trouble} {one.region} {one.host} {one.knob}: {said}; truth {truth}")
    print(f"{'trouble':<20}{'cases':>7}{''.join(f'{named:>8}' for named in KINDS)}{'icw':>10}")
    whole = Tally()
    for name in sorted(tallies):
        tally = tallies[name]
        print(line(name, tally))
        whole.cases |= tally.cases
        whole.kinds.update(tally.kinds)
        whole.reachable, whole.usable = whole.reachable + tally.reachable, whole.usable + tally.usable
    print(line("all", whole))
    given = {reason: count for reason, count in reasons.most_common() if reason and count}
    print(f"{len(given)} reasons: {', '.join(f'{reason} {count}' for reason, count in given.items())}")
    print("\n".join(sorted(text for text in shown if arguments.v or text.startswith("wrong"))))
    return 1 if whole.kinds["wrong"] or len(given) > REASONS_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
