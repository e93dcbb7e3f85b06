# SPDX-License-Identifier: MIT
"""The guest kernels, built once from Debian's kernel source package and kept in the user's cache.

Question   Where does a kernel with virtual time, or a debug kernel, come from on a machine that has none?
Method     Unpack /usr/src/linux-source-6.12.tar.xz, apply a recipe's patches, configure with nothing but its fragments,
           build. No other download. The cache folder's name is a checksum of all that went in, so a change of any of
           them makes another kernel and never mixes with the old one. Three recipes: LAB, which every guest of the lab
           boots; UML_DEBUG and X86_DEBUG, which stress tests of our kernel code boot (modules.py builds for them).
Safe       A build works in a folder of its own and is renamed into place when complete: a build that was killed leaves
           nothing that could be taken for a kernel. The next build goes on where it was cut short: it keeps the source
           if that was unpacked whole (a file names the kernel), and the objects for which kbuild finished a record;
           kbuild compiles the others again. A lock keeps two processes from building at once; each use first compares
           the kernel with its checksum.
Differs    from Debian's user-mode-linux package (6.1, real time only): virtual time, netem that repeats, less CPU.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from configtron.lab.uml.recipes import LAB, SOURCES, KernelRecipe
from configtron.model.errors import Missing

PACKAGE = "linux-source-6.12"

# program -> its Debian package; the check for libc6-dev looks for its header, see `absent_packages`
KERNEL_PROGRAMS = {
    "gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "xz": "xz-utils", "perl": "perl",
    "patch": "patch", "strip": "binutils", "tar": "tar", "setpriv": "util-linux",
}  # fmt: skip
INIT_PROGRAMS = {"gcc": "gcc"}
LIBC_HEADER = Path("/usr/include/stdio.h")

# A report comes after so many per cent, or after so long: the log of a build fits one screen and never stands still.
REPORT_EVERY_PERCENT = 5
REPORT_EVERY_S = 10.0
# In the build's folder: which kernel's source was unpacked and patched whole; how many steps of `make` are done.
UNPACKED, STEPS = "unpacked", "steps"
CHUNK = 1 << 20
# A line of a fragment: a symbol with a value, or one switched off.
SYMBOL = re.compile(r"(?:# )?(CONFIG_\w+)(?:=| is not set$)")

# The kernel's banner names who built it, where and when; fixed, so the same input gives the same bytes.
FIXED_BANNER = {
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_USER": "configtron",
    "KBUILD_BUILD_HOST": "lab",
    # Else kbuild counts how often the kernel was linked in this folder.
    "KBUILD_BUILD_VERSION": "1",
}

Progress = Callable[[str], None]


def cache_folder() -> Path:
    """Return $XDG_CACHE_HOME/configtron or ~/.cache/configtron."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "configtron"


def key(*parts: bytes) -> str:
    """Return a folder name that changes when any of the parts does."""
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]


def checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def absent_packages(programs: Mapping[str, str], libc_header: Path = LIBC_HEADER) -> list[str]:
    """Return the Debian packages to install before `programs` can be run."""
    absent = {package for program, package in programs.items() if not shutil.which(program)}
    return sorted(absent | (set() if libc_header.exists() else {"libc6-dev"}))


def absent_for(recipe: KernelRecipe) -> list[str]:
    """Return the Debian packages to install before this kernel can be built."""
    headers = [package for header, package in recipe.headers if not header.exists()]
    return absent_packages(KERNEL_PROGRAMS) + headers + ([] if recipe.archive.exists() else [PACKAGE])


def require(packages: list[str], what: str) -> None:
    if packages:
        raise Missing(f"{what} needs Debian packages; run: apt-get install {' '.join(packages)}")


def kernel_folder(recipe: KernelRecipe = LAB) -> Path:
    """Return the cache folder of the kernel of this source and configuration, built or not."""
    return cache_folder() / f"{recipe.name}-{key(source_version(), *recipe.inputs())}"


def source_version() -> bytes:
    """Return the source package's version from dpkg; "" without dpkg or without that package."""
    if not shutil.which("dpkg-query"):
        return b""
    asked = ["dpkg-query", "--show", "--showformat=${Version}", PACKAGE]
    return subprocess.run(asked, capture_output=True, check=False).stdout


def is_whole(folder: Path) -> bool:
    """Return whether every file in the folder's list exists, unchanged."""
    listing = folder / "SHA256SUMS"
    if not listing.exists():
        return False
    lines = [line.split("  ", 1) for line in listing.read_text().splitlines()]
    return bool(lines) and all((folder / name).exists() and checksum(folder / name) == sha for sha, name in lines)


