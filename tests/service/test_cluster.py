# SPDX-License-Identifier: MIT
"""A campaign on a real Dask cluster, whose workers are processes in namespaces as regions: the same verdicts as one
process, whichever is killed and comes back; rates and opt-outs over all workers; strangers refused."""

from __future__ import annotations

import csv
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from configtron.model.errors import DONE, INTERRUPTED, PARTIAL, REFUSED, USAGE
from configtron.model.nouns import Target
from configtron.probe.wire.listing import listed
from tests.support.children import child
from tests.support.cluster_regions import LIT, Regions, cluster_regions, lit
from tests.support.syn_arrivals import fullest_second, syn_arrivals
from tests.support.waiting import PATIENCE_S, until

pytest.importorskip("distributed")
pytestmark = [pytest.mark.root]

NAMES = ("eu", "na")
# Targets of a part, connections to each, and how many of a part's are stored when its worker is killed.
PART, CALLS = 15, 4
MOST_OF_PART, MANY_OF_PART = 48, 36
RATE = 40
# Linux's initial window, in segments.
WINDOW = 10
# Arrivals that a busy machine may hold up into another second.
BUSY = 4
LIMITS = ("--allow", LIT, "-r", str(RATE), "--per-host-rate", "0", "--per-network-rate", "0", "--profile", "quick",
          "--tests", "icw,http")  # fmt: skip


@pytest.fixture(scope="module")
def regions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Regions]:
    with cluster_regions(NAMES, tmp_path_factory.mktemp("cluster")) as made:
        yield made


def campaign(regions: Regions, db: Path, targets: list[str], *more: str) -> list[str]:
    """The command that probes these addresses from all regions by the cluster; its files lie beside the database."""
    (db.parent / "targets.txt").write_text("".join(f"{address}\n" for address in targets))
    (db.parent / "vantages.toml").write_text("".join(f'[[vantage]]\nname = "{name}"\n' for name in NAMES))
    words = ["-i", str(db.parent / "targets.txt"), "--vantages", str(db.parent / "vantages.toml")]
    cluster = ["--cluster", regions.scheduler, "--shard-targets", str(PART), "-f", "csv", "-o", str(db.parent / "out")]
    return regions.probe(db, *words, *LIMITS, *cluster, *more)


def asked(db: Path, question: str) -> list[tuple[object, ...]]:
    if not db.exists():
        return []
    connection = sqlite3.connect(f"{db.as_uri()}?mode=ro", uri=True)
    try:
        return connection.execute(question).fetchall()
    except sqlite3.OperationalError:
        return []
    finally:
        connection.close()


def calls(db: Path, vantage: str = "") -> int:
    """Return how many connections are stored, of one vantage or of all."""
    return len(asked(db, f"SELECT 1 FROM trace WHERE frames > 0 AND vantage LIKE '{vantage or '%'}'"))


def ended(db: Path, vantage: int) -> int:
    """Return how many targets are done from the vantage of that number."""
    marks = (db.with_name(f"{db.name}.runs") / "1" / "here" / "ended").read_bytes().split()
    return sum(1 for mark in marks if int(mark, 16) % len(NAMES) == vantage)


def joined(regions: Regions, disk: str) -> bool:
    log = regions.folder / f"worker-{disk}.log"
    return log.exists() and "Registered to" in log.read_text()


