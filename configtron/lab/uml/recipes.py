# SPDX-License-Identifier: MIT
"""The sources and configurations of our kernels. kernel.py builds them, modules.py builds modules for them.

LAB         every guest of the lab: small, in virtual time
UML_DEBUG   the same with the kernel's own checks: bad memory accesses, lock order, RCU, leaks, failing allocations
X86_DEBUG   a two-processor kernel with preemption and the same checks, for QEMU: the races that one processor cannot
            have, and sleeping where that is forbidden, which User-Mode Linux cannot see
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
QEMU_SOURCES = SOURCES / "qemu"
# Congestion controls as modules, which tests in the debug kernels load, use and unload.
SCHEMES = SOURCES / "schemes-modules.fragment"


@dataclass(frozen=True)
class KernelRecipe:
    """One kernel.

    name        the beginning of its cache folder's name
    title       the name in progress lines and errors
    arch        ARCH of `make`
    image       the file to boot, in the build's folder
    fragments   the configuration: nothing else is switched on; of two lines for one symbol the later holds
    patches     to the source
    steps       lines of `make`'s log that name a compiled or linked file, as counted; only the percentage uses it
    headers     of libraries that this build needs besides the usual programs, each with its Debian package
    archive     the kernel's source, as its Debian package brings it
    disk_bytes  that a build needs free: source and objects take 1.6 GB, with debugging 2.2 GB
    """

    name: str
    title: str
    arch: str
    image: str
    fragments: tuple[Path, ...]
    patches: tuple[Path, ...]
    steps: int
    headers: tuple[tuple[Path, str], ...] = ()
    archive: Path = Path("/usr/src/linux-source-6.12.tar.xz")
    disk_bytes: int = 3_000_000_000

    @property
    def program(self) -> str:
        """Return the image's name in the cache."""
        return Path(self.image).name

    def inputs(self) -> list[bytes]:
        """Return all inputs that determine the built kernel, except the source package."""
        return [path.read_bytes() for path in (*self.fragments, *self.patches)]


LAB = KernelRecipe(
    name="kernel",
    title="lab kernel",
    arch="um",
    image="linux",
    fragments=(SOURCES / "config.fragment", SOURCES / "schemes.fragment"),
    patches=(SOURCES / "cond_resched.patch", SOURCES / "fp_state.patch"),
    steps=1196,
)
UML_DEBUG = KernelRecipe(
    name="uml-debug",
    title="debug kernel (User-Mode Linux)",
    arch="um",
    image="linux",
    fragments=(SOURCES / "config.fragment", SOURCES / "debug.fragment", SCHEMES),
    patches=LAB.patches,
    steps=1283,
)
X86_DEBUG = KernelRecipe(
    name="x86-debug",
    title="debug kernel (x86, two processors)",
    arch="x86_64",
    image="arch/x86/boot/bzImage",
    fragments=(QEMU_SOURCES / "debug.fragment", SCHEMES),
    patches=(),
    steps=1940,
    # objtool, which x86 kernels are built with, reads object files by this library
    headers=((Path("/usr/include/libelf.h"), "libelf-dev"),),
)
