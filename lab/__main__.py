"""`python3 -m configtron.lab kernel`: builds what the lab boots, ahead of its first use."""

from __future__ import annotations

import sys

from configtron.errors import DONE, USAGE, ConfigtronError
from configtron.lab.kernel import ensure_kernel, ensure_programs


def main(arguments: list[str]) -> int:
    if arguments != ["kernel"]:
        print("usage: python3 -m configtron.lab kernel", file=sys.stderr)
        return USAGE
    try:
        ensure_programs()
        print(ensure_kernel(lambda line: print(line, file=sys.stderr, flush=True)))
    except ConfigtronError as error:
        print(f"configtron: {error}", file=sys.stderr)
        return error.code
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
