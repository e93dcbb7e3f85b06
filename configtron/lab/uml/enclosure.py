# SPDX-License-Identifier: MIT
"""The enclosure of a lab host, and its job: the same for every backend.

Question   How can a command run as root, over the host's own files, and neither change them nor outlive its owner?
Method     enclose.sh, in new mount and PID namespaces, makes all of the host read-only but one folder. The job enters
           as a file at a constant path: command, environment, modules, without the caller's environment. An ordinary
           user needs a user namespace for it, and is root only there.
Reads as   <output>/exit (the command's exit code), console.log (its stdout, stderr), kernel.log (the guest kernel's).
Ends       with the process that booted it, however that ends: the PID namespace is tied to it. Boot from a thread that
           stays; the tie is to the thread. A job that `keeps` files is not tied: it goes on to its own end, or to its
           limit, and a process that finds the files locked knows that it lives (testbed/orphans.py).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from compileall import compile_dir
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import configtron
from configtron.lab.uml.recipes import SOURCES
from configtron.model.errors import BadInput, Missing

# Where a guest finds its one writable folder; also passed to the command as $CONFIGTRON_OUTPUT.
GUEST_OUTPUT = "/run/output"

# `exit` is absent when the guest was killed, ran into its limit or could not start. 255 is what ssh uses for the like.
NO_EXIT_CODE = 255

# A kernel's complaint about its first process is this long.
LAST_WORDS_LINES = 12

# Programs that enclose.sh needs, and the Debian packages they come from.
ENCLOSE_PROGRAMS = {
    "unshare": "util-linux", "setpriv": "util-linux", "taskset": "util-linux", "setarch": "util-linux",
    "findmnt": "util-linux", "mount": "mount", "timeout": "coreutils", "ip": "iproute2",
}  # fmt: skip

# Settings of a kernel that keep user namespaces from ordinary users, with the value that does (the second is Debian's,
# the third Ubuntu's).
USER_NAMESPACES_OFF = {
    "user.max_user_namespaces": "0",
    "kernel.unprivileged_userns_clone": "0",
    "kernel.apparmor_restrict_unprivileged_userns": "1",
}
# <sys/ptrace.h>: the parent may trace me.
PTRACE_TRACEME = 0


@dataclass(frozen=True)
class GuestJob:
    """The command of a guest, the folder of its results, and all settings that may differ between two runs."""

    command: tuple[str, ...]  # as the guest's root, in "/"
    output: Path  # the one folder the guest can write; inside it is GUEST_OUTPUT
    seed: int
    cpu: int  # a guest runs on one core; a second one only costs it
    memory_mb: int = 512
    environment: tuple[tuple[str, str], ...] = ()
    limit_s: int = 4 * 3600  # of real time; then it is killed
    hidden: Path | None = None  # a folder of the host that is empty inside; `output` may lie in it
    # Files that it holds open, with their locks, for as long as it lives; the first gets a line with its process
    # number. With any, it outlives its owner.
    keeps: tuple[IO[bytes], ...] = ()


class GuestProcess(Protocol):
    """A guest's outermost process as its owner sees it; `subprocess.Popen` is one."""

    @property
    def pid(self) -> int:
        """Return its process number."""

    def poll(self) -> int | None:
        """None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Errors: `subprocess.TimeoutExpired`."""


class Running:
    """A booted guest."""

    def __init__(self, process: GuestProcess, output: Path):
        self._process = process
        self._output = output
        self.console = output / "console.log"
        self.kernel_log = output / "kernel.log"

    @property
    def pid(self) -> int:
        """Of the outermost process."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return None while it runs, then the command's exit code, or NO_EXIT_CODE."""
        return None if self._process.poll() is None else self._code()

    def wait(self, timeout_s: float | None = None) -> int:
        """Return the command's exit code. Errors: `subprocess.TimeoutExpired` if it still runs after `timeout_s`."""
        self._process.wait(timeout_s)
        return self._code()

    def kill(self) -> None:
        """End the guest and all its processes, and wait until they have ended."""
        if self._process.poll() is not None:
            return
        for pid in self._first_in_namespace() or [self.pid]:
            with suppress(ProcessLookupError):  # it may end by itself meanwhile
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def last_words(self) -> str:
        """Return the end of the guest kernel's log, for a guest without an exit code."""
        lines = self.kernel_log.read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines[-LAST_WORDS_LINES:] if line.strip())

    def _first_in_namespace(self) -> list[int]:
        # unshare's child is the PID namespace's first process: the kernel ends all others before it is gone itself
        try:
            return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]
        except FileNotFoundError:
            return []

    def _code(self) -> int:
        try:
            return int((self._output / "exit").read_text())
        except (FileNotFoundError, ValueError):
            return NO_EXIT_CODE


