# SPDX-License-Identifier: MIT
"""The program that a guest of the testbed runs: measure one shard.

    python3 -m configtron.service.shard_guest CLIENT PLAYER FOLDER

CLIENT and PLAYER are the built page-load client and the link's player; FOLDER holds the shard's orders, and its lines
go beside them. It imports no command line, which takes an eighth of a boot.
"""

from __future__ import annotations

import sys
from pathlib import Path

from configtron.model.errors import DONE, USAGE, ConfigtronError


def main(arguments: list[str]) -> int:
    """Measure the shard in the folder that the arguments name; return the exit code."""
    if len(arguments) != 3:
        sys.stderr.write("usage: python3 -m configtron.service.shard_guest CLIENT PLAYER FOLDER\n")
        return USAGE
    from configtron.lab.testbed.shard import ORDERS, Orders, Programs, perform
    from configtron.tune.drivers import load

    programs, folder = Programs(*arguments[:2]), Path(arguments[2])
    try:
        perform(Orders.from_json((folder / ORDERS).read_text()), folder, load, programs)
        return DONE
    except ConfigtronError as error:
        sys.stderr.write(f"configtron: {error}\n")
        return error.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
