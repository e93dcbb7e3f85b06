# SPDX-License-Identifier: MIT
"""A run in several processes against real servers: the verdicts of one process, each call once, killed or not."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.fingerprint.merge import merge_all
from configtron.model.errors import BadInput
from configtron.model.nouns import Vantage
from configtron.model.records import Result
from configtron.probe.wire.pcap import read_evidence
from configtron.probe.wire.shard import TARGETS
from configtron.service import campaign
from configtron.service.campaign.layout import load_layout
from configtron.service.campaign.tally import RunProgress
from configtron.service.progress import Event
from tests.support.servers import Raised, raised

SERVERS = ("nginx", "apache", "h2o", "caddy", "haproxy")


def options_of(standing: Raised, folder: Path, **more: object) -> campaign.ProbeOptions:
    """A run against the servers, from their vantage."""
    vantage, file = standing.vantage, folder / "vantages.toml"
    words = "\n".join(f'{name} = "{getattr(vantage, name)}"' for name in Vantage.__slots__)
    file.write_text(f"[[vantage]]\n{words}\n")
    options = campaign.ProbeOptions(
        words=tuple(target.address for target in standing.clear), vantages=file, profile="quick",
        tests=("icw", "signature", "http"), rate_per_s=0, host_rate_per_s=0, network_rate_per_s=0,
        allow=tuple(target.address for target in standing.clear),
    )  # fmt: skip
    return replace(options, **more)  # type: ignore[arg-type]


def results(db: Path) -> list[Result]:
    with campaign.open_runs(db) as store:
        return list(store.results(1))


def verdicts(found: list[Result]) -> dict[tuple[str, str], object]:
    """What is known of each server and parameter, but for windows: of a busy machine they may be bounds."""
    sites = {result.site for result in found}
    return {
        (site, knob): verdict.value
        for site in sites
        for knob, verdict in merge_all(o for r in found if r.site == site for o in r.observations).items()
        if knob in ("signature", "http_clear", "http_version", "effective_mss", "synack_window")
    }


@pytest.mark.root
def test_the_verdicts_are_those_of_one_process(tmp_path: Path) -> None:
    with raised(SERVERS) as standing:
        options = options_of(standing, tmp_path)
        alone = campaign.run(options, tmp_path / "alone.db")
        together = campaign.run(replace(options, jobs=3), tmp_path / "together.db")
    assert (alone.status, together.status) == ("done", "done")
    found = results(tmp_path / "together.db")
    assert verdicts(found) == verdicts(results(tmp_path / "alone.db")) and len(verdicts(found)) > len(SERVERS)
    shards, size = load_layout(together.folder, 1)
    dealt = [(together.folder / shard.name / TARGETS).read_text().splitlines() for shard in shards]
    assert size == len(SERVERS) == len({line for lines in dealt for line in lines})
    assert list(map(len, dealt)) == [2, 2, 1]
    ports = [range(shard.first_port, shard.last_port + 1) for shard in shards]
    assert not any(set(one) & set(other) for one, other in zip(ports, ports[1:], strict=False))
    assert len({result.evidence_file for result in found if result.frames}) == 3


@pytest.mark.root
def test_a_worker_that_is_killed_leaves_its_targets_to_resume(tmp_path: Path) -> None:
    notices: list[str] = []
    killed: list[int] = []

    def kill_one(event: Event) -> None:
        if isinstance(event, RunProgress):
            if event.calls >= 3 and not killed:
                killed.append(children()[0])
                os.kill(killed[0], signal.SIGKILL)
        else:
            notices.append(event.what)

    db = tmp_path / "runs.db"
    with raised(SERVERS) as standing:
        # So slow that there are calls to come when the first ones are reported.
        options = options_of(standing, tmp_path, jobs=2, rate_per_s=4.0)
        begun = campaign.run(options, db, progress=kill_one)
        assert begun.cancelled and killed and not children()
        assert any("was killed by signal 9" in notice for notice in notices), notices
        done = campaign.run(replace(options, resume=1), db)
        assert done.status == "done"
    found = results(db)
    assert {result.site for result in found} == set(options.words)
    kept = Counter(trace.id for file in done.folder.glob("*/*.pcapng") for trace in read_evidence(file))
    assert kept == Counter(result.trace_id for result in found if result.frames)
    assert set(kept.values()) == {1}


@pytest.mark.root
def test_a_cancelled_run_ends_its_workers(tmp_path: Path) -> None:
    events: list[Event] = []

    def calls() -> int:
        return max((event.calls for event in events if isinstance(event, RunProgress)), default=0)

    with raised(SERVERS) as standing:
        options = options_of(standing, tmp_path, jobs=2, rate_per_s=4.0)
        ended = campaign.run(options, tmp_path / "runs.db", progress=events.append, cancelled=lambda: calls() >= 3)
        assert ended.cancelled and not children()
        assert campaign.run(replace(options, resume=1), tmp_path / "runs.db").status == "done"
    found = results(tmp_path / "runs.db")
    assert len({result.trace_id for result in found}) == len(found) > calls()


@pytest.mark.root
def test_the_error_of_a_worker_is_that_of_the_run(tmp_path: Path) -> None:
    with raised(SERVERS[:1]) as standing:
        options = options_of(standing, tmp_path, jobs=2)
        layout = campaign.run(options, tmp_path / "runs.db").folder / "targets.json"
        form = json.loads(layout.read_text())
        form["shards"][1] = form["shards"][1].replace(f'"{standing.vantage.interface}"', '"gone"')
        layout.write_text(json.dumps(form))
        with pytest.raises(BadInput, match="'gone'"):
            campaign.run(replace(options, resume=1), tmp_path / "runs.db")
        assert not children()


def test_workers_are_not_for_the_lab() -> None:
    with pytest.raises(BadInput, match="--jobs"):
        campaign.ProbeOptions(words=("alexa-top1k",), lab=True, jobs=2)
    with pytest.raises(BadInput, match="jobs"):
        campaign.ProbeOptions(words=("192.0.2.1",), jobs=0)


def children() -> list[int]:
    """Processes of ours that are workers."""
    pids = [int(word) for task in Path("/proc/self/task").iterdir() for word in (task / "children").read_text().split()]
    return [pid for pid in pids if b"wire.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]
