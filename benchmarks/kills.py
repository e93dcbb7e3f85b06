# SPDX-License-Identifier: MIT
"""Claim: a campaign that is killed at any moment, and resumed, measures every target once and leaves nothing behind.

    python -m benchmarks.kills [COUNT] [--jobs N]      as root; worker processes, one by default

Campaigns against a town are killed by SIGKILL and resumed, until COUNT kills have been survived: at random moments, and
in turn with that when a random amount more of evidence has been written, so that some fall deep into runs. With several
worker processes each second of those kills hits one worker alone, while the others go on. The
vantage's source address is its kernel's, so that each start adds a firewall table. After each campaign: the database is
whole, its calls are those of a campaign without an interruption, each once (`wrong_calls`); each has its packets in the
pcapng file, once; no table is left in the vantage's namespace, and no other namespace on this host.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from benchmarks.town import Town, command, dark, lit, town
from configtron.linux.netns import inside
from configtron.model.errors import DONE, PARTIAL
from configtron.probe.wire.namespaces import abandoned
from configtron.probe.wire.pcap import read_evidence

TARGETS = 120
# Every other kill comes this long after the start, s: from before the first line of Python to after the last. The
# others wait until the evidence has grown by a drawn number of bytes: they fall deep into the run, where packets,
# journal and database are being written.
KILL_WITHIN_S = 6.0
KILL_AFTER_BYTES = 150_000
LOOK_S = 0.002
WORDS = ("--profile", "quick", "--tests", "icw,signature,http", "-r", "100", "-o", "/dev/null")


def campaign(standing: Town, folder: Path, rng: random.Random, kills: int, jobs: int) -> int:
    """Begin one, kill and resume it until it is through; how many kills that took, `kills` at most."""
    begin = command(folder, standing, [dark(0), *(lit(n) for n in range(TARGETS - 1))], *WORDS, "--jobs", str(jobs))
    database = folder / "town.db"
    survived = 0
    while True:
        begun = database.exists() and bool(asked(database, "SELECT count(*) FROM run")[0][0])
        words = resumed(begin) if begun else begin
        running = subprocess.Popen(words, start_new_session=True, stderr=subprocess.DEVNULL)
        if survived < kills and _lived_until(running, folder, rng, deep=survived % 2 == 1):
            workers = children(running.pid) if survived % 4 == 3 else []
            if workers:
                os.kill(rng.choice(workers), signal.SIGKILL)
            else:
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            survived += 1
            continue
        code = running.wait()
        assert code in (DONE, PARTIAL), code
        return survived


def resumed(begin: list[str]) -> list[str]:
    """Return the words that resume the run that a command began."""
    return [*begin[:8], "--resume", "1", "-o", "/dev/null"]


def children(pid: int) -> list[int]:
    """Processes that a process has started."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _lived_until(running: subprocess.Popen[bytes], folder: Path, rng: random.Random, *, deep: bool) -> bool:
    """Wait for the moment of the kill; False if the campaign is over before it."""
    if not deep:
        try:
            running.wait(timeout=rng.uniform(0, KILL_WITHIN_S))
        except subprocess.TimeoutExpired:
            return True
        return False
    until = _written(folder) + rng.randrange(KILL_AFTER_BYTES)
    while running.poll() is None:
        if _written(folder) > until:
            return True
        time.sleep(LOOK_S)
    return False


def _written(folder: Path) -> int:
    """Bytes of evidence and journals."""
    return sum(file.stat().st_size for file in folder.glob("town.db.runs/1/*/*") if file.is_file())


def asked(database: Path, question: str) -> list[tuple[object, ...]]:
    """Rows of the database; none if it was killed before it had tables."""
    connection = sqlite3.connect(database)
    try:
        return connection.execute(question).fetchall()
    except sqlite3.OperationalError:
        return [(0,)]
    finally:
        connection.close()


