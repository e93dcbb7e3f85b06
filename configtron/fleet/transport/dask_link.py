# SPDX-License-Identifier: MIT
"""Messages between a coordinator and its tasks on the workers of a Dask cluster.

Only connections that workers open themselves are used, so workers may stand behind NAT. A task sends messages by
`log_event` (`gather` would connect to the worker), and reads its orders from the scheduler's metadata. Both are encoded
as msgpack, not as pickle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any

from configtron.fleet.transport.dask_client import (
    CONNECT_TIMEOUT_S,
    LiveWorkers,
    check_address,
    connect,
    scheduler_errors,
)

# The Dask resource that names a worker's region: `--resources region:NAME=1`.
REGION = "region:"
Message = dict[str, Any]


class ClusterLink:
    """The coordinator's side. topic: the name under which messages and orders of one campaign are exchanged."""

    def __init__(self, address: str, topic: str, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        """Connect. Errors: those of `connect`."""
        check_address(address)
        self._client = connect(address, timeout_s)
        self.address, self.topic, self._workers = address, topic, LiveWorkers(self._client, address)
        self._events: SimpleQueue[Message] = SimpleQueue()
        self._client.subscribe_topic(topic, lambda event: self._events.put(event[1]))

    def waiting(self) -> int:
        """Return how many messages have arrived and were not read."""
        return self._events.qsize()

    def next_event(self, timeout_s: float) -> Message | None:
        """Return the next message, or None if none arrives within the timeout."""
        try:
            return self._events.get(timeout=timeout_s)
        except Empty:
            return None

    def slots(self) -> dict[str, int]:
        """Return by region how many tasks its workers can run at once. Errors: `SchedulerLost`."""
        found: dict[str, int] = {}
        for worker in self._workers.by_address().values():
            for name, amount in worker.get("resources", {}).items():
                if name.startswith(REGION):
                    region = name.removeprefix(REGION)
                    found[region] = found.get(region, 0) + min(int(amount), int(worker.get("nthreads", 1)))
        return found

    def submit(self, function: Callable[..., None], region: str, *arguments: object) -> Any:
        """Run a function on a worker of a region; return Dask's task, for `outcome_of`. Errors: `SchedulerLost`."""
        with scheduler_errors(self.address):
            if self._client.status in ("closing", "closed"):
                raise RuntimeError(f"the client is {self._client.status}")
            return self._client.submit(
                function, *arguments, pure=False, retries=0, resources={f"{REGION}{region}": 1}, key=None
            )

    def outcome_of(self, task: Any) -> str | None:
        """Return None for a task that waits or runs, "" for one that succeeded, else why it failed."""
        if task.status == "pending":
            return None
        fault = task.exception() if task.status == "error" else None
        return "" if fault is None else " ".join(f"{type(fault).__name__}: {fault}".split())

    def cancel(self, tasks: Sequence[Any]) -> None:
        """Cancel those of these tasks that wait."""
        self._client.cancel(list(tasks), force=True)

    def publish(self, name: str, value: object) -> None:
        """Store a value that tasks can read by that name. Errors: `SchedulerLost`."""
        with scheduler_errors(self.address):
            self._client.set_metadata(f"{self.topic}-{name}", value)

    def close(self) -> None:
        """Disconnect. Published values stay: tasks may still have to read that they are done."""
        # Dask may be connecting again, and raises what that meets (ValueError of tornado's TLS): nothing is lost by it.
        with suppress(Exception):
            self._client.close()


class TaskLink:
    """The task's side, on a worker."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._worker = import_module("distributed").get_worker()

    def send(self, message: Message) -> None:
        """Send a message to the coordinator, without waiting for its arrival."""
        self._worker.log_event(self._topic, message)

    def read(self, name: str, timeout_s: float) -> Any:
        """Return what the coordinator published by that name, or None. Errors: `OSError` without an answer."""
        asked = self._worker.scheduler.get_metadata(keys=[f"{self._topic}-{name}"], default=None)
        try:
            return asyncio.run_coroutine_threadsafe(_within(asked, timeout_s), self._worker.loop.asyncio_loop).result()
        except TimeoutError as error:
            raise OSError("the scheduler does not answer") from error


async def _within(asked: Any, timeout_s: float) -> Any:
    return await asyncio.wait_for(asked, timeout_s)
