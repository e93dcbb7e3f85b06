# SPDX-License-Identifier: MIT
"""The same shards on a Dask cluster, here one in this process: the same bytes, and failures reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.lab.testbed import cluster
from configtron.lab.testbed.cluster import perform_away
from configtron.model.errors import DONE, BadInput, Missing
from tests.cli.test_learn_measure import SMALL, measured
from tests.lab.testbed.test_measure import orders, performed
from tests.support.lab import pretended_guest as pretend

distributed = pytest.importorskip("distributed")
NAMES = ["hotcloud:1/50/0", "access:dsl", "hotcloud:1/500/0"]


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """A scheduler with one worker of two threads, whose guests are pretended."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cluster, "guests", lambda *_: pretend.guests())
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": ":0"}
    # Else Dask makes /tmp/dask-scratch-space, which stays.
    options |= {"local_directory": str(tmp_path)}
    with distributed.LocalCluster(**options, protocol="tcp", host="127.0.0.1") as local:
        assert all(Path(worker.local_directory).is_relative_to(tmp_path) for worker in local.workers.values())
        yield local.scheduler_address


def test_a_cluster_gives_the_same_bytes(address: str, tmp_path: Path) -> None:
    away = {ended.condition: ended for ended in perform_away([orders(name) for name in NAMES], address, "unused")}
    here = performed(NAMES, tmp_path / "here")
    assert {name: ended.text for name, ended in away.items()} == {name: ended.text for name, ended in here.items()}
    assert away["access:dsl"].software == pretend.SOFTWARE
    assert "the guest is lost" in away["hotcloud:1/500/0"].why


def test_a_worker_that_cannot_measure_says_so(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise Missing("no root here")

    monkeypatch.setattr(cluster, "guests", none)
    (ended,) = perform_away([orders()], address, "unused")
    assert (ended.text, ended.why) == ("", "no root here")


def test_a_worker_that_is_lost_is_reported(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object) -> None:
        raise MemoryError("too small")

    monkeypatch.setattr(cluster, "perform_one", dies)
    (ended,) = perform_away([orders()], address, "unused")
    assert ended.condition == "hotcloud:1/50/0" and "its worker was lost: MemoryError" in ended.why


def test_the_verb_measures_on_a_cluster(address: str, tmp_path: Path) -> None:
    file = tmp_path / "t.npz"
    assert measured(tmp_path / "x.db", *SMALL, "--dask", address, "--tensor", str(file)) == DONE
    assert file.stat().st_size > 0


def test_a_cluster_that_is_not_there_is_reported() -> None:
    for address in ("tcp://127.0.0.1:1", "nowhere"):
        with pytest.raises(BadInput, match="no scheduler answers"):
            next(perform_away([orders()], address, "unused", 0.2))
