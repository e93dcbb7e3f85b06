# SPDX-License-Identifier: MIT
"""The main job on a small internet: right against the truth, the same twice, whole after kills, blind to the truth."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from configtron.db.store import Store
from configtron.lab.internet import draw as internet
from configtron.lab.internet import misbehaving, truth
from configtron.lab.internet import world as worlds
from configtron.lab.uml import user_mode_linux as uml
from configtron.probe.wire.pcap import read_evidence
from configtron.report.allowed_verdict import KINDS
from configtron.report.score import Score, score
from configtron.service.campaign.runs import find_run, run_folder
from configtron.service.campaign.scoring import NOT_PROBED, judged
from tests.support.waiting import GUEST_S

LACK = uml.UmlVirtual().available()
pytestmark = [pytest.mark.lab, pytest.mark.skipif(bool(LACK), reason=LACK)]
SITES = "24"
LAB = ("probe", "alexa-top1k", "--lab", "--sites", SITES)


def configtron(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(*words), env=environment(home, **more), capture_output=True, timeout=GUEST_S)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "configtron", *words]


def environment(home: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "XDG_DATA_HOME": str(home), "NO_COLOR": "1", **more}


def scored(home: Path) -> Score:
    with Store(home / "configtron" / "configtron.db", read_only=True) as store:
        return score(judged(store, find_run(store, -1)))


def wrong(result: Score) -> list[object]:
    """Mismatches that claim something: a reason is no claim."""
    return [miss for miss in result.mismatches if miss.observation.value is not None]


def test_every_verdict_is_right_and_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    first = configtron(tmp_path / "a", *LAB, "--seed", "77", "-f", "jsonl")
    assert first.returncode == 0, first.stderr.decode()
    result = scored(tmp_path / "a")
    assert wrong(result) == []
    answered = {row.knob: [sum(counts[kind] for kind in KINDS) for counts in (row.answered, row.allowed)]
                for row in result.knobs}  # fmt: skip
    # A minimum RTO has a value only where two round trips show Linux's sum: some 0.2 s at 80 ms do not.
    del answered["min_rto"]
    assert {knob for knob, (ours, all_of_them) in answered.items() if ours < 0.9 * all_of_them} == set()
    assert len(first.stdout.splitlines()) == 5 * int(SITES)
    few = (*LAB[:-1], "6", "-f", "jsonl", "--seed")
    runs = [configtron(tmp_path / folder, *few, folder[-2:]) for folder in ("77", "another folder/77", "78")]
    one, again, other = (done.stdout for done in runs)
    assert [done.returncode for done in runs] == [0, 0, 0] and one == again != other
    assert len(one.splitlines()) == 5 * 6


def test_a_run_killed_anywhere_is_resumed_whole(tmp_path: Path) -> None:
    """SIGKILL to the whole run at random moments, until it is through: each call once, all packets there, right."""
    rng = random.Random(5)
    words = (*LAB, "--seed", "79", "--profile", "quick", "-o", str(tmp_path / "out.txt"))
    for _ in range(6):
        running = subprocess.Popen(command("-q", *words), env=environment(tmp_path), start_new_session=True)
        time.sleep(rng.uniform(0.6, 4.0))
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        words = ("probe", "--resume", "1", "-o", str(tmp_path / "out.txt"))
    done = configtron(tmp_path, "-q", *words)
    assert done.returncode == 0, done.stderr.decode()
    with Store(tmp_path / "configtron" / "configtron.db", read_only=True) as store:
        results = list(store.results(1))
        folder = run_folder(store, 1)
    assert len({result.trace_id for result in results}) == len(results)
    kept: Counter[str] = Counter()
    for file in sorted(folder.glob("lab-*/*.pcapng")):
        kept.update(trace.id for trace in read_evidence(file))
    assert kept == Counter(result.trace_id for result in results if result.frames)
    assert wrong(scored(tmp_path)) == []


def test_the_prober_cannot_read_the_truth(tmp_path: Path) -> None:
    """A worker that looks for the truth, where the host keeps it and where the guest was given it, finds nothing."""
    home, spy = tmp_path / "run", tmp_path / "spy.py"
    spy.write_text(
        "import glob, json, sys\n"
        "found = [f for folder in sys.argv[1:] for f in glob.glob(folder + '/**/*', recursive=True)]\n"
        "open('/run/output/found', 'w').write(json.dumps([f for f in found if 'truth' in f or 'world' in f]))\n"
    )
    net = internet.draw(3, ["a.example", "b.example"])
    world = home / "lab-0" / "world" / "world.json"
    world.parent.mkdir(parents=True)
    worlds.world(net).write(world)
    (home / "truth.json").write_text(truth.to_json(net))
    command = (
        sys.executable, "-m", "configtron.lab.internet.guest", "/run/output/world/world.json", "--",
        sys.executable, str(spy), str(home), "/run/world", "/run/output/world",
    )  # fmt: skip
    job = uml.GuestJob(command, home / "lab-0", 3, 0, 1024, hidden=home)
    running = uml.pick()[0].boot(job)
    assert running.wait() == 0, running.console.read_text()
    assert (home / "truth.json").exists()
    assert json.loads((home / "lab-0" / "found").read_text()) == []


@pytest.mark.proof
def test_difficult_servers_get_no_wrong_value(tmp_path: Path) -> None:
    """Impaired sites: every claim about what the servers send is true; what cannot be known has a reason."""
    words = ("--lab-troubles", "--seed", "83", "--region", "na,eu", "--tests", "icw,http,h2")
    done = configtron(tmp_path, "-q", "probe", "alexa-top1k", "--lab", "--sites", "60", *words)
    # some sites never answer
    assert done.returncode in (0, 3), done.stderr.decode()
    result = scored(tmp_path)
    odd = [row for row in result.troubles if row.trouble in misbehaving.names()]
    assert len(odd) > 12 and sum(row.overclaims for row in odd) == 0, wrong(result)
    missing = [miss for miss in result.mismatches if miss.trouble in misbehaving.names()]
    unexcused = [miss for miss in missing if miss.observation.reason not in (None, NOT_PROBED)]
    assert len(unexcused) <= 0.02 * sum(row.reason for row in odd)
