# SPDX-License-Identifier: MIT
"""Kernel modules of ours, built for one of the kernels of recipes.py.

Question   How is kernel code compiled for a guest's kernel whose source is unpacked only while it is built?
Method     A module needs of its kernel the headers, the configuration and kbuild: `make modules_prepare` in the source,
           then everything else is thrown away (1.5 GB become 100 MB). The tree is kept in the cache under the kernel's
           own checksum. The list of exported symbols comes from the kernel's build; without it (a cache older than
           this file) a module with a symbol that the kernel does not export fails when it is loaded.
Safe       Built aside and renamed when complete, like the kernels. A module is built in a folder of the caller's, from
           copies of its sources: nothing is written beside them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from configtron.lab.uml.kernel import (
    UNPACKED,
    Progress,
    build_environment,
    build_lock,
    child_command,
    configured,
    is_whole,
    keep,
    kernel_folder,
    run,
)
from configtron.lab.uml.recipes import LAB, KernelRecipe
from configtron.model.errors import Missing

# Parts of a kernel's source that the build of a module needs; kbuild itself is in scripts.
KEPT = ("Makefile", "Kbuild", "arch", "include", "scripts", "tools")
# Of the others kconfig reads its own files. These are not even unpacked: to remove them again took two minutes.
UNUSED = (
    "drivers/*.[chS]", "sound/*.[chS]", "fs/*.[chS]", "net/*.[chS]", "arch/[!ux]*/*.[chS]", "arch/[!ux]*/*.dts*",
    "Documentation/*.rst", "Documentation/*.txt", "Documentation/*.yaml", "tools/testing/*", "tools/perf/*",
)  # fmt: skip
# Of arch: User-Mode Linux borrows most of x86.
KEPT_ARCHITECTURES = ("um", "x86")


def tree_folder(recipe: KernelRecipe = LAB) -> Path:
    """Return the cache folder of this kernel's build tree, made or not."""
    return kernel_folder(recipe).with_name(f"modules-{kernel_folder(recipe).name}")


def ensure_tree(progress: Progress, recipe: KernelRecipe = LAB) -> Path:
    """Return the folder for `make -C` to build modules for this kernel; prepare it, in under a minute, if absent."""
    folder = tree_folder(recipe)
    if is_whole(folder):
        return folder
    with build_lock(progress):
        if not is_whole(folder):
            build_tree(folder, progress, recipe)
    return folder


def build_tree(folder: Path, progress: Progress, recipe: KernelRecipe) -> None:
    """Unpack, configure, prepare, throw away what no module needs."""
    with configured(recipe, progress, "source", UNUSED) as (work, make, log):
        progress(f"preparing the {recipe.title}'s headers for modules: about a minute, once")
        run([*make, f"-j{os.cpu_count() or 1}", "modules_prepare"], log)
        source = work / "source"
        # From here on it is no whole source any more, should this be cut short.
        (work / UNPACKED).unlink()
        for path in source.iterdir():
            if path.name not in (*KEPT, ".config"):
                remove(path)
        for path in (source / "arch").iterdir():
            if path.name not in KEPT_ARCHITECTURES:
                remove(path)
        for path in (source / "tools").iterdir():
            if path.name != "objtool":
                remove(path)
        exported = kernel_folder(recipe) / "Module.symvers"
        if exported.exists():
            shutil.copy(exported, source)
        keep(source, folder)
    progress(f"ready to build modules: {folder}")


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def copy_sources(sources: Path, folder: Path) -> None:
    """Copy what a module is built from: nothing is written beside the sources."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sources.rglob("*"):
        if path.suffix in (".c", ".h") or path.name in ("Kbuild", "Makefile"):
            copy = folder / path.relative_to(sources)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def make_module(
    sources: Path, folder: Path, tree: Path, arch: str, variables: tuple[str, ...] = ()
) -> tuple[Path, ...]:
    """Build every module that the Kbuild file in `sources` names, in `folder`; returns the .ko files.

    `variables` are handed to make as they are, e.g. `CONFIGTRON_BENCH=1`.

    Warnings are as the Kbuild file has them. `Missing` with the compiler's last words when it does not compile.
    """
    copy_sources(sources, folder)
    unknown = [] if (tree / "Module.symvers").exists() else ["KBUILD_MODPOST_WARN=1"]
    make = ["make", f"--directory={tree}", f"M={folder}", f"ARCH={arch}", *unknown, *variables, "modules"]
    done = subprocess.run(child_command(make), capture_output=True, text=True, env=build_environment(), check=False)
    if done.returncode:
        raise Missing(f"{sources} does not compile for {tree}:\n{(done.stdout + done.stderr)[-3000:]}")
    return tuple(sorted(folder.rglob("*.ko")))