def calls_of(folder: Path) -> Counter[str]:
    """Every call that the database knows, with what was found wrong with the files as calls of their own."""
    database = folder / "town.db"
    calls = Counter(str(row[0]) for row in asked(database, "SELECT trace_id FROM trace"))
    kept: Counter[str] = Counter()
    for file in folder.glob("town.db.runs/1/*/*.pcapng"):
        kept.update(trace.id for trace in read_evidence(file))
    with_packets = Counter(str(row[0]) for row in asked(database, "SELECT trace_id FROM trace WHERE frames > 0"))
    wrong = Counter({f"packets differ: {name}": 1 for name in (kept - with_packets) + (with_packets - kept)})
    (integrity,) = asked(database, "PRAGMA integrity_check")[0]
    (dangling,) = asked(database, "SELECT count(*) FROM pragma_foreign_key_check")[0]
    if integrity != "ok" or dangling:
        wrong[f"database: {integrity}, {dangling} dangling"] += 1
    return calls + wrong


def wrong_calls(found: Counter[str], wanted: Counter[str]) -> list[str]:
    """What was asked twice, not asked, asked of no target or out of turn; and faults of files and database.

    Some calls hang on what the others read (another trial, or inside TLS), and a busy host's readings are not always
    the same: they may be there or not, but a target's trials are numbered without a gap.
    """
    asked_of = Counter(call.rpartition("/")[2] for call in wanted)
    targets = {call.rpartition("/")[0] for call in wanted}
    always = {call for call in wanted if asked_of[call.rpartition("/")[2]] >= len(targets) - 1}
    wrong = [call for call, times in found.items() if times > 1 or call.rpartition("/")[0] not in targets]
    for call in found:
        probe, _, trial = call.rpartition(".")
        if trial.isdigit() and int(trial) > 1 and f"{probe}.{int(trial) - 1}" not in found:
            wrong.append(call)
    return wrong + sorted(always - set(found))


def with_own_address(standing: Town) -> Town:
    """The town, seen from the first vantage's kernel's own address, instead of one that it does not know."""
    vantage = standing.vantages[0]
    own = vantage.source_address.rpartition(".")[0] + ".2"
    return replace(standing, vantages=(replace(vantage, source_address=own),))


def left_behind(standing: Town, before: set[str]) -> list[str]:
    """Tables in the vantage's namespace, and namespaces that dead processes left since."""
    with inside(standing.vantages[0].netns):
        listed = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    return listed.stdout.splitlines() + sorted(
        p.name for p in Path("/run/netns").iterdir() if p.name not in before and abandoned(p.name)
    )


def main(count: int, jobs: int = 1) -> int:
    """Print a line a campaign; 1 if anything was measured twice, missing, damaged or left behind."""
    rng, kills, bad = random.Random(1), 0, 0
    with town() as standing:
        standing = with_own_address(standing)
        before = {path.name for path in Path("/run/netns").iterdir()}
        with tempfile.TemporaryDirectory(prefix="kills-") as name:
            campaign(standing, Path(name), rng, 0, jobs)
            wanted = calls_of(Path(name))
        print(f"uninterrupted: {len(wanted)} calls, {sum(wanted.values()) - len(wanted)} of them twice", flush=True)
        while kills < count:
            with tempfile.TemporaryDirectory(prefix="kills-") as name:
                began = time.monotonic()
                survived = campaign(standing, Path(name), rng, count - kills, jobs)
                found = calls_of(Path(name))
                left = left_behind(standing, before)
                differ = wrong_calls(found, wanted)
                kills, bad = kills + survived, bad + bool(differ) + bool(left)
                print(
                    f"{kills:4} kills; {survived} in this campaign of {time.monotonic() - began:.0f} s;"
                    f" {len(differ)} calls wrong {sorted(differ)[:3] or ''}; left behind: {left or 'nothing'}",
                    flush=True,
                )
    return 1 if bad else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    sys.exit(main(given.count, given.jobs))
