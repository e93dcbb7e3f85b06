# SPDX-License-Identifier: MIT
"""Claim: whatever a server or its network does, no verdict claims too much, and most state all that can be known.

    python -m benchmarks.troubles [--seed N]... [--sites N] [--loss PERCENT] [--profile NAME] [-v]     as root

Runs the program itself over the laboratory with troubles, once for each seed, and scores it as `probe validate` does;
one row for each trouble (its amounts together), over all seeds. A case is one site with a trouble, from one region;
`icw` is the share of those that allow an answer whose initial window is answered: at A or B, by the largest bound that
can be proven, or with the right reason. `unexcused` are verdicts without a value for a reason that the truth does not
name. Behind it, the yields (report/score.py) of the run and of three probers that say the same of every server. Exit
code: 1 if there is an overclaim, if more reasons were given than are documented, or if a constant has a yield of 1 %.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from configtron.db.store import Store
from configtron.model.errors import DONE, PARTIAL
from configtron.report.allowed_verdict import KINDS, Judged
from configtron.report.constants import THIS_RUN, beside_constants
from configtron.report.score import percent, score, share
from configtron.service.campaign.scoring import judged

# What a trouble's row of the score counts, of verdicts; and of cases.
OF_VERDICTS = ("value", "bound", "reason", "unexcused", "overclaims")
OF_CASES = ("cases", "reachable", "allowed", "answered")
# A family of reasons counts once (docs/fingerprint.md).
REASONS_MAX = 20
# A prober that looks at nothing yields less, or the yield can be gamed.
CONSTANT_MAX = 0.01


def probed(seed: int, arguments: argparse.Namespace) -> list[Judged]:
    """One run of the program, each verdict beside its truth."""
    with tempfile.TemporaryDirectory(prefix="troubles-", dir="/var/tmp") as folder:
        database = Path(folder) / "troubles.db"
        words = ["--lab", "--lab-troubles", "--seed", str(seed), "--sites", str(arguments.sites)]
        words += ["--lab-loss", str(arguments.loss)] if arguments.loss else []
        command = [sys.executable, "-m", "configtron", "--db", str(database), "-q", "probe", "alexa-top1k", *words]
        done = subprocess.run([*command, "--profile", arguments.profile, "-o", f"{folder}/out.txt"], check=False)
        # some sites answer no client
        if done.returncode not in (DONE, PARTIAL):
            raise SystemExit(done.returncode)
        with Store(database, read_only=True) as store:
            (run,) = store.runs()
            return [one._replace(trouble=one.trouble.partition(":")[0]) for one in judged(store, run)]


def line(name: str, counts: Counter[str]) -> str:
    """A row of the table."""
    columns = "".join(f"{counts[column] or '-':>11}" for column in (*OF_CASES, *OF_VERDICTS))
    return f"{name:<20}{columns}{percent(counts['answered'], counts['allowed']):>10}"


def beside(pairs: list[Judged]) -> bool:
    """Print the yields of the run and of the constant probers; whether one of those is too good."""
    probers = beside_constants(pairs)
    print("".join(f"{name:>11}" for name in KINDS).join((f"{'prober':<20}", f"{'yield':>11}{'icw, troubled':>15}")))
    for name, result in probers.items():
        shares = "".join(f"{percent(*result.answered(kind)):>11}" for kind in KINDS)
        print(f"{name:<20}{shares}{share(result.yielded):>11}{share(result.troubled.yielded):>15}")
    constants = (result for name, result in probers.items() if name != THIS_RUN)
    return any((result.yielded or 0.0) > CONSTANT_MAX for result in constants)


def main(words: list[str] | None = None) -> int:
    """Probe, count, print."""
    parser = argparse.ArgumentParser(prog="benchmarks.troubles")
    parser.add_argument("--seed", type=int, action="append", help="more than once; 1")
    parser.add_argument("--sites", type=int, default=300)
    parser.add_argument("--loss", type=float, default=0.0, help="per cent on every link, each way")
    parser.add_argument("--profile", default="standard")
    parser.add_argument("-v", action="store_true", help="also list what was left open without an excuse")
    arguments = parser.parse_args(words)
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    wrong: list[str] = []
    every: list[Judged] = []
    for seed in arguments.seed or [1]:
        pairs = probed(seed, arguments)
        every += [one._replace(host=f"{seed} {one.host}") for one in pairs]
        result = score(pairs)
        reasons.update(result.reasons)
        for row in result.troubles:
            counts = {name: getattr(row, name) for name in OF_VERDICTS} | {n: len(getattr(row, n)) for n in OF_CASES}
            for name in (row.trouble or "(none)", *(["troubles"] if row.trouble else []), "all"):
                rows[name].update(counts)
        for miss in result.mismatches:
            if arguments.v or miss.overclaim:
                found = miss.observation.reason or f"{miss.observation.text} {miss.observation.grade}"
                kind = "overclaim" if miss.overclaim else "unexcused"
                where = f"seed {seed} {miss.trouble or '(none)'} {miss.region} {miss.host} {miss.knob}"
                wrong.append(f"{kind}: {where}: {found}; true: {miss.truth}")
    print(f"{'trouble':<20}{''.join(f'{column:>11}' for column in (*OF_CASES, *OF_VERDICTS))}{'icw':>10}")
    for name in (*sorted(rows.keys() - {"(none)", "troubles", "all"}), "troubles", "(none)", "all"):
        print(line(name, rows[name]))
    print(f"{len(reasons)} reasons: {', '.join(f'{reason} {count}' for reason, count in reasons.most_common())}")
    gamed = beside(every)
    print("\n".join(sorted(wrong)), end="\n" if wrong else "")
    return 1 if rows["all"]["overclaims"] or len(reasons) > REASONS_MAX or gamed else 0


if __name__ == "__main__":
    sys.exit(main())
