# SPDX-License-Identifier: MIT
"""A Dask cluster as two ends of a line: the coordinator's, and a task's on a worker.

Everything travels over connections that workers open themselves, so a worker behind NAT is as good as any: messages by
`log_event` (`gather` would connect to the worker), orders by the scheduler's metadata, which a task reads. Frames of
both are msgpack, no pickle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any

from configtron.fleet.transport.dask_client import (
    PATIENCE_S,
    LiveWorkers,
    check_address,
    dask_client,
    scheduler_answers,
)

# The resource by which a worker says where it stands: `--resources region:NAME=1`.
REGION = "region:"
Message = dict[str, Any]


class ClusterLink:
    """The coordinator's end, by `topic`. `events` holds the messages of tasks that were not taken yet."""

    def __init__(self, address: str, topic: str, patience_s: float = PATIENCE_S) -> None:
        """Connect. Errors: `Missing` without the package; `BadInput` where no scheduler answers."""
        check_address(address)
        self._client = dask_client(address, patience_s)
        self.address, self.topic, self._workers = address, topic, LiveWorkers(self._client, address)
        self._events: SimpleQueue[Message] = SimpleQueue()
        self._client.subscribe_topic(topic, lambda event: self._events.put(event[1]))

    def waiting(self) -> int:
        """Return how many messages wait."""
        return self._events.qsize()

    def next_event(self, timeout_s: float) -> Message | None:
        """Return the next message, or None if none comes within so long."""
        try:
            return self._events.get(timeout=timeout_s)
        except Empty:
            return None

    def slots(self) -> dict[str, int]:
        """Return how many tasks the live workers of each region can run at once. Errors: `SchedulerLost`."""
        found: dict[str, int] = {}
        for worker in self._workers.now().values():
            for name, amount in worker.get("resources", {}).items():
                if name.startswith(REGION):
                    region = name.removeprefix(REGION)
                    found[region] = found.get(region, 0) + min(int(amount), int(worker.get("nthreads", 1)))
        return found

    def submit(self, function: Callable[..., None], region: str, *arguments: object) -> Any:
        """Have a function run by a worker of that region; return what `fate` takes. Errors: `SchedulerLost`."""
        with scheduler_answers(self.address):
            if self._client.status in ("closing", "closed"):
                raise RuntimeError(f"the client is {self._client.status}")
            return self._client.submit(
                function, *arguments, pure=False, retries=0, resources={f"{REGION}{region}": 1}, key=None
            )

    def fate(self, task: Any) -> str | None:
        """Return None while a task waits or runs, "" once it is over, or why it failed."""
        if task.status == "pending":
            return None
        fault = task.exception() if task.status == "error" else None
        return "" if fault is None else " ".join(f"{type(fault).__name__}: {fault}".split())

    def cancel(self, tasks: Sequence[Any]) -> None:
        """Have tasks not run, those that wait."""
        self._client.cancel(list(tasks), force=True)

    def publish(self, name: str, value: object) -> None:
        """Let tasks read a value by that name. Errors: `SchedulerLost`."""
        with scheduler_answers(self.address):
            self._client.set_metadata(f"{self.topic}-{name}", value)

    def close(self) -> None:
        """Disconnect; what was published stays, since tasks may still read that they are done."""
        self._client.close()


class TaskLink:
    """A task's end, on a worker."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._worker = import_module("distributed").get_worker()

    def send(self, message: Message) -> None:
        """Send a message to the coordinator; do not wait."""
        self._worker.log_event(self._topic, message)

    def read(self, name: str, timeout_s: float) -> Any:
        """Return what the coordinator published by that name, or None. Errors: `OSError` if no answer comes."""
        asked = self._worker.scheduler.get_metadata(keys=[f"{self._topic}-{name}"], default=None)
        try:
            return asyncio.run_coroutine_threadsafe(_within(asked, timeout_s), self._worker.loop.asyncio_loop).result()
        except TimeoutError as error:
            raise OSError("the scheduler does not answer") from error


async def _within(asked: Any, timeout_s: float) -> Any:
    return await asyncio.wait_for(asked, timeout_s)
