# SPDX-License-Identifier: MIT
"""What becomes of the ebpf driver's pins: by its own changes, by kills, by others' hands, beside another configtron."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.support.children import child
from tests.support.isolation import apart
from tests.support.tune.aside import ENVIRONMENT, HERE, aside, compiled, usable

pytestmark = pytest.mark.root


@contextmanager
def neighbour() -> Iterator[dict[str, bool]]:
    """Another configtron holds pins and congestion controls for the length of a block; what it says of them after."""
    usable()
    printed: dict[str, bool] = {}
    command = apart([sys.executable, str(HERE / "mishaps.py"), "neighbour"])
    with child(command, stdin=PIPE, stdout=PIPE, text=True, env=ENVIRONMENT) as other:
        assert other.stdin and other.stdout and other.stdout.readline() == "held\n"
        yield printed
        other.stdin.close()
        printed |= json.loads(other.stdout.read())


def failed(results: dict[str, Any]) -> set[str]:
    return {what for what, held in results.items() if not held}


def test_the_longest_prefix_is_found_in_the_kernel() -> None:
    assert aside("longest.py") == {"asked": 10_000, "wrong": [], "miscounted": [], "left": 0}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_mishaps(tmp_path: Path, beside: bool) -> None:
    other = tmp_path / "other.bpf.c"
    other.write_text(
        'char _license[] __attribute__((section("license"))) = "GPL";\n'
        "static long (*set)(void *, int, int, void *, int) = (void *)49;\n"
        '__attribute__((section("sockops"))) int other(unsigned *op)\n'
        '{ char reno[] = "reno"; if (*op == 5) set(op, 6, 13, reno, sizeof(reno)); return 1; }\n'
    )
    with neighbour() if beside else nullcontext({}) as printed:
        results = aside("mishaps.py", "changes", str(compiled(other, tmp_path)))
    assert set(printed.values()) <= {True}, printed
    assert "another program holds the control group" in results.pop("held by another")
    assert failed(results) == set() and len(results) > 15


def test_pins_that_are_gone(tmp_path: Path) -> None:
    """Unmounted, removed by hand, or made where they would not stay."""
    results = aside("mishaps.py", "gone", str(tmp_path))
    code, printed = results.pop("apply in ip netns exec")
    assert code == 5 and printed.count("\n") == 1 and "run it outside, with --netns other" in printed
    assert failed(results) == set()


def test_killed_before_any_call() -> None:
    """Every ninth here, at least fifty in all; `cut_short.py` alone tries each."""
    with neighbour() as printed:
        results = aside("cut_short.py", "9")
    assert set(printed.values()) == {True}, printed
    assert {what: sweep["wrong"] for what, sweep in results.items() if sweep["wrong"]} == {}
    assert sum(sweep["turns"] // 9 + 1 for sweep in results.values()) >= 50


def test_a_filled_table_is_changed_by_the_program_prefix_by_prefix(tmp_path: Path) -> None:
    assert failed(aside("many_prefixes.py", "filled", str(tmp_path))) == set()


def test_applies_of_many_prefixes_that_are_killed(tmp_path: Path) -> None:
    """Between journal and kernel, and within either; `many_prefixes.py killed` alone tries each call."""
    results = aside("many_prefixes.py", "killed", str(tmp_path), "79")
    assert {what: sweep["wrong"] for what, sweep in results.items() if sweep["wrong"]} == {}
    assert all(set(sweep["states"]) == {"before", "then"} for sweep in results.values()), results
    assert sum(sweep["turns"] // 79 + 1 for sweep in results.values()) > 9


def test_a_change_of_one_of_many_prefixes_by_another_program(tmp_path: Path) -> None:
    results = aside("many_prefixes.py", "changed", str(tmp_path))
    assert not results.pop("left")
    same = {"before": [], "due": 1, "as wanted": True, "after": 0}
    assert results == {
        "changed": same | {"differences": [["11.0.0.0/24", "one", "two"]]},
        "IPv6 changed": same | {"differences": [["2001:db8:2::/48", "one", "two"]]},
        "added": same | {"differences": [["198.51.100.0/24", None, "two"]]},
        "exchanged": same | {"differences": [["11.0.0.0/24", "one", None]]},
    }
