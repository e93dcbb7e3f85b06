# SPDX-License-Identifier: MIT
"""The coordinator's side of a cluster: no certificates, a scheduler that is lost, another scheduler in its place."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from configtron.fleet.transport.dask_client import LiveWorkers, SchedulerLost
from configtron.fleet.transport.dask_link import ClusterLink
from configtron.model.errors import BadInput
from tests.support.cluster_regions import write_certificate
from tests.support.waiting import until

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
TLS = "distributed.comm.tls"
# s that Dask tries to connect again.
WAIT_S = 5.0


@pytest.fixture
def certificates(tmp_path: Path) -> Iterator[None]:
    write_certificate(tmp_path)
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    tls = {f"{TLS}.{role}.{kind}": path for role in ("client", "scheduler", "worker")
           for kind, path in (("cert", cert), ("key", key))}  # fmt: skip
    with dask.config.set({**tls, f"{TLS}.ca-file": cert, "distributed.comm.timeouts.connect": "5s"}):
        yield


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def scheduler(folder: Path, port: int) -> Iterator[Any]:
    options: dict[str, Any] = {"n_workers": 0, "processes": False, "dashboard_address": ":0", "protocol": "tls"}
    options |= {"security": distributed.Security(), "host": "127.0.0.1", "scheduler_port": port}
    with distributed.LocalCluster(**options, local_directory=str(folder)) as local:
        yield local


def until_lost(asked: Callable[[], object]) -> str:
    def never() -> bool:
        asked()
        return False

    with pytest.raises(SchedulerLost) as caught:
        until(never)
    return str(caught.value)


def test_settings_without_a_certificate_are_refused_at_once() -> None:
    nothing = {f"{TLS}.ca-file": None, f"{TLS}.client.cert": None, f"{TLS}.client.key": None}
    with dask.config.set(nothing), pytest.raises(BadInput, match="there is no certificate"):
        ClusterLink("tls://127.0.0.1:1", "topic")


@pytest.mark.slow
@pytest.mark.usefixtures("certificates")
@pytest.mark.parametrize("what", ["publish", "slots", "submit"])
def test_a_lost_scheduler_is_one_error(tmp_path: Path, port: int, what: str) -> None:
    with scheduler(tmp_path, port) as local, closing(ClusterLink(f"tls://127.0.0.1:{port}", "topic", WAIT_S)) as link:
        assert link.slots() == {}
        local.close()
        asked = {"publish": lambda: link.publish("state", {}), "slots": link.slots,
                 "submit": lambda: link.submit(print, "eu")}[what]  # fmt: skip
        assert f"--cluster tls://127.0.0.1:{port}: the scheduler is lost" in until_lost(asked)


@pytest.mark.usefixtures("certificates")
def test_another_scheduler_in_its_place_is_no_substitute(tmp_path: Path, port: int) -> None:
    """Dask connects again by itself, to one that sends us no messages."""
    with (
        scheduler(tmp_path / "1", port) as first,
        closing(ClusterLink(f"tls://127.0.0.1:{port}", "topic", WAIT_S)) as link,
    ):
        link.slots()
        first.close()
        with scheduler(tmp_path / "2", port):
            assert "another one stands in its place" in until_lost(link.slots)


class FiveAtOnce:
    """A client of Dask 2025.4 to 2026.6, which names five workers unless it is asked for more."""

    def scheduler_info(self, n_workers: int = 5) -> dict[str, Any]:
        every = {f"tls://192.0.2.{n}:9000": {"nthreads": 1} for n in range(7)}
        return {"id": "s", "workers": dict(list(every.items())[: None if n_workers < 0 else n_workers])}


def test_all_workers_are_known() -> None:
    assert len(LiveWorkers(FiveAtOnce(), "tls://h:8786").by_address()) == 7
