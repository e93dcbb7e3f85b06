# SPDX-License-Identifier: MIT
"""Emulated machines with two processors, for kernel code of ours: Debian's kernel, or one that watches itself.

Question   Does kernel code that passed its tests on one processor also pass them on two?
Method     qemu-system-x86_64 without hardware help (tcg), each processor a thread: slow, but it runs anywhere, and two
           processors are truly two. The walls, the job and its results are those of User-Mode Linux (enclosure.py,
           uml/init.c); the guest sees the host's files, read-only, through 9p instead of hostfs.
           Debian's kernel has 9p as a module, so it boots from a memory disk (qemu/init.sh, busybox, ten modules).
Differs    from user_mode_linux.py: real time, two processors, no netem of virtual time; ten to fifty times slower.
"""

from __future__ import annotations

import gzip
import shutil
from dataclasses import dataclass
from pathlib import Path

from configtron.lab.uml.backend import Guest, say
from configtron.lab.uml.debian import HEADERS_PACKAGE, LAB_MODULES, ROOT_MODULES, ensure_debian, release
from configtron.lab.uml.enclosure import GuestJob, Running, enclose, place_arguments
from configtron.lab.uml.kernel import INIT_PROGRAMS, ensure_programs
from configtron.lab.uml.recipes import QEMU_SOURCES, X86_DEBUG

EMULATOR = "qemu-system-x86_64"
QEMU_PROGRAMS = {**INIT_PROGRAMS, EMULATOR: "qemu-system-x86"}
BUSYBOX = Path("/bin/busybox")

# The host's root as seen by the guest: names of mounts beneath it may clash, so QEMU numbers files anew.
SHARES = (
    "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
    "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
    "-fsdev", "local,id=output,path=/run/configtron/output,security_model=none",
    "-device", "virtio-9p-pci,fsdev=output,mount_tag=output",
)  # fmt: skip
ROOT_9P = "root=host rootfstype=9p rootflags=trans=virtio,version=9p2000.L,msize=262144,cache=loose ro"
# Where the emulator, behind the walls, finds the memory disk.
DISK = Path("/run/configtron/output/initrd")

# Warnings must reach the log (level 4); mere information (6) would slow the serial line.
KERNEL_WORDS = "console=ttyS0 panic=-1 oops=panic loglevel=5 net.ifnames=0 init=/run/configtron/init"


@dataclass(frozen=True)
class QemuDebian(Guest):
    """Debian 12's kernel as its users have it; a subclass has the folder of another."""

    name: str = "qemu-debian"
    programs = QEMU_PROGRAMS

    def absent(self) -> list[str]:
        return ([] if BUSYBOX.exists() else ["busybox-static"]) + ([] if release() else [HEADERS_PACKAGE])

    def folder(self) -> Path:
        """Return where its `vmlinuz` and its modules are."""
        return ensure_debian(say)

    def boot(self, job: GuestJob) -> Running:
        folder = self.folder()
        job.output.mkdir(parents=True, exist_ok=True)
        (job.output / DISK.name).write_bytes(memory_disk(folder))
        modules = tuple(map(str, present(folder, LAB_MODULES)))
        arguments = ["-initrd", str(DISK), "-append", KERNEL_WORDS]
        return enclose(job, qemu_arguments(job, folder / "vmlinuz", arguments), modules)


@dataclass(frozen=True)
class QemuDebug(Guest):
    """Our own kernel with the kernel's own checks."""

    name: str = "qemu-debug"
    programs = QEMU_PROGRAMS
    recipe = X86_DEBUG

    def boot(self, job: GuestJob) -> Running:
        words = f"{KERNEL_WORDS} {ROOT_9P} kasan_multi_shot".replace("oops=panic ", "")
        return enclose(job, qemu_arguments(job, self.kernel(), ["-append", words]), ())


def qemu_arguments(job: GuestJob, kernel: Path, rest: list[str]) -> list[str]:
    """enclose.sh's arguments for an emulated guest."""
    # q35, not pc: a kernel that checks every access reads its ACPI tables in seconds, not minutes
    machine = ["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", str(job.memory_mb)]
    quiet = ["-nographic", "-nodefaults", "-no-reboot", "-serial", "stdio", "-device", "virtio-rng-pci"]
    command = [str(shutil.which(EMULATOR)), *machine, *quiet, *SHARES, "-kernel", str(kernel), *rest]
    return ["qemu", *place_arguments(job), str(ensure_programs() / "init"), *command]


def memory_disk(folder: Path) -> bytes:
    """Return the memory disk of Debian's kernel: its root's modules in the order of loading, and their loader."""
    modules = [(f"{n:02d}-{path.name}", path.read_bytes()) for n, path in enumerate(present(folder, ROOT_MODULES))]
    busybox = BUSYBOX.read_bytes()
    # the kernel looks for /init and, by its first line, for /bin/sh; the folders are for what is mounted there
    files = [("init", (QEMU_SOURCES / "init.sh").read_bytes()), ("bin/sh", busybox), ("bin/busybox", busybox), *modules]
    entries = [entry(name, b"", 0o040755) for name in ("bin", "dev", "root")]
    entries += [entry(name, content, 0o100755) for name, content in files]
    return gzip.compress(b"".join([*entries, entry("TRAILER!!!", b"", 0)]), 1, mtime=0)


def present(folder: Path, names: tuple[str, ...]) -> list[Path]:
    """Return the files of these modules; what a kernel has built in has none."""
    return [path for name in names if (path := folder / f"{name}.ko").exists()]


def entry(name: str, content: bytes, mode: int) -> bytes:
    """One file in the "newc" form of cpio (Documentation/driver-api/early-userspace/buffer-format.rst)."""
    named = name.encode() + b"\0"
    # ino, mode, uid, gid, nlink, mtime, filesize, the device's and the special file's major and minor, namesize, check
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(named), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + named
    return padded(head) + padded(content)


def padded(block: bytes) -> bytes:
    return block + bytes(-len(block) % 4)
