# SPDX-License-Identifier: MIT
"""Real kernels, one planted cause a conversation: its share of the time is the largest, wherever the capture stood."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from configtron.lab.uml.user_mode_linux import GuestJob, pick
from tests.support import ROOT
from tests.support.planted_slowness import PLACES, plants
from tests.support.read_capture import reports
from tests.support.waiting import GUEST_S

pytestmark = pytest.mark.lab
# All kinds but those in real time, each with one of both sides as the larger sender.
ONE = {name: plant for name, plant in plants(60) if len(plant.cause) == 1 and not plant.real}
CHOSEN = {name: plant for number, (name, plant) in enumerate(ONE.items()) if plant.upload == number % 2}


def test_planted_causes_are_named(tmp_path: Path) -> None:
    backend, _ = pick("uml-virtual")
    job = GuestJob(
        (sys.executable, "-m", "tests.support.planted_slowness", *CHOSEN), tmp_path, seed=1,
        cpu=max(os.sched_getaffinity(0)), memory_mb=512, environment=(("PYTHONPATH", str(ROOT)),), limit_s=GUEST_S,
    )  # fmt: skip
    running = backend.boot(job)
    assert running.wait(GUEST_S) == 0, running.last_words()
    found = json.loads((tmp_path / "found.json").read_text())
    for name, plant in CHOSEN.items():
        for place in PLACES:
            (one,), _ = reports(tmp_path / f"{name}.{place}.pcap")
            whole_ns = sum(share.ns for share in one.limits)
            assert whole_ns == int(one.numbers["ended"] or 0) - one.started_ns
            if place not in plant.blind:
                assert one.limits[0].limit == plant.cause[0], (name, place, one.limits)
            if place == ("client" if plant.upload else "server"):
                ours, theirs = (
                    (share.ns for share in one.limits if share.limit == "receive-window"),
                    found[name]["info"],
                )
                assert abs(sum(ours) - theirs.get("receive-window", 0) * 1e9) < 0.03 * whole_ns, (name, one.limits)
