# SPDX-License-Identifier: MIT
"""Managed queues (fq_codel, PIE, CAKE) for the lab's kernel, as modules of its own source, built when one is asked for.

Rules for this file: the kernel stays as it is. It has no such discipline, and one more line in its configuration would
be another kernel for every measurement; a module that a guest loads changes those only that ask for it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from configtron.lab.testbed.conditions import AQMS
from configtron.lab.uml import kernel, modules
from configtron.lab.uml.recipes import LAB
from configtron.model.errors import Missing

# Within a shard's folder: the modules that its guest loads.
FOLDER = "modules"


def built() -> Path:
    """The folder with `sch_KIND.ko` for each of AQMS, in the cache; under a minute where it is absent. For the host.

    Errors: `Missing` without the kernel's source package or what compiles it.
    """
    tree = modules.ensure_tree(lambda line: None, LAB)
    folder = kernel.cache_folder() / f"aqm-{kernel.key(tree.name.encode(), *map(str.encode, AQMS))}"
    if not kernel.is_whole(folder):
        with kernel.build_lock(lambda line: None, "aqm.lock"):
            if not kernel.is_whole(folder):
                _build(folder, tree)
    return folder


def _build(folder: Path, tree: Path) -> None:
    kernel.require(kernel.absent_for(LAB), "building managed queues for the lab's kernel")
    work = kernel.cache_folder() / "aqm-building"
    shutil.rmtree(work, ignore_errors=True)
    sources, made = work / "sources", work / "made"
    sources.mkdir(parents=True)
    names = [f"{kernel.PACKAGE}/net/sched/sch_{kind}.c" for kind in AQMS]
    log = kernel.cache_folder() / "aqm-build.log"
    kernel.run(["tar", "-xJf", str(LAB.archive), "-C", str(sources), "--strip-components=3", *names], log)
    (sources / "Kbuild").write_text(f"obj-m := {' '.join(f'sch_{kind}.o' for kind in AQMS)}\n")
    done = work / "done"
    done.mkdir()
    for path in modules.make_module(sources, made, tree, LAB.arch):
        shutil.copy(path, done)
    kernel.keep(done, folder)
    shutil.rmtree(work, ignore_errors=True)


def lend(kinds: Iterable[str], folder: Path) -> None:
    """Copy the modules of these kinds into `folder`/FOLDER, where a guest can read them. For the host."""
    for kind in kinds:
        (folder / FOLDER).mkdir(exist_ok=True)
        shutil.copy(built() / f"sch_{kind}.ko", folder / FOLDER)


def load(kinds: Iterable[str], folder: Path) -> None:
    """Load them from there, once a boot. For the guest. Errors: `Missing`."""
    for kind in kinds:
        path = folder / FOLDER / f"sch_{kind}.ko"
        done = subprocess.run(["insmod", str(path)], capture_output=True, text=True, check=False)
        if done.returncode:
            words = "`learn measure` builds it and lends it to its guests"
            raise Missing(f"the queue {kind}: {done.stderr.strip()}; {words}")