def keep(built: Path, folder: Path) -> None:
    """Write the checksums, then move the complete folder to its place in one step."""
    files = sorted(path for path in built.iterdir() if path.is_file())
    (built / "SHA256SUMS").write_text("".join(f"{checksum(path)}  {path.name}\n" for path in files))
    shutil.rmtree(folder, ignore_errors=True)
    built.rename(folder)


@contextmanager
def build_lock(progress: Progress, name: str = "build.lock") -> Iterator[None]:
    """Hold the lock of a cache: one build at a time. The kernel releases it when the process ends."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process is building; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ensure_kernel(progress: Progress, recipe: KernelRecipe = LAB) -> Path:
    """Return the kernel to boot; build it if the cache lacks it (three minutes on two cores; a debug kernel ten)."""
    folder = kernel_folder(recipe)
    if is_whole(folder):
        return folder / recipe.program
    with build_lock(progress):
        if not is_whole(folder):
            build_kernel(folder, progress, recipe)
    return folder / recipe.program


def build_kernel(folder: Path, progress: Progress, recipe: KernelRecipe) -> None:
    with configured(recipe, progress, "objects") as (work, make, log):
        objects, result = work / "objects", work / "result"
        compile_kernel(make, work, log, progress, recipe)
        shutil.rmtree(result, ignore_errors=True)
        result.mkdir()
        if recipe.arch == "um":
            run(["strip", "-o", str(result / recipe.program), str(objects / recipe.image)], log)
        else:
            shutil.copy(objects / recipe.image, result)
        shutil.copy(objects / ".config", result / "config")
        # the kernel's exported symbols, for the build of modules, and its own modules
        for made in (objects / "Module.symvers", *objects.rglob("*.ko")):
            shutil.copy(made, result)
        keep(result, folder)
    progress(f"kernel ready: {folder / recipe.program}")


@contextmanager
def configured(
    recipe: KernelRecipe, progress: Progress, objects: str, without: Sequence[str] = ()
) -> Iterator[tuple[Path, list[str], Path]]:
    """Yield (work folder with source/ and `objects`, the `make` command, its log) for the build of a recipe.

    Objects may go to "source" itself. The work folder is removed when the build went well; one that failed or was cut
    short stays beside its log, and the next build of the same goes on with it. without: files that are not unpacked.
    """
    require(absent_for(recipe), f"building the {recipe.title}")
    work = build_folder()
    source, place = work / "source", work / objects
    log = cache_folder() / "kernel-build.log"
    log.write_text("")
    what = f"{kernel_folder(recipe).name} {objects}"
    if unpacked_in(work) == what:
        progress(f"going on with the {recipe.title} where it was cut short")
    else:
        if work.exists():
            progress("removing what an unfinished build left")
            shutil.rmtree(work, ignore_errors=True)
        if shutil.disk_usage(cache_folder()).free < recipe.disk_bytes:
            free = f"{recipe.disk_bytes / 1e9:.1f} GB free in {cache_folder()}"
            raise Missing(f"building the {recipe.title} needs {free}")
        unpack(recipe.archive, source, log, progress, without)
        for patch in recipe.patches:
            run(["patch", "--strip=1", f"--directory={source}", f"--input={patch}"], log)
        (work / UNPACKED).write_text(what)
    place.mkdir(exist_ok=True)
    make = ["make", f"--directory={source}", f"ARCH={recipe.arch}"]
    make += [] if place == source else [f"O={place}"]
    allowed = work / "fragments"
    allowed.write_bytes(b"".join(path.read_bytes() for path in recipe.fragments))
    progress(f"configuring the {recipe.title}")
    run([*make, f"KCONFIG_ALLCONFIG={allowed}", "allnoconfig"], log)
    check_config((place / ".config").read_text(), recipe)
    yield work, make, log
    shutil.rmtree(work)


def build_folder() -> Path:
    """Return the folder that a kernel is built in."""
    return cache_folder() / "kernel-building"


def unpacked_in(work: Path) -> str:
    """Return the name of the kernel whose source is whole in a build's folder; "" if there is none."""
    try:
        return (work / UNPACKED).read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def unpack(packed: Path, source: Path, log: Path, progress: Progress, without: Sequence[str] = ()) -> None:
    """Unpack the source package's archive by tar, but for files of these patterns; count the progress in bytes of the
    archive."""
    source.mkdir(parents=True)
    size, report = max(packed.stat().st_size, 1), report_progress(progress, f"unpacking {packed.name}")
    excluded = [f"--exclude={packed.name.partition('.tar')[0]}/{pattern}" for pattern in without]
    command = ["tar", "--extract", "--xz", "--strip-components=1", f"--directory={source}", "--anchored", *excluded]
    with (
        log.open("a") as sink,
        packed.open("rb") as archive,
        subprocess.Popen(
            nice_command(command), stdin=subprocess.PIPE, stdout=sink, stderr=sink, env=build_environment()
        ) as tar,
    ):
        assert tar.stdin
        try:
            while chunk := archive.read(CHUNK):
                tar.stdin.write(chunk)
                report(100 * archive.tell() // size)
            tar.stdin.close()
        except BrokenPipeError:
            # tar has ended; its log has the reason
            pass
        except BaseException:
            tar.terminate()
            raise
    if tar.returncode:
        raise build_error("tar", log)


def report_progress(progress: Progress, what: str, done: int = 0) -> Callable[[int], None]:
    """Return a function that takes the per cent done and reports some of them; done: those done before it began."""
    began = at = time.monotonic()
    reported = done
    progress(f"{what}: {done} %")

    def report(percent: int) -> None:
        nonlocal at, reported
        now = time.monotonic()
        if percent < reported + REPORT_EVERY_PERCENT and now - at < REPORT_EVERY_S:
            return
        at, reported = now, percent
        left = (now - began) * (100 - percent) / (percent - done) if percent > done else None
        progress(f"{what}: {percent} %" + ("" if left is None else f", about {left:.0f} s left"))

    return report


def check_config(config: str, recipe: KernelRecipe = LAB) -> None:
    """Check that no line of the fragments is lost: kconfig silently drops options that it cannot satisfy."""
    have = set(config.splitlines())
    lost = [line for line in fragment_lines(recipe) if line not in have]
    if lost:
        raise Missing(f"this kernel source has no {', '.join(lost)}; install the package {PACKAGE} of Debian 12")


def fragment_lines(recipe: KernelRecipe = LAB) -> list[str]:
    """Return the lines of .config that the recipe's fragments switch on; a later line replaces an earlier one."""
    symbols: dict[str, str] = {}
    for path in recipe.fragments:
        for line in path.read_text().splitlines():
            if found := SYMBOL.match(line):
                symbols.pop(found[1], None)
                symbols[found[1]] = line
    return [line for line in symbols.values() if line.startswith("CONFIG_")]


def run(command: list[str], log: Path) -> None:
    with log.open("a") as sink:
        done = subprocess.run(nice_command(command), stdout=sink, stderr=sink, env=build_environment(), check=False)
        if done.returncode:
            raise build_error(command[0], log)


def build_error(program: str, log: Path) -> Missing:
    """Return the error of a build that failed."""
    anew = f"to begin anew remove {build_folder()}"
    return Missing(f"{program} failed while building the lab kernel; its words are at the end of {log}; {anew}")


def nice_command(command: list[str]) -> list[str]:
    """Return a command that ends when we end, and runs at a lower priority (nice)."""
    return child_command(["nice", *command])


def child_command(command: list[str]) -> list[str]:
    """Return a command that ends when we end."""
    return ["setpriv", "--pdeathsig", "TERM", *command]


def build_environment() -> dict[str, str]:
    """Return the build's environment. The caller's variables are not in it: its CFLAGS would change the kernel."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", **FIXED_BANNER}


def compile_kernel(make: list[str], work: Path, log: Path, progress: Progress, recipe: KernelRecipe) -> None:
    """Compile the missing objects; `work` stores the progress, for a build that is interrupted."""
    command = nice_command([*make, f"-j{os.cpu_count() or 1}", recipe.program, "modules"])
    count = work / STEPS
    steps = int(count.read_text() or 0) if count.exists() else 0
    report = report_progress(progress, f"building the {recipe.title}", _percent(steps, recipe))
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
                # At each step: a killed process writes nothing at its end.
                count.write_text(str(steps))
                report(_percent(steps, recipe))
        except BaseException:
            making.terminate()
            raise
    if making.returncode:
        raise build_error("make", log)


def _percent(steps: int, recipe: KernelRecipe) -> int:
    return min(99, 100 * steps // recipe.steps)


def ensure_programs() -> Path:
    """Return the folder with `init` and `seeded_getrandom.so`, compiled in a second when they are not in the cache."""
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
