# SPDX-License-Identifier: MIT
"""A shard against real servers: everything asked once, whatever interrupts it; no target asked that may not be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from configtron.fingerprint.merge import merge_all
from configtron.model.nouns import Target, Vantage
from configtron.model.records import Result
from configtron.probe.targets import Source
from configtron.probe.wire.journal import JOURNAL, journal
from configtron.probe.wire.pcap import read_evidence
from configtron.probe.wire.shard import Shard, perform, shard_from_json
from tests.support.servers import raised

SHARD = Shard(
    name="here", targets=(), vantages=(), tests=("http", "icw", "rwin", "signature"), profile="quick", rate=0,
    host_rate=0, network_rate=0, concurrency=10, seed=1, agent="test", first_port=61000, last_port=61999,
)  # fmt: skip


def test_a_shard_survives_its_json() -> None:
    lists: dict[str, Any] = {"blocked": (Source("f", "10.0.0.1"),), "allowed": ()}
    shard = replace(SHARD, targets=(Target("a.example"),), vantages=(Vantage("x", "X"),), **lists)
    assert shard_from_json(shard.to_json()) == shard and json.loads(shard.to_json())["name"] == "here"


@pytest.mark.root
def test_interrupted_anywhere_each_call_is_made_once(tmp_path: Path) -> None:
    with raised(["nginx", "apache"]) as standing:
        shard = replace(SHARD, targets=tuple(standing.clear), vantages=(standing.vantage,), special=False)
        for _ in range(2):
            batches = iter((True, False))

            def interrupts(results: Sequence[Result], batches: Iterator[bool] = batches) -> None:
                if not next(batches):
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                perform(shard, tmp_path / "here", interrupts)
            with (tmp_path / "here" / JOURNAL).open("ab") as file:
                file.write(b'{"half a line')
            with (tmp_path / "here" / "host.pcapng").open("ab") as file:
                file.write(b"\x06\x00\x00\x00half a packet")
        fresh: list[Result] = []
        perform(shard, tmp_path / "here", fresh.extend)
        again: list[Result] = []
        perform(shard, tmp_path / "here", again.extend)
    assert fresh and not again
    results = list(journal(tmp_path / "here"))
    assert len({result.trace_id for result in results}) == len(results)
    kept = Counter(trace.id for trace in read_evidence(tmp_path / "here" / "host.pcapng"))
    assert kept == Counter(result.trace_id for result in results if result.frames)
    for target in standing.clear:
        verdicts = merge_all(o for r in results if r.target.host == target.host for o in r.observations)
        # A bound where a busy machine answered later than exactness allows; this is about calls, not about grades.
        assert verdicts["icw"].value == 10 and verdicts["icw"].grade in "BCL"


@pytest.mark.root
def test_special_addresses_are_not_asked_unless_allowed(tmp_path: Path) -> None:
    with raised(["nginx"]) as standing:
        shard = replace(SHARD, targets=tuple(standing.clear), vantages=(standing.vantage,), tests=("signature",))
        perform(shard, tmp_path / "blocked")
        address = standing.clear[0].address
        allowed = replace(shard, allowed=(Source("allowed.txt", address),))
        perform(allowed, tmp_path / "allowed")
        perform(replace(allowed, blocked=(Source("opt-out.txt", address),)), tmp_path / "out")
    assert [r.observations[0].reason for r in journal(tmp_path / "blocked")] == ["blocked"]
    assert [r.observations[0].reason for r in journal(tmp_path / "out")] == ["blocked"]
    assert any(o.knob == "signature" and o.value for r in journal(tmp_path / "allowed") for o in r.observations)
