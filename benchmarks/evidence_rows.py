# SPDX-License-Identifier: MIT
"""The rows that `benchmarks.evidence` runs: the paper's figure, the command, and where in its output ours stands.

One row of docs/experiments.md or more have the same command; it runs once. `{folder}` is a folder of its own.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from typing import NamedTuple

Read = Callable[[str], str]
# SHORT: seconds to two minutes; LONG: minutes; LAB: boots the lab's kernel, minutes.
SHORT, LONG, LAB = "short", "long", "lab"


class PaperRow(NamedTuple):
    """One figure. `read` takes the command's output and gives ours as printed; it raises where it is not there."""

    paper: str
    what: str
    theirs: str
    command: str
    read: Read
    cost: str = SHORT


def found(pattern: str, form: str = "{}") -> Read:
    """The groups of the first match, in `form`."""

    def read(out: str) -> str:
        match = re.search(pattern, out, re.M | re.S)
        if match is None:
            raise LookupError(f"nothing like {pattern!r} in the output")
        return form.format(*match.groups())

    return read


def cell(row: str, column: str, form: str = "{:.3g}", scale: float = 1.0) -> Read:
    """A number of a study's CSV, without a place on an axis."""

    def read(out: str) -> str:
        for line in csv.DictReader(io.StringIO(out)):
            if (line["row"], line["column"], line["x"]) == (row, column, ""):
                return form.format(scale * float(line["value"]))
        raise LookupError(f"no row {row!r} with {column!r}")

    return read


def several(*parts: tuple[str, Read]) -> Read:
    """Some figures behind one another, each with its name."""
    return lambda out: ", ".join(f"{name} {read(out)}".strip() for name, read in parts)


def shares(knob: str) -> Read:
    """The largest shares of a parameter in North America, and of servers that differ elsewhere."""

    def read(out: str) -> str:
        for line in map(json.loads, out.splitlines()):
            if line.get("knob") == knob and "values" in line:
                top = ", ".join(f"{one['value']} {100 * one['share']:.1f} %" for one in line["values"][:3])
                return f"{top}; {100 * line['differing'] / max(line['compared'], 1):.1f} % differ"
        raise LookupError(f"no line about {knob}")

    return read


def study(name: str, more: str = "--tensor analytic --seeds 2 --sessions 12000") -> str:
    """A study of simulated sessions: fewer than docs/studies.md has, so that all are done in minutes."""
    return f"configtron --db {{folder}}/e.db replay study {name} {more} -f csv"


TABLE_2 = (
    "configtron --db {folder}/e.db -q probe alexa-top1k --lab --seed 1 -o {folder}/o.txt"
    " && configtron --db {folder}/e.db fingerprint diversity 1 -f jsonl"
)
SHAPES = "python -m benchmarks.simulator shapes"
TESTS = "python -m pytest -q -p no:cacheprovider"
PASSED = found(r"(\d+) passed", "{} tests pass")


def _table_2(knob: str, theirs: str) -> PaperRow:
    return PaperRow("CT Table 2", knob, theirs, TABLE_2, shares(knob), LAB)


def _median(shape: str) -> Read:
    return found(rf"^{shape} +(\d+) ", "{} ms")


