# SPDX-License-Identifier: MIT
"""TLS turn-taking: real servers and clients over a path with a round trip, each with a known initial window.

A TLS handshake is the trap of passive windows: flights end because it is the other side's turn, certificates end in
short segments, libraries write by buffers of 4 or 16 kB, tickets come a round trip later. Each conversation is captured
at both ends, in a file of its own; each verdict on a window is held against the route's `initcwnd`. A verdict that is
exact must also have its proof in the packets, which are read here once more, by other code: the flight's segments all
of the agreed size, another of that size behind them, and no data of the client between.

    python -m benchmarks.turn_taking [--keep FOLDER] [--servers nginx,go] [--scenarios 3]
    python -m benchmarks.turn_taking --read FOLDER       captures that were kept, read once more

Needs root to record; programs that are not installed are left out. Exit code 1: a verdict was wrong, or had no proof.
exact: the window; tight: a bound that is the window; bounds: others that hold; the last row is of verdicts at A and B,
which a server's conversations make together.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import NamedTuple

from benchmarks.turns.captures import Capture, split, unproven
from benchmarks.turns.programs import CHAINS, SERVERS, Place, clients, conversation, prepared, serving
from configtron.fingerprint.merge import merge_all
from configtron.fingerprint.passive.connection_report import ConnectionReport
from configtron.model.nouns import Observation
from tests.support.impaired_path import Rig, rig
from tests.support.read_capture import reports
from tests.support.recorded_programs import wait

KNOBS = ("icw", "icw_tls", "cwnd_at_request")
# The file that says what is true of a folder's captures.
TRUTH = "truth.json"
# The row of verdicts at A or B, which several conversations with one server make.
MERGED = "merged: A, B"
VERDICT_COLUMNS = ("captures", "exact", "tight", "bounds", "reasons", "wrong", "unproven")


class Scenario(NamedTuple):
    """The server's initial window (segments), the client's MSS (bytes), half a round trip (s), how captures look."""

    window: int
    mss: int
    delay_s: float
    merged: bool = False
    loss: float = 0.0


SCENARIOS = (
    Scenario(10, 1460, 0.02), Scenario(2, 1460, 0.01), Scenario(4, 536, 0.005), Scenario(3, 1220, 0.03),
    Scenario(10, 1000, 0.002), Scenario(1, 1460, 0.02), Scenario(16, 536, 0.01), Scenario(30, 1460, 0.015),
    Scenario(10, 1460, 0.02, loss=0.02),
    Scenario(10, 1460, 0.02, merged=True), Scenario(2, 1460, 0.01, merged=True), Scenario(4, 536, 0.005, merged=True),
)  # fmt: skip


class Judged(NamedTuple):
    """One verdict of one capture: of which server, the value, and how it compares (one of `VERDICT_COLUMNS`)."""

    server: str
    scenario: Scenario
    capture: Path
    verdict: Observation
    stands: str


def judge(server: str, scenario: Scenario, capture: Capture, one: ConnectionReport) -> Iterator[Judged]:
    """Every verdict on a window that this capture gives."""
    for verdict in one.observations:
        if verdict.knob in KNOBS:
            stands = stand(verdict, scenario.window)
            if stands == "exact" and unproven(capture, verdict):
                stands = "unproven"
            yield Judged(server, scenario, capture.path, verdict, stands)


def stand(verdict: Observation, window: int) -> str:
    """One of `VERDICT_COLUMNS`."""
    if verdict.value is None:
        return "reasons"
    value = int(str(verdict.value))
    if verdict.grade == "L":
        return "wrong" if value > window else "tight" if value == window else "bounds"
    return "exact" if value == window else "wrong"


def record(stands: Rig, scenario: Scenario, place: Place, names: list[str], folder: Path, turn: Iterator[int]) -> None:
    """Have every server talk with some client, captured at both ends; what is true is written beside the captures."""
    stands.delay_s, stands.loss = scenario.delay_s, scenario.loss
    for end, words in (
        ("server", ("10.99.0.0/24", "dev", "tun0", "src", "10.99.0.2", "initcwnd", str(scenario.window))),
        ("client", ("10.99.0.0/24", "dev", "tun0", "src", "10.99.0.1", "advmss", str(scenario.mss))),
    ):
        stands.run(end, "ip", "route", "replace", *words, check=True)
    files = [folder / f"{end}.pcap" for end in ("client", "server")]
    ports: dict[int, str] = {}
    with stands.recording("client", files[0]), stands.recording("server", files[1]):
        for name in names:
            for chain in CHAINS:
                port = place.port(name, chain)
                ports[port] = name
                conversation(stands, place, port, next(turn))
    (folder / TRUTH).write_text(json.dumps({"scenario": scenario, "ports": ports}))


def run(place: Path, keep: Path, names: list[str], scenarios: tuple[Scenario, ...]) -> list[Judged]:
    """All scenarios: two rigs, one that shows single segments and one that shows super-frames."""
    found: list[Judged] = []
    turn = count()
    for merged in (False, True):
        mine = [one for one in scenarios if one.merged == merged]
        if not mine:
            continue
        with ExitStack() as stack:
            stands = stack.enter_context(rig(merged=merged, seed=5))
            for end in ("client", "server"):
                stands.run(end, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1", check=True)
            there = prepared(place, stands)
            running = serving(stands, there, names, stack)
            for name in running:
                for chain in CHAINS:
                    wait(stands, there.port(name, chain))
            for scenario in mine:
                folder = keep / f"{next(turn):03d}-icw{scenario.window}-mss{scenario.mss}"
                folder.mkdir(parents=True)
                record(stands, scenario, there, running, folder, turn)
                found += judged(folder)
    return found


def judged(folder: Path) -> Iterator[Judged]:
    """Read a scenario's captures: each by itself, then each server's together, where A and B arise."""
    truth = json.loads((folder / TRUTH).read_text())
    scenario, ports = Scenario(*truth["scenario"]), {int(port): name for port, name in truth["ports"].items()}
    for end in ("client", "server"):
        together: dict[str, list[Observation]] = defaultdict(list)
        for capture in split(folder / f"{end}.pcap"):
            ones, _ = reports(capture.path)
            for one in ones:
                if one.server.port in ports:
                    yield from judge(ports[one.server.port], scenario, capture, one)
                    together[ports[one.server.port]] += one.observations
        for observations in together.values():
            verdicts = merge_all(observations)
            for verdict in (verdicts[knob] for knob in KNOBS if knob in verdicts):
                if verdict.grade in ("A", "B"):
                    yield Judged(MERGED, scenario, folder, verdict, stand(verdict, scenario.window))


def table(found: list[Judged]) -> str:
    """A row a server program."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found:
        rows[one.server][one.stands] += 1
        rows[one.server]["captures"] += 1
        if one.server != MERGED:
            rows["all"][one.stands] += 1
            rows["all"]["captures"] += 1
    lines = [f"{'server':<16}" + "".join(f"{name:>10}" for name in VERDICT_COLUMNS)]
    for name in sorted(rows, key=lambda row: (row == MERGED, row == "all", row)):
        lines.append(f"{name:<16}" + "".join(f"{rows[name][column]:>10}" for column in VERDICT_COLUMNS))
    return "\n".join(lines)


def main() -> int:
    """Print the table; 1 if anything exact was wrong or had no proof."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="put the captures here")
    parser.add_argument("--servers", default=",".join(SERVERS), help="only these")
    parser.add_argument("--scenarios", type=int, default=len(SCENARIOS), help="only the first so many")
    parser.add_argument("--read", type=Path, help="record nothing, read the captures that were kept there")
    asked = parser.parse_args()
    if asked.read is not None:
        return printed([one for file in sorted(asked.read.glob(f"*/{TRUTH}")) for one in judged(file.parent)])
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        keep = asked.keep or Path(place) / "captures"
        found = run(Path(place), keep, asked.servers.split(","), SCENARIOS[: asked.scenarios])
        print(f"clients: {'; '.join(clients())}")
        return printed(found)


def printed(found: list[Judged]) -> int:
    """The table, and whatever is wrong; the exit code."""
    print(table(found))
    bad = [one for one in found if one.stands in ("wrong", "unproven")]
    for one in bad:
        details = json.dumps({"value": one.verdict.value, "grade": one.verdict.grade, **dict(one.verdict.details)})
        print(f"{one.stands}: {one.server} {one.scenario} {one.capture} {one.verdict.knob} {details}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
