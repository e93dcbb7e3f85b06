# SPDX-License-Identifier: MIT
"""Run independent tasks on the workers of a Dask cluster: submit all at once, return results as they finish.

Dask gives a task whose worker is lost to another worker, three times; then the task fails. A result stays on its worker
until it is fetched, and is then deleted there. So a fetched result is never computed again, and this process holds one
result at a time. A worker with another version of configtron is an error that ends all tasks: its results may differ.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import TracebackType
from typing import Any, NamedTuple

from configtron import __version__
from configtron.fleet.transport.dask_client import CONNECT_TIMEOUT_S, LiveWorkers, SchedulerLost, check_address, connect
from configtron.model.errors import BadInput, Refused

# Dask's error if the scheduler cannot import a module that a task needs.
NOT_IMPORTED = "Error during deserialization"


class FinishedTask(NamedTuple):
    """A task that has finished: its name, and its result or the reason `why` it has none."""

    name: str
    result: Any
    why: str = ""


def check_cluster(address: str, jobs: int | None) -> None:
    """Check that an address is safe, and that `--jobs` is not given with it. Errors: `BadInput`."""
    check_address(address, allow_local_tcp=True)
    if jobs:
        raise BadInput("--cluster: each worker's threads say how many guests it runs; leave --jobs out")


class ClusterTasks:
    """A connection to a cluster that runs tasks."""

    def __init__(self, address: str, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        """Connect. Errors: `Missing`, `BadInput`."""
        check_address(address, allow_local_tcp=True)
        self._address, self._client = address, connect(address, timeout_s)

    def run(self, function: Callable[..., Any], arguments: Mapping[str, tuple[object, ...]]) -> Iterator[FinishedTask]:
        """Run a function with each of these arguments (by task name); yield each task when it has finished.

        Errors: `BadInput` without a worker, `Refused` for a worker of another version, `SchedulerLost`.
        """
        if not LiveWorkers(self._client, self._address).by_address():
            raise BadInput(f"--cluster {self._address}: it has no worker; start one: dask worker {self._address}")
        # pure=False: else Dask would return an earlier result of the same function and arguments
        names = {
            self._client.submit(run_task, __version__, function, *given, pure=False): name
            for name, given in arguments.items()
        }
        for future in import_module("distributed").as_completed(list(names), loop=self._client.loop):
            task = self._finished(names.pop(future), future)
            # else Dask computes the result again if its worker is lost later
            future.release()
            yield task

    def _finished(self, name: str, future: Any) -> FinishedTask:
        if future.cancelled():
            raise SchedulerLost(f"--cluster {self._address}: the scheduler is lost")
        fault = future.exception()
        if isinstance(fault, Refused):
            raise fault
        if isinstance(fault, ImportError | AttributeError) or NOT_IMPORTED in str(fault):
            why = " ".join(str(fault).split())
            raise Refused(
                f"--cluster {self._address}: the scheduler or a worker cannot import what is to run ({why}); install"
                f" configtron {__version__} on both"
            )
        lost = f"its worker was lost: {fault!r}"
        return FinishedTask(name, future.result()) if fault is None else FinishedTask(name, None, lost)

    def __enter__(self) -> ClusterTasks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Disconnect; tasks that wait are dropped."""
        self._client.close()


def run_task(version: str, function: Callable[..., Any], *arguments: object) -> Any:
    """Run a task on a worker. Errors: `Refused`, those of the task."""
    if version != __version__:
        raise Refused(
            f"the worker {platform.node()} has configtron {__version__}, this host {version}; install the same on both"
        )
    return function(*arguments)
