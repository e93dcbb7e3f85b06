# SPDX-License-Identifier: MIT
"""Kernels of Debian 13 and its backports, and modules of ours for them, from a Debian 13 below the cache.

Question   How does kernel code of ours meet the kernels that people of Debian 13 run, on a host that is Debian 12?
Method     debootstrap makes a Debian 13 once; its own apt brings each kernel, and its headers with the compiler that
           they ask for. Newer packages of a kernel have their modules compressed.
Fails as   `Missing`: no root, no debootstrap, no network, no such kernel in the archive any more.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from configtron.lab.uml.backend import say
from configtron.lab.uml.debian import KEPT
from configtron.lab.uml.kernel import build_lock, cache_folder, is_whole, keep, key
from configtron.lab.uml.kmod import WERROR
from configtron.lab.uml.modules import copy_sources
from configtron.lab.uml.qemu import BUSYBOX, QemuDebian
from configtron.model.errors import Missing

MIRROR, SUITE = "http://deb.debian.org/debian", "trixie"
SOURCES = "".join(f"deb {MIRROR} {suite} main\n" for suite in (SUITE, f"{SUITE}-backports"))
# Where a kernel's packages are unpacked; where modules are built.
KERNELS, BUILT = "kernels", "built"


def run(command: list[str], what: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"{what}: {(done.stdout + done.stderr)[-600:]}")
    return done.stdout


def inside(script: str, what: str, *arguments: str) -> str:
    """Run a shell script in the Debian 13, with a /proc of its own; return what it prints. Errors: `Missing`."""
    words = ["unshare", "--mount", "--pid", "--fork", f"--root={root()}", "--mount-proc", "env", "LC_ALL=C"]
    return run([*words, "DEBIAN_FRONTEND=noninteractive", "INITRD=No", "sh", "-ec", script, "sh", *arguments], what)


@cache
def root() -> Path:
    """Return the folder of the Debian 13, with current package lists; make it if it is not there. Errors: `Missing`."""
    if os.geteuid() or not shutil.which("debootstrap"):
        raise Missing("kernels of Debian 13 need root and debootstrap; run: apt-get install debootstrap")
    folder = cache_folder() / f"debian-13-{key(SOURCES.encode())}"
    with build_lock(say, "debian-13.lock"):
        if not folder.exists():
            say("making a Debian 13 for its kernels: three minutes, once")
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            run(
                ["debootstrap", "--variant=minbase", "--include=make,xz-utils", SUITE, str(part), MIRROR], "debootstrap"
            )
            (part / "etc/apt/sources.list").write_text(SOURCES)
            part.rename(folder)
        # without a network, what is there is tried, and soon
        update = ["apt-get", "update", "-qq", "-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10"]
        subprocess.run(["timeout", "60", "chroot", folder, *update], capture_output=True, check=False)
    return folder


def newest(of: str = "") -> str:
    """Return the newest release whose version begins with `of`. Errors: `Missing`."""
    # without `-dbg`, `-unsigned`, `cloud`, `rt`
    lines = inside("apt-cache search --names-only '^linux-image-[0-9.]+[+]deb13-amd64$'", "searching").splitlines()
    releases = [line.split()[0].removeprefix("linux-image-") for line in lines]
    if not (found := [release for release in releases if release.startswith(of)]):
        raise Missing(f"Debian 13's archive has no kernel {of}")
    return max(found, key=lambda release: [int(number) for number in re.findall(r"\d+", release)])


def kernel(release: str) -> Path:
    """Return the folder of a kernel: its `vmlinuz` and modules NAME.ko, as `QemuDebian` takes it. Errors: `Missing`."""
    folder = cache_folder() / f"debian-{release}-{key(' '.join(KEPT).encode())}"
    if is_whole(folder):
        return folder
    say(f"downloading Debian's kernel {release}")
    packages = f"linux-(image|binary|modules)-{re.escape(release)}"
    script = """rm -rf "$1" "$1.kept"; mkdir -p "$1" "$1.kept"; cd "$1"
        apt-get download -qq $(apt-cache search --names-only "^$2\\$" | cut -d ' ' -f 1)
        for package in *.deb; do dpkg-deb -x "$package" . && rm "$package"; done"""
    inside(script, f"kernel {release}", f"/{KERNELS}/{release}", packages)
    unpacked, result = root() / KERNELS / release, root() / KERNELS / f"{release}.kept"
    (image,) = (path for path in unpacked.rglob("vmlinuz*") if path.is_file())
    shutil.copy(image, result / "vmlinuz")
    for path in unpacked.rglob("*.ko*"):
        name, _, compressed = path.name.partition(".ko")
        if name in KEPT:
            (result / f"{name}.ko").write_bytes(lzma.decompress(path.read_bytes()) if compressed else path.read_bytes())
    keep(result, folder)
    shutil.rmtree(unpacked)
    return folder


def modules(release: str, sources: Path) -> list[Path]:
    """Each module that a Kbuild file names, built as DKMS would; none where the archive has its headers no more.

    Errors: `Missing`, also where one does not compile.
    """
    headers = f"linux-headers-{release}"
    if not inside(f"apt-cache search --names-only '^{re.escape(headers)}$'", "looking for headers"):
        return []
    options = "--no-install-recommends -qq -y -t " + f"{SUITE}-backports"
    inside(f"test -e /usr/src/{headers} || apt-get install {options} {headers}", f"headers of {release}")
    folder = root() / BUILT / release / sources.name
    copy_sources(sources, folder)
    make = f"make -s -C /usr/src/{headers} M=/{folder.relative_to(root())} {WERROR} modules"
    inside(make, f"{sources} does not compile for {release}")
    return sorted(folder.rglob("*.ko"))


@dataclass(frozen=True)
class QemuDebian13(QemuDebian):
    """The newest kernel that Debian 13 or its backports have, of those whose version begins so."""

    name: str = "qemu-debian-13"
    of: str = ""

    def absent(self) -> list[str]:
        return [] if BUSYBOX.exists() else ["busybox-static"]

    def available(self) -> str:
        try:
            return super().available() or newest(self.of)[:0]
        except Missing as error:
            return str(error)

    def folder(self) -> Path:
        return kernel(newest(self.of))
