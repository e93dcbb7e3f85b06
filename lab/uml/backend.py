# SPDX-License-Identifier: MIT
"""What every way to have a host is, and what those with a kernel of their own share: whether it can be used here.

A backend of uml.py or qemu.py is a `Guest` that says what it needs: programs with their packages, a kernel of ours
(recipes.py) or things of the distribution's. From that follows whether it is available, and what to install.
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
    """One way to have a host of our own."""

    @property
    def name(self) -> str:
        """As in --backend."""

    @property
    def virtual_time(self) -> bool:
        """Whether time inside is computed, not passed."""

    @property
    def delays(self) -> bool:
        """Whether links can be given a delay."""

    def available(self) -> str:
        """Empty when usable here, else what is missing, in words."""

    def boot(self, job: GuestJob) -> Running:
        """Start the job; returns at once."""


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
        """Packages that it lacks besides."""
        return []

    def kernel(self) -> Path:
        """Return its kernel of ours, built if need be."""
        assert self.recipe
        return ensure_kernel(say, self.recipe)


def say(line: str) -> None:
    """Report how a build goes, beside what is printed."""
    print(line, file=sys.stderr, flush=True)
