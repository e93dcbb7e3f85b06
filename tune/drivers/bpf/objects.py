# SPDX-License-Identifier: MIT
"""The compiled programs: those that come with the package, as long as they are their sources'; else by clang.

shipped/el, shipped/eb   object files for little and big endian processors, made by `make bpf` (build.py). They name no
                         kernel: what they read of its structures is found in the running kernel's type information
                         (CO-RE), so neither a compiler nor headers are needed where they are loaded.
the user's cache         what was compiled here, by its source's checksum: a changed source, a test's or a benchmark's
                         own program

What is loaded from the cache runs in the kernel. So it is taken only from where no user but root and our own could
have put it: every folder on the way there, and the file, belongs to one of the two and no one else may write it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from configtron.linux.trust import others
from configtron.model.errors import Missing, Refused

SOURCES = Path(__file__).parent
SHIPPED = SOURCES / "shipped"
# In SHIPPED: by what and from what its objects were made (build.py writes it).
MANIFEST = "manifest.json"
HEADERS = ("draw.h", "clients.h", "cells.h", "drawing.h", "recording.h", "setting.h")
PROGRAMS = ("sockops", "sockops_types", "write", "move", "keep", "keep_start", "unpaced", "unpaced_start")
# Of another program's source, with an option of its own: program -> (that program, the option).
VARIANTS = {
    "sockops_types": ("sockops", "-DKERNEL_TYPES"),
    "keep_start": ("keep", "-DTX_START"),
    "unpaced_start": ("unpaced", "-DTX_START"),
}
# Folder of SHIPPED -> clang's name of the target.
TARGETS = {"el": "bpfel", "eb": "bpfeb"}
COMPILER = "clang"
OPTIONS = ("-O2", "-g", "-Wall", "-Werror", "-fdebug-compilation-dir=.")
# What the programs are compiled against: linux/bpf.h comes with libc6-dev, the rest with libbpf-dev.
_REMEDY = "run: apt-get install clang libbpf-dev"
_PRIVATE = 0o700


def cached(program: str, sources: Path | None = None, shared: Path | None = None) -> Path:
    """Return where the object file lies, or will lie; `sources` is the folder of a program that is not the driver's."""
    text = checksum(program, sources, shared) + os.uname().machine
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "configtron" / "bpf"
    return folder / f"{program}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.bpf.o"


def checksum(program: str, sources: Path | None = None, shared: Path | None = None) -> str:
    """Of all that decides what a program compiles to, the compiler's version apart: SHA-256, in hex."""
    texts = (source(program, sources).read_bytes(), headers(shared), " ".join(_options(program)).encode())
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


def headers(shared: Path | None = None) -> bytes:
    """Return what all programs share, one after the other."""
    return b"".join(((shared or SOURCES) / name).read_bytes() for name in HEADERS)


def source(program: str, sources: Path | None = None) -> Path:
    """Return a program's source file."""
    return (sources or SOURCES) / f"{VARIANTS.get(program, (program,))[0]}.bpf.c"


@cache
def shipped(program: str) -> Path | None:
    """Return the object file that came with the package; None where it is not of the source that lies here."""
    folder = next(name for name, target in TARGETS.items() if target == _native())
    try:
        made = json.loads((SHIPPED / MANIFEST).read_text())["sources"]
    except OSError:
        return None
    found = SHIPPED / folder / f"{program}.bpf.o"
    return found if made.get(program) == checksum(program) and found.is_file() else None


def missing() -> str:
    """Return why a program could not be had, one line; "" if all came with the package, are compiled or can be."""
    left = [program for program in PROGRAMS if shipped(program) is None]
    if not left:
        return ""
    if why := unsafe(cached(left[0]).parent):
        return why
    there = [cached(program) for program in left if cached(program).exists()]
    if why := next(filter(None, map(unsafe, there)), ""):
        return why
    if shutil.which(COMPILER) or len(there) == len(left):
        return ""
    return f"the BPF programs are not compiled yet, and {COMPILER} is not installed; {_REMEDY}"


def compiled(program: str, sources: Path | None = None) -> Path:
    """Return the object file: the package's, the cache's, or compiled now.

    Errors: `Missing`; `Refused` where another user could have written to the cache.
    """
    if sources is None and (ready := shipped(program)):
        return ready
    built = cached(program, sources)
    if why := unsafe(built.parent) or (unsafe(built) if built.exists() else ""):
        raise Refused(why)
    if built.exists():
        return built
    try:
        _folder(built.parent)
        with TemporaryDirectory(dir=built.parent) as folder:
            fresh = Path(folder) / built.name
            compile_to(fresh, program, sources)
            fresh.chmod(0o600)
            fresh.rename(built)
    except OSError as error:
        raise Missing(f"{built.parent} takes no compiled programs ({error.strerror}); set XDG_CACHE_HOME") from error
    return built


def compile_to(fresh: Path, program: str, sources: Path | None = None, target: str = "") -> None:
    """Compile a program, the same bytes wherever its source lies. Errors: `Missing`."""
    # Debian keeps <asm/types.h> in the multiarch folder, which clang's BPF target does not search.
    include = f"-I/usr/include/{os.uname().machine}-linux-gnu"
    here = source(program, sources)
    ours = f"-I{os.path.relpath(SOURCES, here.parent)}"
    command = [COMPILER, *_options(program), "-target", target or _native(), include, ours]
    try:
        subprocess.run([*command, "-c", here.name, "-o", str(fresh)], cwd=here.parent, check=True, capture_output=True,
                       text=True)  # fmt: skip
    except subprocess.CalledProcessError as error:
        raise Missing(f"{program}.bpf.c does not compile (is libbpf-dev installed?):\n{error.stderr}") from error
    except FileNotFoundError as error:
        raise Missing(f"{COMPILER} is not installed; {_REMEDY}") from error


def unsafe(path: Path) -> str:
    """Return why nothing is loaded from a path, one line; "" where only root and our own user could have written it."""
    if why := others(path):
        return f"{why}: no BPF program is loaded from there; mend its owner and mode, or set XDG_CACHE_HOME"
    return ""


def _options(program: str) -> tuple[str, ...]:
    """Return the compiler's options for a program."""
    return (*OPTIONS, *VARIANTS[program][1:]) if program in VARIANTS else OPTIONS


def _folder(folder: Path) -> None:
    """Make a folder and those above it that are not there, ours alone."""
    for each in (*folder.absolute().parents[::-1], folder.absolute()):
        if not each.exists():
            each.mkdir(mode=_PRIVATE, exist_ok=True)


def _native() -> str:
    return TARGETS["el" if sys.byteorder == "little" else "eb"]
