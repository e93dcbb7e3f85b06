# SPDX-License-Identifier: MIT
"""configtron.ko for the lab's kernel: built outside, loaded inside; and commands that run where it is loaded."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from configtron.lab.uml.backend import say
from configtron.lab.uml.kmod import module_for_guest
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT, Backend, GuestJob, UmlVirtual
from tests.support import ROOT

# Where a guest finds it.
MODULE = Path(GUEST_OUTPUT) / "configtron.ko"
# The shell's words that load it and become the command that follows.
LOADED = ("sh", "-c", f'insmod {MODULE} && exec "$@"', "loaded")
# A hundred thousand prefixes, a million with their text in Python.
MEMORY_MB = 1024


def build(folder: Path) -> None:
    """Put it into the folder that will be a guest's output; built unless the cache has it."""
    shutil.copyfile(module_for_guest(say), folder / MODULE.name)


def kernel() -> Backend:
    """The lab's kernel in real time: what is waited for there is waited for here."""
    return UmlVirtual("uml-own-real", virtual_time=False)


def run(words: Sequence[str], limit_s: int) -> tuple[int, str]:
    """Run a command in this repository, on the lab's kernel with the module: (exit code, all that it printed).

    Errors: `Missing` without the lab. A command that runs into its limit has the code NO_EXIT_CODE.
    """
    with tempfile.TemporaryDirectory(prefix="configtron-") as folder:
        build(Path(folder))
        core, environment = max(os.sched_getaffinity(0)), (("PYTHONPATH", str(ROOT)),)
        job = GuestJob((*LOADED, *words), Path(folder), 1, core, MEMORY_MB, environment, limit_s)
        running = kernel().boot(job)
        code = running.wait()
        return code, running.console.read_text() + (running.last_words() if code else "")
