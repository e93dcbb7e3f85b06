# SPDX-License-Identifier: MIT
"""Datagrams in a guest: the library and the kernel's echo do what Python does, packet by packet."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from configtron.lab.testbed import player
from configtron.lab.uml.kernel import cache_folder
from configtron.lab.uml.user_mode_linux import GuestJob, UmlVirtual
from tests.support import ROOT
from tests.support.datagram_guest import LOADS, MBIT, RUNS, WAY_MS
from tests.support.waiting import GUEST_S

pytestmark = [pytest.mark.root, pytest.mark.lab]
SECONDS = 2.0
# Two clocks read, timers rounded to a microsecond and 50 us late: what the plain loop may differ by, in seconds.
READING_S = 2e-4
PACKET_S = 12e-3 / MBIT

Logs = dict[tuple[str, str], dict[str, NDArray[np.float64]]]


def logs_in(folder: Path) -> Logs:
    backend = UmlVirtual()
    if reason := backend.available():
        pytest.skip(reason)
    words = (sys.executable, "-m", "tests.support.datagram_guest", str(player.program()), str(SECONDS), *RUNS)
    environment = (("PYTHONPATH", str(ROOT)), ("XDG_CACHE_HOME", str(cache_folder().parent)))
    running = backend.boot(GuestJob(words, folder, seed=1, cpu=max(os.sched_getaffinity(0)), environment=environment))
    assert running.wait(GUEST_S) == 0, running.console.read_text() + running.last_words()
    return {(kind, load): dict(np.load(folder / f"{kind}-{load}.npz")) for kind in RUNS for load in LOADS}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return logs_in(tmp_path_factory.mktemp("datagrams"))


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("kind", ["library", "echo"])
def test_the_library_does_what_python_does(found: Logs, kind: str, load: str) -> None:
    plain, ours = found["plain", load], found[kind, load]
    assert ours["sent"] == plain["sent"] and len(ours["at_s"]) == len(plain["at_s"]) > 500
    for name in ("at_s", "rtt_s", "lost_at_s"):
        assert ours[name] == pytest.approx(plain[name], abs=READING_S), name


def test_the_loads_are_what_they_are_called(found: Logs) -> None:
    window, overflow, paced, lossy = (found["echo", load] for load in LOADS)
    assert len(window["lost_at_s"]) == 0 and window["rtt_s"][30:] == pytest.approx(2e-3 * WAY_MS, abs=PACKET_S)
    assert len(overflow["lost_at_s"]) > 20 and overflow["rtt_s"].max() > 2e-3 * WAY_MS + 55 * PACKET_S
    assert paced["sent"] == pytest.approx(15.0 / MBIT * SECONDS / PACKET_S, abs=3) and len(paced["lost_at_s"]) == 0
    assert 2 < len(lossy["lost_at_s"]) < 0.05 * lossy["sent"]


def test_the_same_seed_gives_the_same_log(found: Logs, tmp_path: Path) -> None:
    again = logs_in(tmp_path)
    assert all(np.array_equal(again[key][name], found[key][name]) for key in found for name in found[key])
