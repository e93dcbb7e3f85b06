"""The guest kernels, built once from Debian's kernel source package and kept in the user's cache.

Question   Where does a kernel with virtual time, or one that watches itself, come from on a machine that has none?
Method     Unpack /usr/src/linux-source-6.12.tar.xz, apply a recipe's patches, configure with nothing but its fragments,
           build. No other download. The cache folder's name is a checksum of all that went in, so a change of any of
           them makes another kernel and never mixes with the old one. Three recipes: LAB, which every guest of the lab
           boots; UML_DEBUG and X86_DEBUG, which stress tests of our kernel code boot (modules.py builds for them).
Safe       A build works in a folder of its own and is renamed into place when complete: a build that was killed leaves
           nothing that could be taken for a kernel, and the next one starts clean. A lock keeps two processes from
           building at once; the kernel is compared with its checksum whenever it is about to be used.
Differs    from Debian's user-mode-linux package (6.1, real time only): virtual time, netem that repeats, less CPU.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from configtron.errors import Missing
from configtron.lab.recipes import LAB, SOURCES, Recipe

TARBALL = Path("/usr/src/linux-source-6.12.tar.xz")
PACKAGE = "linux-source-6.12"

# program -> Debian package that brings it; libc6-dev is asked for by its header, see `absent_packages`
KERNEL_PROGRAMS = {
    "gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "xz": "xz-utils", "perl": "perl",
    "patch": "patch", "strip": "binutils", "tar": "tar", "setpriv": "util-linux",
}  # fmt: skip
INIT_PROGRAMS = {"gcc": "gcc"}
LIBC_HEADER = Path("/usr/include/stdio.h")

# One report per so many per cent: the log of a build stays on one screen.
REPORT_EVERY_PERCENT = 5
# An unpacked source and its objects take 1.6 GB, with debugging 2.2 GB; stop before the disk is full.
NEEDED_BYTES = 3_000_000_000

# The kernel's banner names who built it, where and when; fixed, so the same input gives the same bytes.
FIXED_BANNER = {
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_USER": "configtron",
    "KBUILD_BUILD_HOST": "lab",
}

Progress = Callable[[str], None]


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/configtron or ~/.cache/configtron."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "configtron"


def key(*parts: bytes) -> str:
    """A folder name that changes when any of the parts does."""
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]


def checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def absent_packages(programs: Mapping[str, str]) -> list[str]:
    """Debian packages to install before `programs` can be run."""
    absent = {package for program, package in programs.items() if not shutil.which(program)}
    return sorted(absent | (set() if LIBC_HEADER.exists() else {"libc6-dev"}))


def absent_for(recipe: Recipe) -> list[str]:
    """Debian packages to install before this kernel can be built."""
    headers = [package for header, package in recipe.headers if not header.exists()]
    return absent_packages(KERNEL_PROGRAMS) + headers + ([] if TARBALL.exists() else [PACKAGE])


def require(packages: list[str], what: str) -> None:
    if packages:
        raise Missing(f"{what} needs Debian packages; run: apt-get install {' '.join(packages)}")


def kernel_folder(recipe: Recipe = LAB) -> Path:
    """Where the kernel of this source and configuration lies, or will lie."""
    return cache_folder() / f"{recipe.name}-{key(source_version(), *recipe.inputs())}"


def source_version() -> bytes:
    """The source package's version as dpkg tells it; empty where there is no dpkg or no such package."""
    if not shutil.which("dpkg-query"):
        return b""
    asked = ["dpkg-query", "--show", "--showformat=${Version}", PACKAGE]
    return subprocess.run(asked, capture_output=True, check=False).stdout


def is_whole(folder: Path) -> bool:
    """Every file the folder's list names is there, unchanged."""
    listing = folder / "SHA256SUMS"
    if not listing.exists():
        return False
    lines = [line.split("  ", 1) for line in listing.read_text().splitlines()]
    return bool(lines) and all((folder / name).exists() and checksum(folder / name) == sha for sha, name in lines)


def keep(built: Path, folder: Path) -> None:
    """Name the checksums, then move the complete folder to its place in one step."""
    files = sorted(path for path in built.iterdir() if path.is_file())
    (built / "SHA256SUMS").write_text("".join(f"{checksum(path)}  {path.name}\n" for path in files))
    shutil.rmtree(folder, ignore_errors=True)
    built.rename(folder)


