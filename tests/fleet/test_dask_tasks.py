# SPDX-License-Identifier: MIT
"""A scheduler on whose host no configtron is installed: Dask makes it import what tasks run."""

from __future__ import annotations

import os
import platform
import socket
import sys
from pathlib import Path
from subprocess import DEVNULL

import pytest

from configtron.fleet.transport.dask_tasks import ClusterTasks
from configtron.model.errors import Refused
from tests.support.children import child
from tests.support.waiting import PATIENCE_S

pytest.importorskip("distributed")


@pytest.mark.slow
def test_a_scheduler_without_configtron_is_named(tmp_path: Path) -> None:
    (tmp_path / "configtron.py").write_text('raise ImportError("none here")\n')
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
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
