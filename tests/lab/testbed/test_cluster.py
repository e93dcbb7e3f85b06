# SPDX-License-Identifier: MIT
"""The same shards on a Dask cluster, here one in this process: the same bytes, failures reported, mistakes refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.fleet.transport.dask_tasks import ClusterTasks
from configtron.lab.testbed import cluster
from configtron.lab.testbed.cluster import run_on_cluster
from configtron.lab.testbed.measure import ShardResult
from configtron.model.errors import DONE, USAGE, BadInput, Missing, Refused
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


def away(address: str, *names: str) -> dict[str, ShardResult]:
    with ClusterTasks(address) as tasks:
        return {ended.condition: ended for ended in run_on_cluster(list(map(orders, names)), tasks, "unused")}


@pytest.mark.slow
def test_a_cluster_gives_the_same_bytes(address: str, tmp_path: Path) -> None:
    there = away(address, *NAMES)
    here = performed(NAMES, tmp_path / "here")
    assert {name: ended.text for name, ended in there.items()} == {name: ended.text for name, ended in here.items()}
    assert there["access:dsl"].software == pretend.SOFTWARE
    assert "the guest is lost" in there["hotcloud:1/500/0"].why


def test_a_worker_that_cannot_measure_says_so(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise Missing("no root here")

    monkeypatch.setattr(cluster, "guests", none)
    (ended,) = away(address, NAMES[0]).values()
    assert (ended.text, ended.why) == ("", "no root here")


def test_a_worker_that_is_lost_is_reported(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object) -> None:
        raise MemoryError("too small")

    monkeypatch.setattr(cluster, "perform_one", dies)
    (ended,) = away(address, NAMES[0]).values()
    assert ended.condition == "hotcloud:1/50/0" and "its worker was lost: MemoryError" in ended.why


def test_a_worker_without_this_version_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'configtron'")

    monkeypatch.setattr(cluster, "perform_one", absent)
    with pytest.raises(Refused, match="cannot import what is to run .No module"):
        away(address, NAMES[0])


@pytest.mark.slow
def test_the_verb_measures_on_a_cluster(address: str, tmp_path: Path) -> None:
    file = tmp_path / "t.npz"
    assert measured(tmp_path / "x.db", *SMALL, "--cluster", address, "--tensor", str(file)) == DONE
    assert file.stat().st_size > 0


def test_a_cluster_that_is_not_there_is_reported() -> None:
    with pytest.raises(BadInput, match="no scheduler answers"):
        ClusterTasks("tcp://127.0.0.1:1", 0.2)


WITHOUT_TLS, NO_ADDRESS = "without TLS anyone may run code", "no address of a scheduler"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("tcp://192.0.2.1:8786", WITHOUT_TLS), ("tcp://dask.example:8786", WITHOUT_TLS), ("nowhere", NO_ADDRESS),
        ("tls://h", NO_ADDRESS), ("http://127.0.0.1:8786", NO_ADDRESS),
        ("tls://h:port", "name it as tls://HOST:8786"), ("tls://[::1:8786", "name it as tls://HOST:8786"),
    ],
)  # fmt: skip
def test_an_address_that_no_cluster_has_is_refused_by_every_verb(
    address: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["learn", "measure", *SMALL], ["replay", "study", "lessons", "--smoke"], ["probe", "a.example"]):
        assert run(["--db", str(tmp_path / "x.db"), *words, "--cluster", address]) == USAGE
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.startswith("configtron: ") and f"--cluster {address}: " in line and why in line
    assert not (tmp_path / "x.db").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["learn", "measure", *SMALL, "-j", "2"], "leave --jobs out"),
        (["replay", "study", "lessons", "-j", "2"], "leave --jobs out"),
        (["replay", "study", "hotcloud"], "hotcloud reads a tensor"),
        (["replay", "study", "classes"], "leave --cluster out"),
    ],
)
def test_options_that_contradict_a_cluster_are_refused(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--cluster", "tls://h.example:8786"]) == USAGE
    assert complaint in capsys.readouterr().err.splitlines()[-1]
