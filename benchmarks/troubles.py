"""Claim: whatever a server or its network does, no verdict claims too much, and most say all that can be said.

    python -m benchmarks.troubles [--seed N]... [--sites N] [--loss PERCENT] [--profile NAME] [-v]     as root

Runs the program itself over the laboratory with troubles, once for each seed, and scores it as `probe validate` does;
one row for each trouble (its amounts together), over all seeds. A case is one site with a trouble, from one region;
`usable` is the share of the reachable cases whose initial window is told at A or B, or truly bounded. `unexcused` are
verdicts without a value for a reason that the truth does not name. Exit code: 1 if there is an overclaim, or if more
reasons were given than are documented.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from configtron.cli.probe.truth import judged
from configtron.db.store import Store
from configtron.errors import DONE, PARTIAL
from configtron.report.score import Score, percent, score

# What a trouble's row of the score counts, of verdicts; and of cases.
OF_VERDICTS = ("value", "bound", "reason", "unexcused", "overclaims")
OF_CASES = ("cases", "reachable", "usable")
# A family of reasons counts once (docs/reasons.md).
REASONS_MAX = 20


def scored(seed: int, arguments: argparse.Namespace) -> Score:
    """One run of the program, scored."""
    with tempfile.TemporaryDirectory(prefix="troubles-", dir="/var/tmp") as folder:
        database = Path(folder) / "troubles.db"
        words = ["--lab", "--lab-troubles", "--seed", str(seed), "--sites", str(arguments.sites)]
        words += ["--lab-loss", str(arguments.loss)] if arguments.loss else []
        command = [sys.executable, "-m", "configtron", "--db", str(database), "-q", "probe", "alexa-top1k", *words]
        done = subprocess.run([*command, "--profile", arguments.profile, "-o", f"{folder}/out.txt"], check=False)
        # some sites answer nobody
        if done.returncode not in (DONE, PARTIAL):
            raise SystemExit(done.returncode)
        with Store(database, read_only=True) as store:
            (run,) = store.runs()
            return score(one._replace(trouble=one.trouble.partition(":")[0]) for one in judged(store, run))


def line(name: str, counts: Counter[str]) -> str:
    """A row of the table."""
    columns = "".join(f"{counts[column] or '-':>11}" for column in (*OF_CASES, *OF_VERDICTS))
    return f"{name:<20}{columns}{percent(counts['usable'], counts['reachable']):>10}"


def main(words: list[str] | None = None) -> int:
    """Probe, count, print."""
    parser = argparse.ArgumentParser(prog="benchmarks.troubles")
    parser.add_argument("--seed", type=int, action="append", help="more than once; 1")
    parser.add_argument("--sites", type=int, default=300)
    parser.add_argument("--loss", type=float, default=0.0, help="per cent on every link, each way")
    parser.add_argument("--profile", default="standard")
    parser.add_argument("-v", action="store_true", help="what was said without an excuse, too")
    arguments = parser.parse_args(words)
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    wrong = []
    for seed in arguments.seed or [1]:
        result = scored(seed, arguments)
        reasons.update(result.reasons)
        for row in result.troubles:
            counts = {name: getattr(row, name) for name in OF_VERDICTS} | {n: len(getattr(row, n)) for n in OF_CASES}
            for name in (row.trouble or "(none)", *(["troubles"] if row.trouble else []), "all"):
                rows[name].update(counts)
        for miss in result.mismatches:
            if arguments.v or miss.overclaim:
                said = miss.observation.reason or f"{miss.observation.text} {miss.observation.grade}"
                kind = "overclaim" if miss.overclaim else "unexcused"
                where = f"seed {seed} {miss.trouble or '(none)'} {miss.region} {miss.host} {miss.knob}"
                wrong.append(f"{kind}: {where}: {said}; true: {miss.truth}")
    print(f"{'trouble':<20}{''.join(f'{column:>11}' for column in (*OF_CASES, *OF_VERDICTS))}{'usable':>10}")
    for name in (*sorted(rows.keys() - {"(none)", "troubles", "all"}), "troubles", "(none)", "all"):
        print(line(name, rows[name]))
    print(f"{len(reasons)} reasons: {', '.join(f'{reason} {count}' for reason, count in reasons.most_common())}")
    print("\n".join(sorted(wrong)), end="\n" if wrong else "")
    return 1 if rows["all"]["overclaims"] or len(reasons) > REASONS_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
