# SPDX-License-Identifier: MIT
"""The command that a laboratory's guest runs: perform one shard.

    python3 -m configtron.probe.wire.worker FOLDER

FOLDER holds `shard.json`; results and evidence go beside it. SIGTERM ends it as Ctrl-C does: it resets open
connections, keeps the results, and exits with code 130.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType

from configtron.model.errors import CANNOT_WRITE, DONE, INTERRUPTED, UNWRITTEN, USAGE, ConfigtronError, cannot_write


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python3 -m configtron.probe.wire.worker FOLDER", file=sys.stderr)
        return USAGE
    from configtron.probe.wire.shard import perform, shard_from_json

    signal.signal(signal.SIGTERM, _interrupt)
    folder = Path(arguments[0])
    try:
        perform(shard_from_json((folder / "shard.json").read_text()), folder)
        return DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except ConfigtronError as error:
        print(f"configtron: {error}", file=sys.stderr)
        return error.code
    except OSError as error:
        if error.errno not in CANNOT_WRITE:
            raise
        print(f"configtron: {cannot_write(error.filename or folder, error)}", file=sys.stderr)
        return UNWRITTEN


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
