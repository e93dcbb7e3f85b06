# SPDX-License-Identifier: MIT
"""Hooks of conftest.py that select the tests of a session and record their seconds.

    --record FILE   record each test that ended, and leave out those that passed on the same sources, so that an
                    interrupted run resumes; at the end, print a table of seconds by folder
    --failed        run only the tests that failed in the session that the record ends with
    --changed BASE  run only the tests that the changes since the commit BASE reach, the nearest first
    --budget-s N    start no test later than N seconds after the session

With pytest-xdist the first process selects, and hands the selection to its workers.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, changed

# CPU seconds of a quick test with its child processes: some 5 000 such tests take a developer 60 s on two cores. CPU
# time, since a busy machine makes no test slow.
QUICK_S = 0.3

# Tests that `make check` leaves out are not measured against QUICK_S.
MARKED = {"slow", "root", "lab", "wheel", "proof"}
_CPU = pytest.StashKey[float]()
_BEGAN_S = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("configtron")
    group.addoption("--record", type=Path, metavar="FILE")
    group.addoption("--failed", action="store_true")
    # Without BASE, as of a checkout that has no history: every test.
    group.addoption("--changed", metavar="BASE", nargs="?", const="")
    group.addoption("--budget-s", type=float, default=float("inf"), metavar="N")


def digest() -> str:
    """Return a digest of the sources: of the commit and of the changes since. Without git it is a new one each time."""
    commands = (["rev-parse", "HEAD"], ["diff", "HEAD"], ["ls-files", "--others", "--exclude-standard"])
    texts = [subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False).stdout for words in commands]
    texts += (
        [(ROOT / os.fsdecode(path)).read_bytes() for path in texts[-1].splitlines()] if texts[0] else [os.urandom(8)]
    )
    return hashlib.sha256(b"".join(texts)).hexdigest()[:16]


def recorded(file: Path | None, sources: str = "") -> list[dict[str, Any]]:
    """Return a record's rows of these sources ("": those of its last row), without lines that a kill cut short."""
    if file is None or not file.exists():
        return []
    lines = [line for line in file.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    rows = [json.loads(line) for line in lines]
    return [row for row in rows if row["sources"] == (sources or rows[-1]["sources"])]


class Selection:
    """Selects and records. ended: test -> outcome recorded last; far: test file -> distance from it, None: all."""

    def __init__(self, config: pytest.Config) -> None:
        self.file: Path | None = config.getoption("record")
        self.budget_s: float = config.getoption("budget_s")
        self.only_failed: bool = config.getoption("failed")
        given = getattr(config, "workerinput", {}).get("selection")
        self.is_first = given is None
        self.ended: dict[str, str]
        self.far: dict[str, int] | None
        self.ended, self.far = given or self._select(config)
        self.rows: dict[str, dict[str, Any]] = {}
        self.unproven: dict[str, str] = {}
        self.slow: set[str] = set()

    def _select(self, config: pytest.Config) -> tuple[dict[str, str], dict[str, int] | None]:
        self.sources = digest() if self.file else ""
        rows = recorded(self.file, "" if self.only_failed else self.sources)
        base = config.getoption("changed")
        try:
            far = changed.distances(changed.changed_files(base)) if base else None
        except subprocess.CalledProcessError as error:
            raise pytest.UsageError(f"--changed {base}: {error.stderr.strip().splitlines()[0]}") from error
        return {row["test"]: row["outcome"] for row in rows}, far

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: object) -> None:
        """Hand the selection to a worker of pytest-xdist."""
        node.workerinput["selection"] = (self.ended, self.far)  # type: ignore[attr-defined]

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        far = self.far
        keep = [item for item in items if self._is_due(item.nodeid) and (far is None or _file(item.nodeid) in far)]
        if far is not None:
            keep.sort(key=lambda item: far[_file(item.nodeid)])
        config.hook.pytest_deselected(items=[item for item in items if item not in set(keep)])
        items[:] = keep

    def _is_due(self, test: str) -> bool:
        outcome = self.ended.get(test, "")
        return outcome == "failed" if self.only_failed else outcome != "passed"

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        item.stash[_CPU] = _spent_s()
        if time.monotonic() - _BEGAN_S > self.budget_s:
            item.add_marker(pytest.mark.skip(reason=f"the session's {self.budget_s:.0f} s were over"), append=False)
        yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        outcome = yield
        outcome.get_result().user_properties.append(("cpu_s", _spent_s() - item.stash[_CPU]))  # type: ignore[attr-defined]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not self.is_first:
            return
        new = {"test": report.nodeid, "outcome": "passed", "wall_s": 0.0, "cpu_s": 0.0}
        row = self.rows.setdefault(report.nodeid, new)
        row["wall_s"] += report.duration
        row["cpu_s"] = dict(report.user_properties).get("cpu_s", 0.0)
        if report.outcome != "passed":
            row["outcome"] = report.outcome
        if report.skipped and "proof" in report.keywords:
            self.unproven[report.nodeid.partition("[")[0]] = _reason(report)
        if report.when != "teardown":
            return
        if row["cpu_s"] > QUICK_S and not MARKED & report.keywords.keys():
            self.slow.add(report.nodeid.partition("[")[0])
        if self.file:
            with self.file.open("a") as out:
                out.write("\n" + json.dumps(row | {"sources": self.sources}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.is_first:
            return
        for test, reason in self.unproven.items():
            terminalreporter.write_line(f"not proven here: {test}: {reason}")
        if self.file:
            for line in table(recorded(self.file, self.sources)):
                terminalreporter.write_line(line)
            for name in sorted(self.slow):
                terminalreporter.write_line(f"over {QUICK_S} s of the processor, and not marked slow: {name}")


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a table: tests and seconds by folder, by the last row of each test."""
    folders: dict[str, Counter[str]] = defaultdict(Counter)
    for row in {row["test"]: row for row in rows}.values():
        folder = str(Path(_file(row["test"])).parent)
        folders[folder].update({"tests": 1, row["outcome"]: 1, "wall_s": row["wall_s"], "cpu_s": row["cpu_s"]})
    heads = ("tests", "passed", "skipped", "failed", "wall_s", "cpu_s")
    lines = [f"{'folder':36}" + "".join(f"{head:>9}" for head in heads)]
    for folder, counts in (*sorted(folders.items()), ("all", sum(folders.values(), Counter()))):
        lines.append(f"{folder:36}" + "".join(f"{counts[head]:9.0f}" for head in heads))
    return lines


def _reason(report: pytest.TestReport) -> str:
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr).removeprefix("Skipped: ")


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _spent_s() -> float:
    """Return the CPU seconds of this process and of its ended children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
