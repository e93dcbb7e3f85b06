# SPDX-License-Identifier: MIT
"""Connections of the pump to real kernels, and what is left of them on disk."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from configtron.model.nouns import Target, Vantage
from configtron.probe.wire.flow import Recording
from configtron.probe.wire.pcap import EvidenceWriter
from configtron.probe.wire.pump import Pump
from tests.support.waiting import PATIENCE_S

PORTS = range(10000, 30000)


def pump_at(vantage: Vantage) -> Pump:
    return Pump([vantage], ports=PORTS, seed=1, agent="test")


def begin(pump: Pump, vantage: Vantage, name: str, target: Target, probe: str, **params: Any) -> None:
    pump.begin(vantage.name, name, target, probe, tuple(sorted(params.items())))


def finish(pump: Pump, count: int) -> list[Recording]:
    done: list[Recording] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(done) < count and time.monotonic() < deadline:
        done += pump.poll(1.0)
    assert len(done) == count
    return sorted(done, key=lambda r: r.trace.id)


def pumped(vantage: Vantage, calls: Iterable[tuple[str, Target, str, dict[str, Any]]]) -> list[Recording]:
    """Return the recordings of all calls (name, target, probe, parameters) at once, by name."""
    with pump_at(vantage) as pump:
        count = 0
        for name, target, probe, params in calls:
            begin(pump, vantage, name, target, probe, **params)
            count += 1
        return finish(pump, count)


def stored(path: Path, recordings: Iterable[Recording]) -> Path:
    writer = EvidenceWriter(path)
    for recording in recordings:
        writer.append(recording)
    writer.close()
    return path


def in_namespace(netns: str, *words: str) -> str:
    done = subprocess.run(["ip", "netns", "exec", netns, *words], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout
