# SPDX-License-Identifier: MIT
"""Which tests `make check` leaves to `make test`: those of tests/slow.txt, made from a run that measured each test.

    CONFIGTRON_TEST_CPU=FILE python -m pytest ...     appends "CPU seconds, test" for each test to the file
    python -m tests.support.slow_tests FILE           writes tests/slow.txt from it; tests that it did not measure stay

Seconds are of the processor, of the test and its children: a busy machine makes no test slow. Functions count with all
their parameters.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from rigs import ROOT

LIST = ROOT / "tests" / "slow.txt"
# A developer's loop of 60 s on two cores has room for some 5 000 tests, and for none that takes longer.
MOST_S = 0.3
# The rules of the repository are checked at every change, whatever they take.
ALWAYS = ("docs", "layers", "monkeypatches", "one_place", "shape", "words")
VARIABLE = "CONFIGTRON_TEST_CPU"
HEAD = "# Tests that take more than {:g} s of a processor; made by tests/support/slow_tests.py.\n"


def slow_tests(text: str) -> frozenset[str]:
    """Return the test functions of a list."""
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


def function(nodeid: str) -> str:
    """Return a test's function: its name without parameters."""
    return nodeid.partition("[")[0]


def measured(lines: Iterable[str]) -> list[str]:
    """Return the functions that take too long, of lines "CPU seconds, test"."""
    seconds: Counter[str] = Counter()
    for line in lines:
        spent, _, nodeid = line.strip().partition(" ")
        seconds[function(nodeid)] += float(spent)  # type: ignore[assignment]
    always = tuple(f"tests/test_{name}.py::" for name in ALWAYS)
    return sorted(name for name, spent in seconds.items() if spent > MOST_S and not name.startswith(always))


def mark(items: Iterable[pytest.Item]) -> None:
    """Give the slow tests their marker."""
    names = slow_tests(LIST.read_text())
    for item in items:
        if function(item.nodeid) in names:
            item.add_marker(pytest.mark.slow)


def spent_s() -> float:
    """Return the CPU seconds of this process and its ended children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure a test, where the variable names a file."""
    began = spent_s()
    yield
    if file := os.environ.get(VARIABLE):
        with Path(file).open("a") as out:
            out.write(f"{spent_s() - began:.3f} {item.nodeid}\n")


def main(path: str) -> None:
    """Write the list."""
    lines = Path(path).read_text().splitlines()
    seen = {function(line.strip().partition(" ")[2]) for line in lines}
    unmeasured = slow_tests(LIST.read_text()) - seen
    found = sorted({*measured(lines), *unmeasured})
    LIST.write_text(HEAD.format(MOST_S) + "".join(f"{name}\n" for name in found))


if __name__ == "__main__":
    main(sys.argv[1])
