# SPDX-License-Identifier: MIT
"""Claim: at 5 % loss each way one edge probe shows the initial window, exactly or as a bound; so do verdicts.

    python -m benchmarks.icw_loss [--seed N]... [--sites N] [--loss PERCENT]     as root

Runs the program itself over the laboratory, all regions, profile full; then reads every kept trace again, by our rule
and by two others, on the same packets: *span*, the bytes up to the first repeat over the segment size (COMSYS's zmap
modules), and *count*, the segments heard before the first repeat (a common script's). `number` is the share whose
number is right, exact or as a bound; answers shorter than the window are left out (short pages, runs that asked for an
error page in their place). Exit code 1 if an exact value is
wrong, a bound is above the truth, or the claims (98 % of edge probes, 99.5 % of verdicts) fail.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from configtron.db.store import Store
from configtron.fingerprint import icw
from configtron.model.errors import DONE, PARTIAL
from configtron.model.nouns import SYN, Observation, Trace
from configtron.probe.wire.pcap import read_evidence
from configtron.service.campaign.scoring import judged

EDGE_CLAIM, VERDICT_CLAIM = 0.98, 0.995
WORDS = ("exact", "bound =", "bound <", "none", "wrong")
Truths = dict[tuple[str, str], int]


def simple(trace: Trace) -> tuple[int, int]:
    """(span, count): what reading without proofs, holes or probes says."""
    heard: dict[int, int] = {}
    for _, packet in trace.heard():
        segment = packet.segment
        if segment.length and not segment.flags & SYN:
            if segment.seq in heard:
                break
            heard[segment.seq] = segment.seq + segment.length
    if not heard:
        return 0, 0
    mss = max(end - start for start, end in heard.items())
    return math.ceil((max(heard.values()) - 1) / mss), len(heard)


def word(seen: Observation, true: int) -> str:
    """How a reading stands to its truth."""
    if seen.value is None:
        return "none"
    value = int(str(seen.value))
    if seen.grade == "L":
        return "bound =" if value == true else "bound <" if value < true else "wrong"
    return "exact" if value == true else "wrong"


def rows(database: Path, truths: Truths) -> Iterator[tuple[str, str]]:
    """(what was tried, how it went), of every kept trace and every verdict."""
    with Store(database, read_only=True) as store:
        (run,) = store.runs()
        for region, site, knob, verdict, expected, *_ in judged(store, run):
            if knob == "icw" and not expected.bound:
                truths[region, site] = int(str(expected.values[0]))
                yield "verdict", word(verdict, truths[region, site])
    for file in sorted(Path(f"{database}.runs").rglob("*.pcapng")):
        for trace in read_evidence(file):
            region, site = trace.id.split("/")[:2]
            true = truths.get((region, site))
            if trace.probe != "icw" or true is None or trace.param("longer", False):
                continue
            kind = "edge probe" if trace.param("sack", False) else "early" if trace.param("early", False) else "timer"
            (seen,) = icw.infer(trace)
            yield kind, word(seen, true)
            for name, value in zip(("span", "count"), simple(trace), strict=True):
                yield f"{kind}: {name}", "exact" if value == true else "none" if not value else "wrong"


def measured(seed: int, sites: int, loss: float) -> Iterator[tuple[str, str]]:
    """One run of the program over the laboratory, read."""
    with tempfile.TemporaryDirectory(prefix="icw-loss-", dir="/var/tmp") as folder:
        database = Path(folder) / "loss.db"
        words = ["--lab", "--seed", str(seed), "--sites", str(sites), "--lab-loss", str(loss), "--tests", "icw"]
        command = [sys.executable, "-m", "configtron", "--db", str(database), "-q", "probe", "alexa-top1k", *words]
        done = subprocess.run([*command, "--profile", "full", "-o", f"{folder}/out.txt"], check=False)
        if done.returncode not in (DONE, PARTIAL):
            raise SystemExit(done.returncode)
        yield from rows(database, {})


def main(words: list[str] | None = None) -> int:
    """Probe, read, count, print."""
    parser = argparse.ArgumentParser(prog="benchmarks.icw_loss")
    parser.add_argument("--seed", type=int, action="append", help="more than once; 1")
    parser.add_argument("--sites", type=int, default=100)
    parser.add_argument("--loss", type=float, default=5.0, help="per cent on every link, each way")
    arguments = parser.parse_args(words)
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for seed in arguments.seed or [1]:
        for kind, how in measured(seed, arguments.sites, arguments.loss):
            table[kind][how] += 1
    print(f"{'read by':18}{'runs':>8}" + "".join(f"{name:>9}" for name in WORDS) + f"{'number':>9}")
    for kind in sorted(table):
        counts = table[kind]
        print(f"{kind:18}{counts.total():8}" + "".join(f"{counts[name]:9}" for name in WORDS) + f"{right(counts):9.2%}")
    ours = [counts for kind, counts in table.items() if ":" not in kind]
    holds = right(table["edge probe"]) >= EDGE_CLAIM and right(table["verdict"]) >= VERDICT_CLAIM
    return 0 if holds and not any(counts["wrong"] for counts in ours) else 1


def right(counts: Counter[str]) -> float:
    """The share of runs whose number is the truth."""
    return (counts["exact"] + counts["bound ="]) / max(counts.total(), 1)


if __name__ == "__main__":
    sys.exit(main())
