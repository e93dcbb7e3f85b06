# SPDX-License-Identifier: MIT
"""A cluster by Dask: no scheduler, none any more, or another; no certificates; no configtron where the scheduler is."""

from __future__ import annotations

import os
import platform
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pytest

from configtron.fleet.transport.dask_client import LiveWorkers, SchedulerLost, connect
from configtron.fleet.transport.dask_link import ClusterLink
from configtron.fleet.transport.dask_tasks import ClusterTasks
from configtron.model.errors import BadInput, Refused
from tests.support.children import child
from tests.support.cluster_regions import write_certificate
from tests.support.waiting import PATIENCE_S, until

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


@pytest.fixture(params=[b"", b"HTTP/1.0 400 Bad Request\r\n\r\n"], ids=["silent", "http"])
def stranger(request: pytest.FixtureRequest) -> Iterator[int]:
    """Return the port of a server that sends a text to each connection and holds it; a client of Dask would wait."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held: list[socket.socket] = []

        def serve() -> None:
            with suppress(OSError):
                while True:
                    held.append(listener.accept()[0])
                    held[-1].sendall(request.param)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        for each in held:
            each.close()


def test_a_program_that_is_no_scheduler_is_refused(stranger: int) -> None:
    with pytest.raises(BadInput, match=rf"--cluster tcp://127.0.0.1:{stranger}: no scheduler answers \(.+\)"):
        connect(f"tcp://127.0.0.1:{stranger}", 1.0)


@pytest.mark.slow
def test_a_scheduler_without_configtron_is_named(tmp_path: Path, port: int) -> None:
    """Dask makes it import what tasks run."""
    (tmp_path / "configtron.py").write_text('raise ImportError("none here")\n')
    address, quiet = f"tcp://127.0.0.1:{port}", {"cwd": tmp_path, "stdout": DEVNULL, "stderr": DEVNULL}
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1"]
    without = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with (
        child([*scheduler, "--no-dashboard"], env=without, **quiet),
        child([*worker, "--no-dashboard", "--local-directory", str(tmp_path)], **quiet),
        ClusterTasks(address, PATIENCE_S) as tasks,
    ):
        tasks._client.wait_for_workers(1, timeout=PATIENCE_S)
        with pytest.raises(Refused, match="the scheduler or a worker cannot import what is to run"):
            list(tasks.run(platform.node, {"a": ()}))
