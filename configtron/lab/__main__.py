# SPDX-License-Identifier: MIT
"""`python3 -m configtron.lab kernel`: builds what the lab boots, ahead of its first use.

`python3 -m configtron.lab module [KERNEL]`: builds the kernel module and prints where it lies. KERNEL is `lab` for the
lab's guests, or an installed kernel's release as in /lib/modules; without it, the running kernel.

`python3 -m configtron.lab har FILE [NAME]`: prints the site model of a page that a browser recorded (HTTP archive).
"""

from __future__ import annotations

import sys
from pathlib import Path

from configtron.lab.testbed import har
from configtron.lab.uml.kernel import ensure_kernel, ensure_programs
from configtron.lab.uml.kmod import module_for_guest, module_for_installed
from configtron.model.errors import DONE, INTERRUPTED, USAGE, ConfigtronError

USE = "usage: python3 -m configtron.lab kernel | module [lab | RELEASE] | har FILE [NAME]"


def main(arguments: list[str]) -> int:
    try:
        match arguments:
            case ["kernel"]:
                ensure_programs()
                print(ensure_kernel(report))
            case ["module", "lab"]:
                print(module_for_guest(report))
            case ["module"]:
                print(module_for_installed(report))
            case ["module", release]:
                print(module_for_installed(report, release))
            case ["har", file, *name] if len(name) <= 1:
                print(har.read(Path(file), *name), end="")
            case _:
                print(USE, file=sys.stderr)
                return USAGE
    except ConfigtronError as error:
        print(f"configtron: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("configtron: interrupted; the same command goes on from there", file=sys.stderr)
        return INTERRUPTED
    return DONE


def report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
