# SPDX-License-Identifier: MIT
"""What tests of this folder share: a guest with the module, and a host of its own for the drivers of a namespace."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from configtron.lab.uml.kmod import module_for_guest
from configtron.lab.uml.user_mode_linux import UmlVirtual
from tests.support.tune.in_guest import in_guest
from tests.support.tune.routed import applied, driver, hosts

__all__ = ["applied", "driver", "hosts"]


@pytest.fixture(scope="session")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Return what a program of tests/support/tune prints in a guest, given the module's path and more words.

    Each runs once. The kernel complained of nothing, and the module went at the end.
    """

    @cache
    def ran(program: str, *more: str, virtual_time: bool = True) -> Any:
        backend = UmlVirtual(virtual_time=virtual_time)
        if reason := backend.available():
            pytest.skip(reason)
        module = module_for_guest(lambda line: print(line, file=sys.stderr))
        name, *words = program.split()
        found = in_guest(backend, tmp_path_factory.mktemp(name), f"{name}.py", str(module), *words, *more)
        assert (found["unload"], found["complaints"]) == (0, [])
        return found

    return ran
