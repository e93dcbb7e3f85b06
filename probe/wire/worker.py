# SPDX-License-Identifier: MIT
"""The command that performs one shard, in a worker process of a run or in the laboratory's guest.

    python3 -m configtron.probe.wire.worker FOLDER [ORDERS]

FOLDER holds `shard.json`; results and evidence go beside it. ORDERS are the `SharedOrders` of a process that shares
limits with others. Why it failed is a line on standard output. SIGTERM ends it as Ctrl-C does: it resets open
connections, keeps the results, and exits with code 130.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NamedTuple, Self

from configtron.model.errors import CANNOT_WRITE, DONE, INTERRUPTED, UNWRITTEN, USAGE, ConfigtronError, cannot_write
from configtron.probe.wire.shared_spacing import SharedLimits


class SharedOrders(NamedTuple):
    """What processes of one run share.

    parent      the process that starts them, and whose end ends them
    process     the number of this one, from 0
    descriptor  the table of `limits` (`shared_spacing.py`)
    base_ns     of the clock that all show (`linux/clock.py`)
    until_s     start nothing new after this time of the monotonic clock; 0: no limit
    """

    parent: int
    process: int
    descriptor: int
    limits: SharedLimits
    base_ns: int
    until_s: float
    opt_out_files: tuple[str, ...]

    def to_json(self) -> str:
        """Return a JSON list."""
        return json.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the orders that `to_json` wrote."""
        orders = cls(*json.loads(text))
        return orders._replace(limits=SharedLimits(*orders.limits))


def main(arguments: list[str]) -> int:
    """Perform the shard in the folder that the arguments name; return the exit code."""
    if len(arguments) not in (1, 2):
        print("usage: python3 -m configtron.probe.wire.worker FOLDER [ORDERS]", file=sys.stderr)
        return USAGE
    signal.signal(signal.SIGTERM, _interrupt)
    folder = Path(arguments[0])
    try:
        _perform(folder, SharedOrders.from_json(arguments[1]) if arguments[1:] else None)
        return DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except ConfigtronError as error:
        print(error, flush=True)
        return error.code
    except OSError as error:
        if error.errno not in CANNOT_WRITE:
            raise
        print(cannot_write(error.filename or folder, error), flush=True)
        return UNWRITTEN


def _perform(folder: Path, orders: SharedOrders | None) -> None:
    from configtron.linux.clock import SteadyClock
    from configtron.linux.parent import end_with_parent
    from configtron.probe.wire.opt_out import OptOut
    from configtron.probe.wire.shard import SHARD, Beside, perform, shard_from_json
    from configtron.probe.wire.shared_spacing import SharedSpacing

    shard = shard_from_json((folder / SHARD).read_text())
    if orders is None:
        perform(shard, folder)
        return
    end_with_parent(orders.parent)
    spacing = SharedSpacing.joined(orders.descriptor, orders.limits, orders.process)
    perform(
        shard,
        folder,
        go_on=lambda: not orders.until_s or time.monotonic() < orders.until_s,
        forbidden=OptOut([Path(path) for path in orders.opt_out_files]).why,
        beside=Beside(spacing, SteadyClock(base_ns=orders.base_ns)),
    )


def _interrupt(signum: int, frame: FrameType | None) -> None:
    # Once: what it interrupts may be the end itself.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
