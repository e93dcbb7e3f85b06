# SPDX-License-Identifier: MIT
"""What becomes of the ebpf driver's pins: by its own changes, by kills, by others' hands, beside another configtron."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.support.children import child
from tests.support.isolation import apart
from tests.support.tune.aside import ENVIRONMENT, HERE, aside, compiled, usable


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


@pytest.mark.root
def test_the_longest_prefix_is_found_in_the_kernel() -> None:
    results = aside("longest.py")
    assert results == {"asked": 10_000, "wrong": [], "miscounted": [], "left": 0}


@pytest.mark.root
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_mishaps(tmp_path: Path, beside: bool) -> None:
    other = tmp_path / "other.bpf.c"
    other.write_text(
        'char _license[] __attribute__((section("license"))) = "GPL";\n'
        '__attribute__((section("sockops"))) int other(void *ops) { return 1; }\n'
    )
    with neighbour() if beside else nullcontext({}) as printed:
        results = aside("mishaps.py", "changes", str(compiled(other, tmp_path)))
    assert set(printed.values()) <= {True}, printed
    assert "another program holds the control group" in results.pop("held by another")
    assert "no profile is called 'absent'" in results.pop("unknown profile")
    assert "'slow' is dropped" in results.pop("profile in use")
    assert {what for what, held in results.items() if not held} == set()
    assert len(results) > 15


@pytest.mark.root
def test_pins_that_are_gone(tmp_path: Path) -> None:
    """Unmounted, removed by hand, or made where they would not stay."""
    results = aside("mishaps.py", "gone", str(tmp_path))
    code, printed = results.pop("apply in ip netns exec")
    assert code == 5 and printed.count("\n") == 1 and "run it outside, with --netns other" in printed
    assert {what for what, held in results.items() if not held} == set()


@pytest.mark.root
def test_killed_before_any_call() -> None:
    """Every ninth here, at least fifty in all; `cut_short.py` alone tries each."""
    with neighbour() as printed:
        results = aside("cut_short.py", "9")
    assert set(printed.values()) == {True}, printed
    assert {what: sweep["wrong"] for what, sweep in results.items() if sweep["wrong"]} == {}
    assert sum(sweep["turns"] // 9 + 1 for sweep in results.values()) >= 50