def missing(packages: list[str]) -> str:
    return f"missing; run: apt-get install {' '.join(packages)}" if packages else ""


def cannot_enclose() -> str:
    absent = {package for program, package in ENCLOSE_PROGRAMS.items() if not shutil.which(program)}
    if absent:
        return missing(sorted(absent))
    return cannot_unshare()


def cannot_unshare() -> str:
    if not os.path.ismount("/"):
        return '"/" is no mount, as in a plain chroot; make it one outside: mount --bind DIR DIR, then chroot DIR'
    tried = subprocess.run([*walls(), "true"], capture_output=True, text=True, check=False)
    if not tried.returncode:
        return ""
    words = " ".join(tried.stderr.split())
    if not os.geteuid():
        return f"needs the right to make namespaces ({words})"
    return f"needs root, or user namespaces, which are off here ({switched_off() or words})"


def switched_off(settings: Path = Path("/proc/sys")) -> str:
    """Return the sysctl that keeps user namespaces from ordinary users, with its value; "" if none does."""
    for name, value in USER_NAMESPACES_OFF.items():
        path = settings / name.replace(".", "/")
        if path.exists() and path.read_text().strip() == value:
            return f"sysctl {name} is {value}"
    return ""


def cannot_trace() -> str:
    """Return why User-Mode Linux, which traces its guest's processes by ptrace(2), cannot run here; "" if it can."""
    asked = [sys.executable, "-c", f"import ctypes; exit(ctypes.CDLL(None).ptrace({PTRACE_TRACEME}, 0, 0, 0) != 0)"]
    refused = subprocess.run(asked, capture_output=True, check=False).returncode
    return "needs ptrace(2), which is refused here: allow it in the container (--cap-add SYS_PTRACE)" if refused else ""


def walls() -> list[str]:
    """Return the command before one in new namespaces; an ordinary user is root there by a user namespace."""
    user = ["--user", "--map-root-user"] if os.geteuid() else []
    return ["unshare", *user, "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]


def guest_environment(job: GuestJob) -> tuple[tuple[str, str], ...]:
    """Return the whole environment of the command, without any variable of the caller."""
    return (
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/run"),
        ("TMPDIR", "/run/tmp"),
        ("LC_ALL", "C.UTF-8"),
        ("PYTHONHASHSEED", "0"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("CONFIGTRON_OUTPUT", GUEST_OUTPUT),
        *job.environment,
    )


def place_arguments(job: GuestJob) -> list[str]:
    hidden = str(job.hidden.resolve()) if job.hidden else "none"
    return [str(job.output.resolve()), str(job.cpu), str(job.limit_s), hidden]


def job_file(job: GuestJob, modules: tuple[str, ...]) -> bytes:
    """Return modules, environment and command: lists of NUL-ended strings, separated by "", as init.c reads them."""
    environment = [f"{name}={value}" for name, value in guest_environment(job)]
    words = [*modules, "", *environment, "", *job.command]
    if "" in job.command or any("\0" in word for word in words):
        raise BadInput(f"a job's words must not be empty nor hold NUL: {job.command!r}")
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def compile_package() -> None:
    """Compile our sources ahead: a guest cannot, and would else do other work in the first run than in the second."""
    package = Path(configtron.__file__).parent
    # in a checkout the parts are links, which compile_dir does not follow
    for part in (package, *(folder for folder in package.iterdir() if folder.is_symlink())):
        compile_dir(part, quiet=2)


def tie(job: GuestJob) -> Sequence[str]:
    """Return the command before a guest's own: the guest ends with its owner, or reports its pid and runs on alone."""
    if not job.keeps:
        return "setpriv", "--pdeathsig", "KILL"
    return "sh", "-c", 'echo $$ >>"$0" && exec "$@"', job.keeps[0].name


def enclose(job: GuestJob, arguments: list[str], modules: tuple[str, ...], *namespaces: str) -> Running:
    if reason := cannot_enclose():
        raise Missing(f"lab: {reason}")
    compile_package()
    job.output.mkdir(parents=True, exist_ok=True)
    (job.output / "exit").unlink(missing_ok=True)
    (job.output / "console.log").write_bytes(b"")
    (job.output / "job").write_bytes(job_file(job, modules))
    with (job.output / "kernel.log").open("wb") as log:
        process = subprocess.Popen(
            [*tie(job), *walls(), *namespaces, "--", "sh", str(SOURCES / "enclose.sh"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[file.fileno() for file in job.keeps],
            start_new_session=True,  # Ctrl-C is for the prober, which then ends its guests itself
        )
    return Running(process, job.output)
