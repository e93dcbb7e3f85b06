# SPDX-License-Identifier: MIT
"""Debian's own kernel, as people run it, taken from its package without installing it.

Question   How is kernel code of ours tried on the kernel that Debian 12 users have, on a machine that may run another?
Method     `apt-get download` of linux-image-RELEASE-amd64, RELEASE being that of the installed linux-headers, for which
           modules of ours are compiled; the kernel and a dozen of its modules are taken out, the rest is thrown away.
           Nothing is installed, no boot loader asked. Kept in the user's cache, checked by checksums, like all kernels.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from configtron.lab.uml.kernel import Progress, build_lock, cache_folder, is_whole, keep, key
from configtron.model.congestion import OF_LINUX, OF_TABLE1, TABLE1_MODULES
from configtron.model.errors import Missing

HEADERS_PACKAGE = "linux-headers-amd64"
HEADERS = Path("/usr/src")
# Debian 12's kernel; backports of newer ones have other names.
RELEASE = re.compile(r"linux-headers-(6\.1\.0-(\d+)-amd64)")

# The root is the host's files through 9p. Order matters: a module comes after those it needs.
ROOT_MODULES = (
    "virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "netfs", "fscache",
    "9pnet", "9pnet_virtio", "9p",
)  # fmt: skip
# What profiles name and tests build links of; loaded by the lab's first process, since no modprobe finds them there.
LAB_MODULES = (*TABLE1_MODULES, "veth", "sch_netem", "sch_fq", "inet_diag", "tcp_diag")
# Every congestion control that Debian has as a module; kept, not loaded.
SCHEMES = tuple(sorted(f"tcp_{name}" for name in OF_LINUX if name not in OF_TABLE1))
KEPT = (*ROOT_MODULES, *LAB_MODULES, *SCHEMES)


def release(headers: Path = HEADERS) -> str:
    """Return the release (`uname -r`) of the kernel that modules can be compiled for here; "" without its headers."""
    found = [match for path in headers.glob("linux-headers-*") if (match := RELEASE.fullmatch(path.name))]
    return max(found, key=lambda match: int(match[2]))[1] if found else ""


def tree(headers: Path = HEADERS) -> Path:
    """Return the tree that `make -C` takes to build modules for it."""
    if not release(headers):
        raise Missing(f"building for Debian's kernel needs its headers; run: apt-get install {HEADERS_PACKAGE}")
    return headers / f"linux-headers-{release(headers)}"


def debian_folder() -> Path:
    kept = key(" ".join(KEPT).encode())
    return cache_folder() / f"debian-{tree().name.removeprefix('linux-headers-')}-{kept}"


def ensure_debian(progress: Progress) -> Path:
    """The folder with `vmlinuz` and the modules NAME.ko; downloads the package (70 MB) when it is not in the cache."""
    folder = debian_folder()
    if is_whole(folder):
        return folder
    with build_lock(progress):
        if not is_whole(folder):
            fetch(folder, progress)
    return folder


def fetch(folder: Path, progress: Progress) -> None:
    """Download, take out, throw away."""
    package = f"linux-image-{release()}"
    work = cache_folder() / "debian-fetching"
    shutil.rmtree(work, ignore_errors=True)
    result = work / "result"
    result.mkdir(parents=True)
    progress(f"downloading {package}")
    run(["apt-get", "download", "-qq", package], work, f"run: apt-get update && apt-get install {HEADERS_PACKAGE}")
    (archive,) = work.glob("*.deb")
    wanted = [f"*/{name}.ko" for name in KEPT]
    unpack = f"dpkg-deb --fsys-tarfile '{archive.name}' | tar --extract --wildcards './boot/vmlinuz*' \"$@\""
    run(["sh", "-c", unpack, "-", *wanted], work, "the package is not as Debian 12's; report it")
    (image,) = work.glob("boot/vmlinuz-*")
    image.rename(result / "vmlinuz")
    for module in work.glob("lib/modules/**/*.ko"):
        module.rename(result / module.name)
    keep(result, folder)
    shutil.rmtree(work)
    progress(f"kernel ready: {folder / 'vmlinuz'}")


def run(command: list[str], folder: Path, remedy: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        words = " ".join((done.stdout + done.stderr).split())[-300:]
        raise Missing(f"{command[0]} could not bring Debian's kernel ({words}); {remedy}")
