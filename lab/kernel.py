"""The guest kernel: User-Mode Linux, built once from Debian's kernel source package and kept in the user's cache.

Question   Where does a kernel with virtual time come from on a machine that has none?
Method     Unpack /usr/src/linux-source-6.12.tar.xz, apply uml/cond_resched.patch, configure with nothing but
           uml/config.fragment, build for ARCH=um, strip. No other download. The cache folder's name is a checksum of
           all that went in, so a change of any of them makes another kernel and never mixes with the old one.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from configtron.errors import Missing

SOURCES = Path(__file__).resolve().parent / "uml"
TARBALL = Path("/usr/src/linux-source-6.12.tar.xz")
PACKAGE = "linux-source-6.12"

# program -> Debian package that brings it; libc6-dev is asked for by its header, see `absent_packages`
KERNEL_PROGRAMS = {
    "gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "xz": "xz-utils", "perl": "perl",
    "patch": "patch", "strip": "binutils", "tar": "tar", "setpriv": "util-linux",
}  # fmt: skip
INIT_PROGRAMS = {"gcc": "gcc"}
LIBC_HEADER = Path("/usr/include/stdio.h")

# Lines of `make`'s log that name a compiled or linked file, as counted for this fragment; only the percentage uses it.
BUILD_STEPS = 1220
# One report per so many per cent: the log of a build stays on one screen.
REPORT_EVERY_PERCENT = 5
# An unpacked source and its objects take 1.6 GB; stop before the disk is full.
NEEDED_BYTES = 2_500_000_000

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


def absent_packages(programs: dict[str, str]) -> list[str]:
    """Debian packages to install before `programs` can be run."""
    absent = {package for program, package in programs.items() if not shutil.which(program)}
    return sorted(absent | (set() if LIBC_HEADER.exists() else {"libc6-dev"}))


def require(packages: list[str], what: str) -> None:
    if packages:
        raise Missing(f"{what} needs Debian packages; run: apt-get install {' '.join(packages)}")


def kernel_folder() -> Path:
    """Where the kernel of this source and configuration lies, or will lie."""
    parts = [(SOURCES / name).read_bytes() for name in ("config.fragment", "cond_resched.patch")]
    return cache_folder() / f"kernel-{key(source_version(), *parts)}"


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
def build_lock(progress: Progress) -> Iterator[None]:
    """One build at a time per cache. The lock goes with its process, however that ends."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process is building; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ensure_kernel(progress: Progress) -> Path:
    """The `linux` program; builds it when it is not in the cache (two to three minutes on two cores)."""
    folder = kernel_folder()
    if is_whole(folder):
        return folder / "linux"
    with build_lock(progress):
        if not is_whole(folder):
            build_kernel(folder, progress)
    return folder / "linux"


def build_kernel(folder: Path, progress: Progress) -> None:
    require(absent_packages(KERNEL_PROGRAMS) + ([] if TARBALL.exists() else [PACKAGE]), "building the lab kernel")
    if shutil.disk_usage(cache_folder()).free < NEEDED_BYTES:
        raise Missing(f"building the lab kernel needs {NEEDED_BYTES / 1e9:.1f} GB free in {cache_folder()}")
    work = cache_folder() / "kernel-building"
    shutil.rmtree(work, ignore_errors=True)
    source, objects, result = work / "source", work / "objects", work / "result"
    for made in (source, objects, result):
        made.mkdir(parents=True)
    log = cache_folder() / "kernel-build.log"
    log.write_text("")
    progress(f"unpacking {TARBALL.name}")
    run(["tar", "--extract", "--strip-components=1", f"--file={TARBALL}", f"--directory={source}"], log)
    run(["patch", "--strip=1", f"--directory={source}", f"--input={SOURCES / 'cond_resched.patch'}"], log)
    make = ["make", f"--directory={source}", "ARCH=um", f"O={objects}"]
    run([*make, f"KCONFIG_ALLCONFIG={SOURCES / 'config.fragment'}", "allnoconfig"], log)
    check_config((objects / ".config").read_text())
    compile_kernel(make, log, progress)
    run(["strip", "-o", str(result / "linux"), str(objects / "linux")], log)
    shutil.copy(objects / ".config", result / "config")
    keep(result, folder)
    shutil.rmtree(work)
    progress(f"kernel ready: {folder / 'linux'}")


def check_config(config: str) -> None:
    """Kconfig drops without a word what it cannot satisfy; here a lost line of the fragment is an error."""
    have = set(config.splitlines())
    lost = [line for line in fragment_lines() if line not in have]
    if lost:
        raise Missing(f"this kernel source has no {', '.join(lost)}; install the package {PACKAGE} of Debian 12")


def fragment_lines() -> list[str]:
    """What config.fragment switches on, as it will stand in .config."""
    return [line for line in (SOURCES / "config.fragment").read_text().splitlines() if line.startswith("CONFIG_")]


def run(command: list[str], log: Path) -> None:
    with log.open("a") as sink:
        if subprocess.run(bound(command), stdout=sink, stderr=sink, env=build_environment(), check=False).returncode:
            raise Missing(f"{command[0]} failed while building the lab kernel; its words are at the end of {log}")


def bound(command: list[str]) -> list[str]:
    """The same command, ended with us, and behind everyone else in the queue for the processor."""
    return ["setpriv", "--pdeathsig", "TERM", "nice", *command]


def build_environment() -> dict[str, str]:
    """No variable of the caller's: CFLAGS and friends must not change the kernel."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", **FIXED_BANNER}


def compile_kernel(make: list[str], log: Path, progress: Progress) -> None:
    command = bound([*make, f"-j{os.cpu_count() or 1}", "linux"])
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
                percent = min(99, 100 * steps // BUILD_STEPS)
                if percent >= reported + REPORT_EVERY_PERCENT:
                    reported = percent
                    progress(f"building the lab kernel: {percent} %")
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
