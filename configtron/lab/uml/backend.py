# SPDX-License-Identifier: MIT
"""The interface of all backends for hosts, and the shared check of backends with a kernel of their own.

A backend of user_mode_linux.py or qemu.py is a `Guest` that lists its requirements: programs with their packages, a
kernel of ours (recipes.py) or files of the distribution. The check finds out whether it is usable, and names the
packages to install.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from configtron.lab.uml.enclosure import GuestJob, Running, cannot_enclose, missing
from configtron.lab.uml.kernel import INIT_PROGRAMS, absent_for, absent_packages, ensure_kernel, is_whole, kernel_folder
from configtron.lab.uml.recipes import KernelRecipe


class Backend(Protocol):
    """A backend: it boots hosts of the lab."""

    @property
    def name(self) -> str:
        """Return the backend's name in --backend."""

    @property
    def virtual_time(self) -> bool:
        """Return whether the guest's time is virtual."""

    @property
    def delays(self) -> bool:
        """Return whether links can have a delay."""

    def available(self) -> str:
        """Return the missing requirements, in words; "" where the backend is usable."""

    def boot(self, job: GuestJob) -> Running:
        """Start the job and return at once."""


@dataclass(frozen=True)
class Guest:
    """A backend with a kernel of its own; `boot` is the subclass's."""

    name: str
    virtual_time: bool = False
    delays: bool = True
    # program -> package
    programs: ClassVar[Mapping[str, str]] = INIT_PROGRAMS
    # None: the kernel is the distribution's
    recipe: ClassVar[KernelRecipe | None] = None

    def available(self) -> str:
        recipe = self.recipe
        unbuilt = absent_for(recipe) if recipe and not is_whole(kernel_folder(recipe)) else []
        packages = [*absent_packages(self.programs), *self.absent(), *unbuilt]
        return cannot_enclose() or missing(list(dict.fromkeys(packages)))

    def absent(self) -> list[str]:
        """Return further packages that it lacks."""
        return []

    def kernel(self) -> Path:
        """Return the path of its kernel, which is ours; build it if the cache lacks it."""
        assert self.recipe
        return ensure_kernel(say, self.recipe)


def say(line: str) -> None:
    """Print the progress of a build to stderr."""
    print(line, file=sys.stderr, flush=True)
