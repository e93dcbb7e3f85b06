# SPDX-License-Identifier: MIT
"""A Dask cluster of this host: a scheduler in this process, and workers that can be killed.

As a program it is a worker whose guests are processes of this host: `python -m tests.support.local_cluster ADDRESS
FOLDER [VERSION]`, with another version of configtron if one is given.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

from tests.support import ROOT
from tests.support.children import child
from tests.support.waiting import until


@contextmanager
def scheduler(folder: Path) -> Iterator[Any]:
    """A scheduler on the loopback device."""
    import distributed

    options: dict[str, Any] = {"n_workers": 0, "processes": False, "dashboard_address": ":0", "protocol": "tcp"}
    # else Dask makes /tmp/dask-scratch-space, which stays
    with distributed.LocalCluster(**options, host="127.0.0.1", local_directory=str(folder)) as local:
        yield local


@contextmanager
def worker(local: Any, folder: Path, version: str = "") -> Iterator[Popen[Any]]:
    """A worker process of one thread, from when the scheduler knows it."""
    before = set(local.scheduler.workers)
    words = [sys.executable, "-m", "tests.support.local_cluster", local.scheduler_address, str(folder), version]
    with child(words, cwd=ROOT, stdout=DEVNULL, stderr=DEVNULL) as process:
        until(lambda: bool(set(local.scheduler.workers) - before) or process.poll() is not None)
        assert process.poll() is None
        yield process


def main(address: str, folder: str, version: str) -> None:
    from distributed.cli.dask_worker import main as run

    from configtron.fleet.transport import dask_tasks
    from configtron.lab.testbed import measure
    from tests.support.studies import echo

    measure.guests = echo.guests
    dask_tasks.__version__ = version or dask_tasks.__version__
    sys.argv[1:] = [address, "--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", folder,
                    "--host", "127.0.0.1"]  # fmt: skip
    run()


if __name__ == "__main__":
    main(*sys.argv[1:])
