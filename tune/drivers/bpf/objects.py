"""The compiled programs: by clang when first needed, then kept in the user's cache by their source's checksum."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from configtron.errors import Missing

SOURCES = Path(__file__).parent
HEADERS = ("clients.h", "cells.h", "setting.h")
PROGRAMS = ("sockops", "write", "move", "keep", "unpaced")
_COMPILER = "clang"
# What the programs are compiled against: linux/bpf.h comes with libc6-dev, the rest with libbpf-dev.
_REMEDY = "run: apt-get install clang libbpf-dev"


def cached(program: str, sources: Path | None = None) -> Path:
    """Where the object file lies, or will lie; `sources` is the folder of a program that is not the driver's."""
    texts = (source(program, sources).read_bytes(), headers(), os.uname().machine.encode())
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "configtron"
    return folder / f"{program}-{hashlib.sha256(b''.join(texts)).hexdigest()[:16]}.bpf.o"


def headers() -> bytes:
    """What all programs share, one after the other."""
    return b"".join((SOURCES / name).read_bytes() for name in HEADERS)


def source(program: str, sources: Path | None = None) -> Path:
    return (sources or SOURCES) / f"{program}.bpf.c"


def missing() -> str:
    """Why a program could not be had, one line; "" if all are compiled or can be."""
    if shutil.which(_COMPILER) or all(cached(program).exists() for program in PROGRAMS):
        return ""
    return f"the BPF programs are not compiled yet, and {_COMPILER} is not installed; {_REMEDY}"


def compiled(program: str, sources: Path | None = None) -> Path:
    """The object file, compiled unless the cache has it. Errors: `Missing`."""
    built = cached(program, sources)
    if built.exists():
        return built
    # Debian keeps <asm/types.h> in the multiarch folder, which clang's BPF target does not search.
    include = f"-I/usr/include/{os.uname().machine}-linux-gnu"
    options = ["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", include, f"-I{SOURCES}"]
    try:
        built.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=built.parent) as folder:
            fresh = Path(folder) / built.name
            command = [_COMPILER, *options, "-c", str(source(program, sources)), "-o", str(fresh)]
            subprocess.run(command, check=True, capture_output=True, text=True)
            fresh.rename(built)
    except subprocess.CalledProcessError as error:
        raise Missing(f"{program}.bpf.c does not compile (is libbpf-dev installed?):\n{error.stderr}") from error
    except FileNotFoundError as error:
        raise Missing(f"{_COMPILER} is not installed; {_REMEDY}") from error
    except OSError as error:
        raise Missing(f"{built.parent} takes no compiled programs ({error.strerror}); set XDG_CACHE_HOME") from error
    return built