@contextmanager
def build_lock(progress: Progress, name: str = "build.lock") -> Iterator[None]:
    """One build at a time per cache. The lock goes with its process, however that ends."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process is building; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ensure_kernel(progress: Progress, recipe: Recipe = LAB) -> Path:
    """The program to boot; builds it when it is not in the cache (three minutes on two cores; a debug kernel ten)."""
    folder = kernel_folder(recipe)
    if is_whole(folder):
        return folder / recipe.program
    with build_lock(progress):
        if not is_whole(folder):
            build_kernel(folder, progress, recipe)
    return folder / recipe.program


def build_kernel(folder: Path, progress: Progress, recipe: Recipe) -> None:
    with configured(recipe, progress, "objects") as (work, make, log):
        objects, result = work / "objects", work / "result"
        result.mkdir()
        compile_kernel(make, log, progress, recipe)
        if recipe.arch == "um":
            run(["strip", "-o", str(result / recipe.program), str(objects / recipe.image)], log)
        else:
            shutil.copy(objects / recipe.image, result)
        shutil.copy(objects / ".config", result / "config")
        # what the kernel exports, for whoever builds modules for it
        shutil.copy(objects / "Module.symvers", result)
        keep(result, folder)
    progress(f"kernel ready: {folder / recipe.program}")


@contextmanager
def configured(recipe: Recipe, progress: Progress, objects: str) -> Iterator[tuple[Path, list[str], Path]]:
    """(work folder with source/ and `objects`, the `make` command, its log) of a recipe about to be built.

    Objects may go to "source" itself. The work folder is removed when the build went well; a failed one stays, beside
    its log, for who must find out why.
    """
    require(absent_for(recipe), f"building the {recipe.title}")
    if shutil.disk_usage(cache_folder()).free < NEEDED_BYTES:
        raise Missing(f"building the {recipe.title} needs {NEEDED_BYTES / 1e9:.1f} GB free in {cache_folder()}")
    work = cache_folder() / "kernel-building"
    shutil.rmtree(work, ignore_errors=True)
    source, place = work / "source", work / objects
    for made in (source, place):
        made.mkdir(parents=True, exist_ok=True)
    log = cache_folder() / "kernel-build.log"
    log.write_text("")
    progress(f"unpacking {TARBALL.name}")
    run(["tar", "--extract", "--strip-components=1", f"--file={TARBALL}", f"--directory={source}"], log)
    for patch in recipe.patches:
        run(["patch", "--strip=1", f"--directory={source}", f"--input={patch}"], log)
    make = ["make", f"--directory={source}", f"ARCH={recipe.arch}"]
    make += [] if place == source else [f"O={place}"]
    allowed = work / "fragments"
    allowed.write_bytes(b"".join(path.read_bytes() for path in recipe.fragments))
    run([*make, f"KCONFIG_ALLCONFIG={allowed}", "allnoconfig"], log)
    check_config((place / ".config").read_text(), recipe)
    yield work, make, log
    shutil.rmtree(work)


def check_config(config: str, recipe: Recipe = LAB) -> None:
    """Kconfig drops without a word what it cannot satisfy; here a lost line of the fragment is an error."""
    have = set(config.splitlines())
    lost = [line for line in fragment_lines(recipe) if line not in have]
    if lost:
        raise Missing(f"this kernel source has no {', '.join(lost)}; install the package {PACKAGE} of Debian 12")


def fragment_lines(recipe: Recipe = LAB) -> list[str]:
    """What the recipe's fragments switch on, as it will stand in .config."""
    text = "".join(path.read_text() for path in recipe.fragments)
    return [line for line in text.splitlines() if line.startswith("CONFIG_")]


def run(command: list[str], log: Path) -> None:
    with log.open("a") as sink:
        if subprocess.run(bound(command), stdout=sink, stderr=sink, env=build_environment(), check=False).returncode:
            raise Missing(f"{command[0]} failed while building the lab kernel; its words are at the end of {log}")


def bound(command: list[str]) -> list[str]:
    """The same command, ended with us, and behind everyone else in the queue for the processor."""
    return tied(["nice", *command])


def tied(command: list[str]) -> list[str]:
    """The same command, ended with us."""
    return ["setpriv", "--pdeathsig", "TERM", *command]


def build_environment() -> dict[str, str]:
    """No variable of the caller's: CFLAGS and friends must not change the kernel."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", **FIXED_BANNER}


def compile_kernel(make: list[str], log: Path, progress: Progress, recipe: Recipe) -> None:
    command = bound([*make, f"-j{os.cpu_count() or 1}", recipe.program, "modules"])
    steps = reported = 0
    with (
        log.open("a") as sink,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=build_environment()
        ) as making,
    ):
        assert making.stdout
        try:
            for line in making.stdout:
                sink.write(line)
                steps += line.startswith("  ")
                percent = min(99, 100 * steps // recipe.steps)
                if percent >= reported + REPORT_EVERY_PERCENT:
                    reported = percent
                    progress(f"building the {recipe.title}: {percent} %")
        except BaseException:
            making.terminate()
            raise
    if making.returncode:
        raise Missing(f"make failed while building the lab kernel; its words are at the end of {log}")


def ensure_programs() -> Path:
    """The folder with `init` and `seeded_getrandom.so`, compiled in a second when they are not in the cache."""
    names = ("init.c", "seeded_getrandom.c")
    folder = cache_folder() / f"guest-{key(*((SOURCES / name).read_bytes() for name in names))}"
    if is_whole(folder):
        return folder
    with build_lock(lambda line: None):
        if not is_whole(folder):
            require(absent_packages(INIT_PROGRAMS), "building the guest's first process")
            work = cache_folder() / "guest-building"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            log = cache_folder() / "guest-build.log"
            gcc = ["gcc", "-O2", "-Wall"]
            run([*gcc, "-static", "-o", str(work / "init"), str(SOURCES / "init.c")], log)
            preload = str(work / "seeded_getrandom.so")
            run([*gcc, "-shared", "-fPIC", "-o", preload, str(SOURCES / "seeded_getrandom.c")], log)
            keep(work, folder)
    return folder
