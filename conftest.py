# SPDX-License-Identifier: MIT
"""Tests that need what this run does not have are skipped, and say what. No drawn example is timed."""

from __future__ import annotations

import gc
import os
import subprocess

import pytest
from hypothesis import HealthCheck, settings

from tests.support.interrupts import pytest_runtest_makereport, pytest_sessionstart, pytest_unconfigure
from tests.support.selection import Selection, pytest_addoption

__all__ = ["pytest_addoption", "pytest_runtest_makereport", "pytest_sessionstart", "pytest_unconfigure"]

# Threads of BLAS on two cores wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A busy machine is no fault of the code: speed is for benchmarks/.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Thousands of test items and the trees of a thousand files live until the end: the collector need not read them again
# and again. Collection itself makes no garbage to speak of.
GENERATIONS = (50_000, 20, 20)
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Selection(config), "selection")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Collect garbage again, rarely, and only what tests make."""
    gc.freeze()
    gc.set_threshold(*GENERATIONS)
    gc.enable()


def lack() -> str:
    """Return why no test that needs root can run here, or nothing."""
    if os.geteuid():
        return "needs root"
    done = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True)
    return f"needs namespaces: {done.stderr.strip()}" if done.returncode else ""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if reason := lack():
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason=reason))