def verdicts(path: Path) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Verdicts of a CSV by target, vantage and parameter; without those that are times, which differ in each run, and
    initial windows, whose proofs hang on times."""
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["unit"] not in ("s", "segments")]
    return {(row["host"], row["vantage"], row["knob"]): (row["value"], row["reason"]) for row in rows}


def windows(path: Path) -> dict[tuple[str, str], int]:
    """Initial windows, or the least that they can be, of the targets that showed any."""
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["knob"] == "icw" and row["value"]]
    return {(row["host"], row["vantage"]): int(row["value"].removeprefix(">= ")) for row in rows}


def of_one_process(regions: Regions, folder: Path, targets: list[str]) -> Path:
    """The database of the same campaign by one process."""
    places = [f'[[vantage]]\nname = "{one.name}"\nnetns = "{one.netns}"\n' for one in regions.all]
    (folder / "vantages.toml").write_text("".join(places))
    words = ["--vantages", str(folder / "vantages.toml"), *LIMITS, "-f", "csv", "-o", str(folder / "out"), *targets]
    command = [sys.executable, "-m", "configtron", "--db", str(folder / "one.db"), "-q", "probe", "run", *words]
    assert subprocess.run(command, check=False, timeout=PATIENCE_S).returncode == DONE
    return folder / "one.db"


def test_a_killed_worker_and_a_lost_region_lose_nothing_and_change_no_verdict(regions: Regions, tmp_path: Path) -> None:
    targets = [lit(n) for n in range(30)]
    eu, na = regions.all
    db = tmp_path / "all" / "cluster.db"
    db.parent.mkdir()
    with ExitStack() as stack, syn_arrivals(regions.hub, "198.19.") as arrivals:
        first = [stack.enter_context(regions.worker(region)) for region in (eu, na)]
        until(lambda: all(joined(regions, name) for name in NAMES))
        running = stack.enter_context(child(campaign(regions, db, targets), env=regions.environment(), cwd=tmp_path))
        # most of a part's calls are stored: one that was begun from its beginning would show
        until(lambda: calls(db, "eu") >= MOST_OF_PART)
        first[0].kill()  # its machine comes back, with its disk
        first[0].wait()
        stack.enter_context(regions.worker(eu))
        until(lambda: calls(db, "na") >= CALLS * PART + MANY_OF_PART)
        first[1].kill()  # its region has no worker for a while; then another machine stands there
        first[1].wait()
        until(lambda: ended(db, 0) == len(targets))
        stack.enter_context(regions.worker(na, "na-other"))
        assert running.wait(PATIENCE_S) == DONE
    one = tmp_path / "one"
    one.mkdir()
    alone = of_one_process(regions, one, targets)
    found = verdicts(db.parent / "out")
    assert found == verdicts(one / "out") and len({(host, vantage) for host, vantage, _ in found}) == 60
    seen, expected = windows(db.parent / "out"), windows(one / "out")
    for found_windows in (list(seen.values()), list(expected.values())):
        assert max(found_windows) == WINDOW and found_windows.count(WINDOW) > len(targets)
    # a window over TLS is asked for where a page showed none, which hangs on times
    kinds = "SELECT DISTINCT vantage, site, probe FROM trace WHERE probe != 'icw_tls' ORDER BY 1, 2, 3"
    assert asked(db, kinds) == asked(alone, kinds)
    # asked again is what was in flight with a kill, or unsent for a moment
    flows = {arrival[1:] for arrival in arrivals}
    assert calls(db) <= len(flows) < calls(db) + MOST_OF_PART + MANY_OF_PART
    assert fullest_second([arrival.at for arrival in arrivals]) <= RATE + BUSY
    evidence_is_whole(db)


def evidence_is_whole(db: Path) -> None:
    """Every call's packets lie where its row says, in a readable file."""
    from configtron.probe.wire.pcap import read_evidence

    folder = db.with_name(f"{db.name}.runs") / "1"
    question = "SELECT trace_id, evidence_file, evidence_offset, evidence_end FROM trace WHERE frames > 0"
    for name, file, offset, end in asked(db, question):
        (trace,) = read_evidence(folder / str(file), offset=int(str(offset)), end=int(str(end)))
        assert trace.id == name


def test_who_opts_out_during_a_run_is_met_by_no_worker(regions: Regions, tmp_path: Path) -> None:
    db, opted_out = tmp_path / "r.db", tmp_path / "opt-out.txt"
    opted_out.write_text("")
    command = campaign(regions, db, [lit(n) for n in range(100, 145)], "--opt-out-file", str(opted_out))
    listing = tmp_path / "r.db.runs" / "1" / "here" / "targets.jsonl"
    with ExitStack() as stack, syn_arrivals(regions.hub, "198.19.") as arrivals:
        for region in regions.all:
            stack.enter_context(regions.worker(region))
        running = stack.enter_context(child(command, env=regions.environment(), cwd=tmp_path))
        until(lambda: calls(db) > 10)
        last: list[Target] = list(listed(listing))[-PART:]
        opted_out.write_text("".join(f"{target.host}\n" for target in last))
        assert running.wait(PATIENCE_S) == PARTIAL
    out = {target.address for target in last}
    assert not [arrival for arrival in arrivals if arrival.target in out]
    blocked = asked(db, "SELECT DISTINCT vantage, address FROM trace WHERE ending = 'blocked'")
    assert set(blocked) == {(name, address) for name in NAMES for address in out}


