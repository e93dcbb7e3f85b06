# SPDX-License-Identifier: MIT
"""The same shards on a Dask cluster: each worker runs whole ones, on its own kernel, and sends their lines.

A worker needs what this machine needs: root, configtron of the same version, its Debian packages; a lab kernel is built
at the first shard. Start it with as many threads as it has cores:

    dask worker ADDRESS --nthreads 2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from configtron.lab.testbed.measure import ShardResult, guests, perform_one
from configtron.lab.testbed.shard import Orders
from configtron.model.errors import BadInput, ConfigtronError, Missing

# A scheduler that does not answer by then is not there.
PATIENCE_S = 20


def perform_away(
    shards: Sequence[Orders], address: str, module: str, patience_s: float = PATIENCE_S
) -> Iterator[ShardResult]:
    """Run shards on a cluster and hand on each as it ends. Errors: `Missing`, `BadInput`."""
    try:
        cluster = import_module("distributed")
    except ImportError as error:
        raise Missing("--dask needs the package distributed; run: pip install 'configtron[dask]'") from error
    try:
        client = cluster.Client(address, timeout=patience_s)
    except (OSError, ValueError) as error:
        raise BadInput(f"--dask {address}: no scheduler answers ({error}); start one: dask scheduler") from error
    with client:
        # shards are not pure to Dask: the same one again is measured again, and a lost one is sent to another worker
        names = {client.submit(one_away, one.to_json(), module, pure=False): one.condition.name for one in shards}
        for future in cluster.as_completed(list(names)):
            fault = future.exception()
            lost = f"its worker was lost: {fault!r}"
            yield future.result() if fault is None else ShardResult(names[future], "", (), 0.0, lost)


def one_away(orders: str, module: str) -> ShardResult:
    """Run one shard on a worker, in a folder that goes with it. Failures are returned, not raised."""
    wanted = Orders.from_json(orders)
    try:
        with TemporaryDirectory(prefix="configtron-shard-") as folder:
            return perform_one(wanted, Path(folder) / "shard", guests(module))
    except (ConfigtronError, OSError) as error:
        return ShardResult(wanted.condition.name, "", (), 0.0, str(error))
