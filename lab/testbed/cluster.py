# SPDX-License-Identifier: MIT
"""The same shards on a cluster: each worker runs whole ones, on its own kernel, and sends their lines.

A worker needs what this machine needs: root, configtron of the same version, its Debian packages; a lab kernel is built
at the first shard. Start it with as many threads as it has cores:

    dask worker ADDRESS --nthreads 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from configtron.lab.testbed.measure import ShardResult, guests, perform_one
from configtron.lab.testbed.shard import Orders
from configtron.model.errors import ConfigtronError


class ShardEnd(Protocol):
    """A shard that ended on a worker; why: the reason where there is no result."""

    @property
    def name(self) -> str: ...
    @property
    def result(self) -> ShardResult: ...
    @property
    def why(self) -> str: ...


class Cluster(Protocol):
    """Something that runs a function on workers, with each of these arguments (`fleet/transport/dask_tasks.py`)."""

    def ended(
        self, function: Callable[..., ShardResult], arguments: Mapping[str, tuple[object, ...]]
    ) -> Iterator[ShardEnd]: ...


def perform_away(shards: Sequence[Orders], cluster: Cluster, module: str) -> Iterator[ShardResult]:
    """Run shards on a cluster and hand on each as it ends. Errors: the cluster's."""
    for end in cluster.ended(one_away, {one.condition.name: (one.to_json(), module) for one in shards}):
        yield ShardResult(end.name, "", (), 0.0, end.why) if end.why else end.result


def one_away(orders: str, module: str) -> ShardResult:
    """Run one shard on a worker, in a folder that goes with it. Failures are returned, not raised."""
    wanted = Orders.from_json(orders)
    try:
        with TemporaryDirectory(prefix="configtron-shard-") as folder:
            return perform_one(wanted, Path(folder) / "shard", guests(module))
    except (ConfigtronError, OSError) as error:
        return ShardResult(wanted.condition.name, "", (), 0.0, str(error))