def test_an_interrupted_run_is_resumed_and_ended_by_the_cluster(regions: Regions, tmp_path: Path) -> None:
    db = tmp_path / "r.db"
    command = campaign(regions, db, [lit(n) for n in range(200, 215)])
    with ExitStack() as stack:
        for region in regions.all:
            stack.enter_context(regions.worker(region))
        running = stack.enter_context(child(command, env=regions.environment(), cwd=tmp_path))
        until(lambda: calls(db) > 20)
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == INTERRUPTED
        stored = {row[0] for row in asked(db, "SELECT id FROM trace")}
        again = regions.probe(db, "--resume", "1", "-f", "csv", "-o", str(tmp_path / "out"))
        done = subprocess.run(again, env=regions.environment(), cwd=tmp_path, check=False, timeout=PATIENCE_S)
    assert done.returncode == DONE and ended(db, 0) == ended(db, 1) == 15 and calls(db) >= 15 * 2 * CALLS
    assert stored < {row[0] for row in asked(db, "SELECT id FROM trace")}


def test_two_workers_of_a_region_share_the_rate_of_an_address(regions: Regions, tmp_path: Path) -> None:
    """Names of several parts have one address: it meets one rate, of all workers together."""
    rate, eu = 4, regions.all[0]
    names = [f"{lit(300)},h{number}.example,," for number in range(12)]
    slow = ("--region", "eu", "--shard-targets", "3", "--per-host-rate", str(rate))
    with ExitStack() as stack, syn_arrivals(regions.hub, "198.19.") as arrivals:
        for disk in ("eu", "eu-two"):
            stack.enter_context(regions.worker(eu, disk))
        command = campaign(regions, tmp_path / "r.db", names, *slow)
        done = subprocess.run(command, env=regions.environment(), cwd=tmp_path, check=False, timeout=PATIENCE_S)
    assert done.returncode == DONE and len(arrivals) >= len(names) * CALLS
    assert fullest_second([arrival.at for arrival in arrivals]) <= rate + rate // 2


def refused(regions: Regions, tmp_path: Path, *more: str) -> tuple[int, str]:
    """The exit code and complaint of a campaign that sends nothing."""
    db = tmp_path / "r.db"
    with syn_arrivals(regions.hub, "198.19.") as arrivals:
        command = campaign(regions, db, [lit(1)], *more)
        done = subprocess.run(command, env=regions.environment(), cwd=tmp_path, capture_output=True, text=True,
                              check=False, timeout=PATIENCE_S)  # fmt: skip
    assert arrivals == [] and calls(db) == 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("configtron:")]
    return done.returncode, line


def test_a_worker_of_another_version_is_refused(regions: Regions, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import configtron\nconfigtron.__version__ = '0.0.9'\n")
    eu, na = regions.all
    with regions.worker(eu, "old", site=tmp_path), regions.worker(na):
        until(lambda: joined(regions, "old"))
        code, line = refused(regions, tmp_path, "--region", "eu")
    assert code == REFUSED and "a worker in region 'eu' has configtron 0.0.9, the campaign " in line


def test_a_region_without_a_worker_is_named(regions: Regions, tmp_path: Path) -> None:
    with regions.worker(regions.all[0], "alone"):
        until(lambda: joined(regions, "alone"))
        code, line = refused(regions, tmp_path)
    assert code == USAGE and "in region 'na'" in line and "--resources region:na=1" in line


def test_a_scheduler_without_tls_is_not_spoken_to(regions: Regions, tmp_path: Path) -> None:
    code, line = refused(regions, tmp_path, "--cluster", regions.scheduler.replace("tls:", "tcp:"))
    assert code == USAGE and "without TLS anyone may run code" in line
