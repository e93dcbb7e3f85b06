# SPDX-License-Identifier: MIT
"""A campaign's own evidence, read as a foreign capture, says what its scripts' traces say: every reading of TCP."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.fingerprint import read
from configtron.model.errors import DONE, PARTIAL
from configtron.probe.wire.pcap import read_evidence
from tests.support.read_capture import reports

pytestmark = pytest.mark.lab
# Probes whose conversations are like those of ordinary clients; the others' questions no client asks.
PROBES = ("icw", "rto", "rwin", "signature")
# What is only read of a capture where an answer can be had without asking.
APART = ("http", "h2", "tls")


def test_evidence_is_read_as_any_capture_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    words = ["alexa-top1k", "--lab", "--seed", "3", "--sites", "4", "--save-pcap", str(tmp_path / "packets")]
    assert run(["-q", "probe", *words, "-f", "jsonl", "-o", str(tmp_path / "records")]) in (DONE, PARTIAL)
    compared: Counter[str] = Counter()
    for path in sorted((tmp_path / "packets").rglob("*.pcapng")):
        found, _ = reports(path)
        by_start = {one.started_ns: {o.knob: o for o in one.observations} for one in found}
        for trace in read_evidence(path):
            if trace.probe not in PROBES or not trace.packets:
                continue
            mine = by_start[trace.started_at + round(trace.packets[0].at * 1e9)]
            for live in read(trace):
                if live.value is None or live.knob.startswith(APART):
                    continue
                other = mine.get(live.knob)
                assert other is not None, (trace.id, live)
                # A kernel pushes a segment of a long write too, where half of the largest window is full: a bound then.
                pushed = (other.grade, other.detail("proof")) == ("L", "server-paced")
                wanted = live.value, "L" if pushed else live.grade
                assert (other.value, other.grade) == wanted, (trace.id, live, other)
                compared[live.knob] += not pushed
    assert min(compared[knob] for knob in ("icw", "data_rto", "synack_rto", "rwin", "signature")) >= 4, compared
