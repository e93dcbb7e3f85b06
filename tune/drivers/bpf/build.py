# SPDX-License-Identifier: MIT
"""Makes the object files that come with the package, from source: `make bpf`.

    python -m configtron.tune.drivers.bpf.build [FOLDER]      default: beside the sources

For each byte order and program one object file, without the compiler's debug sections, but with the type information
that the loader needs. Beside them stands which compiler made them and the checksum of each program's source, headers
and options: an object whose source has changed since is not used (objects.py), and tests/tune/test_shipped.py fails.
Needs clang, llvm-strip and libbpf-dev. Errors: `Missing`.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from configtron.model.errors import ConfigtronError, Missing
from configtron.tune.drivers.bpf import objects

_STRIP = "llvm-strip"


def compiler() -> str:
    """Return the compiler's name and version, in one line; "" where there is none."""
    try:
        version = subprocess.run([objects.COMPILER, "--version"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    return version.splitlines()[0]


def make(folder: Path) -> list[Path]:
    """All object files below a folder, and the list of what they were made from. Errors: `Missing`."""
    made = []
    for order, target in objects.TARGETS.items():
        (folder / order).mkdir(parents=True, exist_ok=True)
        for program in objects.PROGRAMS:
            fresh = folder / order / f"{program}.bpf.o"
            objects.compile_to(fresh.absolute(), program, target=target)
            _strip(fresh)
            made.append(fresh)
    manifest = {
        "compiler": compiler(),
        "options": list(objects.OPTIONS),
        "sources": {program: objects.checksum(program) for program in objects.PROGRAMS},
        "objects": {str(one.relative_to(folder)): hashlib.sha256(one.read_bytes()).hexdigest() for one in made},
    }
    (folder / objects.MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return made


def _strip(file: Path) -> None:
    try:
        subprocess.run([_STRIP, "-g", str(file)], check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Missing(f"{_STRIP} is not installed; run: apt-get install llvm") from error
    except subprocess.CalledProcessError as error:
        raise Missing(f"{_STRIP} {file}: {error.stderr.strip()}") from error


if __name__ == "__main__":
    try:
        for one in make(Path(sys.argv[1]) if len(sys.argv) > 1 else objects.SHIPPED):
            print(f"{one}  {one.stat().st_size} bytes")
    except ConfigtronError as error:
        print(f"configtron: {error}", file=sys.stderr)
        sys.exit(error.code)
