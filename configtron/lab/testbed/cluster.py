# SPDX-License-Identifier: MIT
"""Measure shards of a tensor on a cluster: each worker runs whole shards on its own kernel and returns their lines.

A worker needs what this host needs: root, the same version of configtron, the lab's Debian packages. It builds a lab
kernel at its first shard. Start it with as many threads as it has cores:

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


class FinishedShard(Protocol):
    """A shard that has finished on a worker; why: the reason if it has no result."""

    @property
    def name(self) -> str: ...
    @property
    def result(self) -> ShardResult: ...
    @property
    def why(self) -> str: ...


class Cluster(Protocol):
    """Runs a function on workers, once for each of several arguments (`configtron/fleet/transport/dask_tasks.py`)."""

    def run(
        self, function: Callable[..., ShardResult], arguments: Mapping[str, tuple[object, ...]]
    ) -> Iterator[FinishedShard]: ...


def run_on_cluster(shards: Sequence[Orders], cluster: Cluster, module: str) -> Iterator[ShardResult]:
    """Run shards on a cluster; yield each when it has finished. Errors: the cluster's.

    module  the program of the guests
    """
    for shard in cluster.run(run_shard, {one.condition.name: (one.to_json(), module) for one in shards}):
        yield ShardResult(shard.name, "", (), 0.0, shard.why) if shard.why else shard.result


def run_shard(orders: str, module: str) -> ShardResult:
    """Run one shard on a worker, in a temporary folder. A failure is returned, not raised."""
    wanted = Orders.from_json(orders)
    try:
        with TemporaryDirectory(prefix="configtron-shard-") as folder:
            return perform_one(wanted, Path(folder) / "shard", guests(module))
    except (ConfigtronError, OSError) as error:
        return ShardResult(wanted.condition.name, "", (), 0.0, str(error))
