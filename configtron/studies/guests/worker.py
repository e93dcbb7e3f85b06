# SPDX-License-Identifier: MIT
"""The command that a guest of a study runs: do one part (`configtron/studies/guests/parts.py`).

    python3 -m configtron.studies.guests.worker CLIENT PLAYER FOLDER

CLIENT and PLAYER are the built page-load client and the link's player; FOLDER holds the part's orders, and what it
finds goes beside them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from configtron.model.errors import DONE, USAGE, ConfigtronError


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        print("usage: python3 -m configtron.studies.guests.worker CLIENT PLAYER FOLDER", file=sys.stderr)
        return USAGE
    from configtron.lab.testbed.shard import Programs
    from configtron.studies.guests.parts import perform
    from configtron.tune.drivers import load

    try:
        perform(Path(arguments[2]), load, Programs(*arguments[:2]))
        return DONE
    except ConfigtronError as error:
        print(f"configtron: {error}", file=sys.stderr)
        return error.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
