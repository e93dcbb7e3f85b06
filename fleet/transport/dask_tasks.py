# SPDX-License-Identifier: MIT
"""Tasks that any worker of a Dask cluster runs whole: handed out at once, handed back as they end.

A task whose worker is lost is given to another one; three times, then it failed. A result lies on its worker until it
is taken here, and is forgotten there then, so no result is made again that was taken, and one is in memory here at a
time. A worker of another version of configtron ends all: its results would be no answer to the same question.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import TracebackType
from typing import Any, NamedTuple

from configtron import __version__
from configtron.fleet.transport.dask_client import PATIENCE_S, LiveWorkers, SchedulerLost, check_address, dask_client
from configtron.model.errors import BadInput, Refused

# What Dask reports of a scheduler that lacks a module of a task.
NOT_IMPORTED = "Error during deserialization"


class TaskEnd(NamedTuple):
    """A task that ended: its name and its result, or why it has none."""

    name: str
    result: Any
    why: str = ""


def check_cluster(address: str, jobs: int | None) -> None:
    """Refuse an address that is not safe, and a number of guests beside it. Errors: `BadInput`."""
    check_address(address, plain_here=True)
    if jobs:
        raise BadInput("--cluster: each worker's threads say how many guests it runs; leave --jobs out")


class ClusterTasks:
    """A connection to a cluster that runs tasks."""

    def __init__(self, address: str, patience_s: float = PATIENCE_S) -> None:
        """Connect. Errors: `Missing`, `BadInput`."""
        check_address(address, plain_here=True)
        self._address, self._client = address, dask_client(address, patience_s)

    def ended(self, function: Callable[..., Any], arguments: Mapping[str, tuple[object, ...]]) -> Iterator[TaskEnd]:
        """Run a function with each of these arguments, and hand on each task as it ends. Errors: `BadInput` without a
        worker, `Refused` for one of another version, `SchedulerLost`."""
        if not LiveWorkers(self._client, self._address).now():
            raise BadInput(f"--cluster {self._address}: it has no worker; start one: dask worker {self._address}")
        # tasks are not pure to Dask: the same one again is done again
        names = {
            self._client.submit(run_task, __version__, function, *given, pure=False): name
            for name, given in arguments.items()
        }
        for future in import_module("distributed").as_completed(list(names), loop=self._client.loop):
            end = self._end(names.pop(future), future)
            # else a worker that is lost later has what it once computed computed again
            future.release()
            yield end

    def _end(self, name: str, future: Any) -> TaskEnd:
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
        return TaskEnd(name, future.result()) if fault is None else TaskEnd(name, None, lost)

    def __enter__(self) -> ClusterTasks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Disconnect: tasks that wait are not run."""
        self._client.close()


def run_task(version: str, function: Callable[..., Any], *arguments: object) -> Any:
    """Run a task on a worker. Errors: `Refused`, those of the task."""
    if version != __version__:
        raise Refused(
            f"the worker {platform.node()} has configtron {__version__}, this host {version}; install the same on both"
        )
    return function(*arguments)