ROWS = (
    _table_2("http_version", "1.1 44.3 %, h2 55.7 %; 4.7 %"),
    _table_2("h2_max_header_list_size", "16384 100 %; 0 %"),
    _table_2("h2_header_table_size", "4096 100 %; 0 %"),
    _table_2("h2_max_concurrent_streams", "100 44 %, 128 56 %; 1 %"),
    _table_2("h2_initial_window_size", "65536 71 %, 65535 15 %, >1M 14 %; 1.9 %"),
    _table_2("h2_max_frame_size", "16777215 81 %, 16384 19 %; 0 %"),
    _table_2("icw", "10 62 %, 4 20.5 %, 24 5.3 %; 6.9 %"),
    _table_2("synack_rto", "0.3 s 9.2 %, 1 s 82.6 %, 3 s 8.2 %; 2.3 %"),
    _table_2("rwin", "29200 57.4 %, 14600 8.2 %, 42780 6.8 %; 3.6 %"),
    PaperRow("CT Table 1", "knobs", "768 configurations", f"{TESTS} tests/test_knobs.py", PASSED),
    PaperRow("CT Table 3", "the six calls", "-", f"{TESTS} tests/tune/test_profiles.py", PASSED),
    PaperRow("CT 4, 5", "the ensemble", "4 samples, 7 tested, 5 %, 80",
        f"{TESTS} tests/learner/test_ensemble.py", PASSED),
    PaperRow("CT 6.2", "75th percentile of round trips", "34 ms FCC, CAIDA; > 100 ms Pantheon, MAWI",
        f"{TESTS} tests/studies/test_analytic.py -k round_trips", PASSED),
    PaperRow("CT 6", "Default's median page load time (put in)", "Pantheon 2.6 s, MAWI 4.7 s, FCC 2.5 s, CAIDA 2.5 s",
        SHAPES, several(*((name, _median(name)) for name in ("pantheon", "mawi", "fcc", "caida")))),
    PaperRow("CT Fig. 6b", "arms from update 100 on", "GP falls, tree rises", study("arms", "--seeds 2"),
        several(("gp", cell("gp", "updates 100 on", "{:.2f}")), ("tree", cell("tree", "updates 100 on", "{:.2f}")))),
    PaperRow("CT Fig. 9", "excess at the median without congestion control, ICW, HTTP version", "in this order",
        study("knobs"), several(*((name, cell(knob, "median excess", "{:.3f}")) for name, knob in (
            ("congestion control", "tcp_congestion_control"), ("ICW", "initcwnd"), ("HTTP", "http_version"))))),
    PaperRow("CT 4", "configurations tried until near the best", "a hypercube needs 2 to 3 times fewer",
        study("starts"),
        several(("hypercube", cell("lhc", "mean tried")), ("random", cell("random", "mean tried")))),
    PaperRow("CT 6", "space that BO per client tests", "> 90 %, without reaching its goal", study("explored"),
        cell("per client", "median share tested", "{:.1f} %", 100.0)),
    PaperRow("CT 4", "cross-validated accuracy on networks seen", "SVM 93.3, tree 95.6, forest 96.1 %", study("trees"),
        several(*((name, cell(f"{row}, best of its class and site", "seen", "{:.1f} %", 100.0)) for name, row in (
            ("SVM", "SVM"), ("tree", "decision tree"), ("forest", "random forest"))))),
    PaperRow("CT 4, 6", "moved clients that are noticed", "no latency given", study("drift"),
        several(("", found(r"share of moved clients noticed,,([0-9.]+)", "share {}")),
                ("median sessions until", found(r"median sessions until,,([0-9.]+)")))),
    PaperRow("CT Fig. 8", "distance at the 95th percentile, all features and latency alone", "latency is the base",
        study("features"), several(("all", cell("configtron, all features", "p95 distance")),
                                   ("latency", cell("configtron, latency alone", "p95 distance")))),
    PaperRow("CT 4", "classes that evolve from 20", "in words", study("classes"),
        found(r"evolving.*?,,([0-9.]+)"), LONG),
    PaperRow("CT Figs 1, 4, 5", "ConfigTron's gain at the median", "Pantheon 19, MAWI 16, FCC 11.2, CAIDA 10.1 %",
        study("gains", "--seeds 3"), several(*((name, cell(f"{name} configtron", "median gain", "{:.1f} %", 100.0))
                                               for name in ("pantheon", "mawi", "fcc", "caida"))), LONG),
    PaperRow("CT Figs 1, 4, 5", "the oracle's gain at the median", "8 to 18 %",
        study("gains", "--seeds 3"), several(*((name, cell(f"{name} optimal", "median gain", "{:.1f} %", 100.0))
                                               for name in ("pantheon", "mawi", "fcc", "caida"))), LONG),
    PaperRow("CT 6.4.1", "a global manager's gain in the tail (17 % overlap is put in)", "below 2 %",
        study("managers", "--seeds 3"), cell("configtron, global against local", "tail gain", "{:.1f} %", 100.0), LONG),
    PaperRow("CT 6.1", "16 M sessions under a fixed policy", "about 16 M sessions",
        "python -m benchmarks.simulator speed 1 0", found(r"^default +.*?; (\d+ s for 16 M)"), LONG),
    PaperRow("CT 6", "the update's cost", "10 k sessions in about 2 min", "python -m benchmarks.learner peers thompson",
        found(r"^thompson +\S+ +\S+ +\S+ +(\S+)", "{} s"), LONG),
    PaperRow("-", "replays in which 95 % intervals hold the truth", "-", "python -m benchmarks.offpolicy",
        found(r"([^\n]*%[^\n]*)"), LONG),
    PaperRow("CT 6", "distance from the best by policy", "Figs 4 to 6", 
        "python -m benchmarks.sealed --folder {folder}/sealed --seed 1 --only 'analytic 1'",
        found(r"^\| thompson \| (\d+) ", "{} ms over the best"), LONG),
    PaperRow("ALN", "forged traffic moves the windows of others a little", "-",
             f"{TESTS} tests/learner/test_forged_traffic.py", PASSED),
    PaperRow("ALN", "connections decided by the kernel at 5 000 a second", "10 %",
             "python -m benchmarks.agent_cost", found(r"^decided: (\d+ of \d+) connections"), LONG),
    PaperRow("-", "outside bandits on the same sessions", "-", "python -m benchmarks.learner peers",
        found(r"^vw squarecb +([^\n]+)"), LONG),
    PaperRow("CT 6", "what slow_start_after_idle does where nothing rests", "left out of the tensor",
        "python -m benchmarks.dead_knobs", found(r"tcp_slow_start_after_idle 1 or 0: (\d+ of \d+ cells identical)"),
        LAB),
    PaperRow("CT 6.4.3", "set-up time under the eBPF driver at 100 000 prefixes, p50",
        "no latency, < 1 % CPU; LD_PRELOAD +2.2 %, a VM each +20 %", "python -m benchmarks.tune ebpf",
        found(r"^ebpf +100000 +\S+ \[[^]]*\] +(\S+) "), LAB),
    PaperRow("CT Fig. 7", "cases with Jain's index above 0.95", "> 50 %, > 90 % without BBR",
        "configtron replay study fairness", found(r"(\d+ %)"), LAB),
    PaperRow("PN 5.2", "replication error", "within 17 %, 14.4 % on one path",
        "configtron replay study calibration", found(r"([0-9.]+ %)"), LAB),
)  # fmt: skip
