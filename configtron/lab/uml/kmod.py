# SPDX-License-Identifier: MIT
"""Our kernel module, built once for each kernel and kept in the user's cache.

Question   How does one get configtron.ko for a guest of the lab, or for this machine, without building it twice?
Method     The sources in kmod/ are compiled for the kernel's own tree: modules.py's for a guest's kernel, the
           distribution's headers for an installed one. The cache folder's name is a checksum of the sources and of the
           tree's configuration and version, so a change of either makes another module.
Safe       Built aside and renamed when complete, as the kernels are.
Fails as   Missing: no headers, no compiler, or sources that do not compile, with the compiler's last words.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import configtron
from configtron.lab.uml.kernel import (
    KERNEL_PROGRAMS,
    Progress,
    absent_packages,
    build_lock,
    cache_folder,
    is_whole,
    keep,
    key,
    require,
)
from configtron.lab.uml.modules import ensure_tree, make_module
from configtron.lab.uml.recipes import LAB, KernelRecipe
from configtron.model.errors import Missing

# Of the programs that a kernel needs, those that a module needs.
PROGRAMS = {name: KERNEL_PROGRAMS[name] for name in ("gcc", "make")}
# Files of a kernel's tree that determine the bytes of a module built in it.
DECIDING = (".config", "include/generated/utsrelease.h", "include/config/auto.conf", "Module.symvers")
# uname(2)'s name of a processor -> its name for `make`.
ARCHITECTURES: Mapping[str, str] = {"aarch64": "arm64"}


# Warnings are errors in the laboratory's builds, not in an operator's.
WERROR = "CONFIGTRON_WERROR=1"


def sources() -> Path:
    """kmod/ of the checkout; of an installed package the copy that DKMS would take, src/configtron-VERSION."""
    beside = Path(__file__).resolve().parents[3] / "kmod"
    installed = Path(sys.prefix) / "src" / f"configtron-{configtron.__version__}"
    for folder in (beside, installed):
        if (folder / "Kbuild").exists():
            return folder
    raise Missing(f"the module's sources are neither in {beside} nor in {installed}; use a checkout of the repository")


def module_for_guest(progress: Progress, recipe: KernelRecipe = LAB, variables: tuple[str, ...] = ()) -> Path:
    """Return configtron.ko for a lab kernel; make the tree for its build first if it is missing."""
    return module_for_tree(ensure_tree(progress, recipe), recipe.arch, progress, (*variables, WERROR))


def module_for_installed(progress: Progress, release: str = "", variables: tuple[str, ...] = ()) -> Path:
    """Return configtron.ko for an installed kernel; "" is the running one."""
    release = release or platform.release()
    tree = Path("/lib/modules") / release / "build"
    if not tree.exists():
        raise Missing(f"kernel {release} has no headers here; install its package linux-headers-{release}")
    machine = platform.machine()
    return module_for_tree(tree, ARCHITECTURES.get(machine, machine), progress, variables)


def module_for_tree(tree: Path, arch: str, progress: Progress, variables: tuple[str, ...] = ()) -> Path:
    """Return configtron.ko for the kernel of a tree, `arch` as in make; with KUnit, its unit tests are beside it."""
    require(absent_packages(PROGRAMS), "building the module")
    folder = cache_folder() / f"kmod-{_key(tree, arch, variables)}"
    if not is_whole(folder):
        with build_lock(progress, "kmod.lock"):  # not behind a kernel's minutes
            if not is_whole(folder):
                _build(folder, tree, arch, progress, variables)
    return folder / "configtron.ko"


def _key(tree: Path, arch: str, variables: tuple[str, ...]) -> str:
    files = sorted(path for path in sources().iterdir() if path.suffix in (".c", ".h") or path.name == "Kbuild")
    parts = [path.name.encode() + b"\0" + path.read_bytes() for path in files]
    parts += [path.read_bytes() for name in DECIDING if (path := tree / name).exists()]
    return key(arch.encode(), " ".join(variables).encode(), *parts)


def _build(folder: Path, tree: Path, arch: str, progress: Progress, variables: tuple[str, ...]) -> None:
    progress(f"building the module for {tree}")
    work = cache_folder() / f"kmod-building-{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    try:
        built = make_module(sources(), work / "objects", tree, arch, variables)
        (work / "result").mkdir()
        for module in built:
            shutil.copy(module, work / "result")
        keep(work / "result", folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
