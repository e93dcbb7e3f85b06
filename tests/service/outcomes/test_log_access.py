# SPDX-License-Identifier: MIT
"""Who may write to the log socket, and what is reported where no log line comes or a page load is not accepted."""

from __future__ import annotations

import grp
import logging
import os
import re
import socket
import stat
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from configtron.db.fleet import FleetStore
from configtron.intake.pageloads.plan_book import PlanBook
from configtron.intake.pageloads.reasons import ALL, PROGRESS
from configtron.intake.receiving.log_socket import LogSocket
from configtron.model.close_records import CloseRecord, OpenRecord
from configtron.model.errors import BadInput
from configtron.service.fleet.agent_metrics import outcome_samples
from configtron.service.learning.loop_pages import loop_texts
from configtron.service.outcomes.counts_report import CountsReport
from configtron.service.outcomes.root_reader import ENOUGH_ENDED, RootReader
from configtron.service.outcomes.web_group import NAMES, web_group
from tests.support import ROOT
from tests.support.children import child
from tests.support.pageloads import closed, opened
from tests.support.running_outcomes import running_outcomes

# Any number that is no group of a package.
GROUP = 54_321
LISTEN = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"


@pytest.mark.root
def test_the_group_is_that_of_the_workers_that_listen(tmp_path: Path) -> None:
    """As nginx: the first process is root, its workers are not, and all hold the listening socket."""
    with child([sys.executable, "-c", LISTEN], group=GROUP, extra_groups=[], text=True,
               stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:  # fmt: skip
        assert worker.stdin is not None and worker.stdout is not None
        port = int(worker.stdout.readline())
        assert web_group(ports=(port,)) == GROUP
        worker.stdin.close()
        worker.wait(60)
    known = [one.gr_name for one in grp.getgrall()]
    named = next((name for name in NAMES if name in known), None)
    assert web_group(ports=(port,)) == (grp.getgrnam(named).gr_gid if named else None)


def test_a_group_that_is_none_is_refused_by_name() -> None:
    assert web_group("root") == 0
    with pytest.raises(BadInput, match="--log-group 'no such': no group is called that"):
        web_group("no such")


@pytest.mark.root
def test_only_root_and_the_group_reach_the_socket_and_a_folder_that_was_made(tmp_path: Path) -> None:
    LogSocket(tmp_path / "made" / "log", GROUP + 1).close()
    lines = LogSocket(tmp_path / "made" / "log", GROUP)
    found = [(os.stat(path).st_uid, os.stat(path).st_gid, stat.S_IMODE(os.stat(path).st_mode))
             for path in (tmp_path / "made" / "log", tmp_path / "made")]  # fmt: skip
    lines.close()
    assert found == [(0, GROUP, 0o660), (0, GROUP, 0o2750)]
    tmp_path.chmod(0o755)
    LogSocket(tmp_path / "log", GROUP).close()
    assert tmp_path.stat().st_gid == 0, "a folder for other things keeps its group"


class EndedConnections:
    """Records of connections that ended, a given number in each reading."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = list(numbers)

    def records(self) -> list[OpenRecord | CloseRecord]:  # type: ignore[override]
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        count = self._numbers.pop(0) if self._numbers else 0
        begun = [opened(now_ns, port + 1) for port in range(count)]
        return [*begun, *(closed(one, now_ns) for one in begun)]

    def lost_records(self) -> int:
        return 0


def test_a_reader_that_hears_no_line_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "configtron.fleet")
    lines = LogSocket(tmp_path / "log")
    reader = RootReader(EndedConnections(ENOUGH_ENDED - 1, 1, 5), lines, PlanBook())  # type: ignore[arg-type]
    reader.turn()
    assert not reader.silence and not caplog.messages
    reader.turn()
    reader.turn()
    (shown,) = caplog.messages
    group = grp.getgrgid(os.stat(tmp_path / "log").st_gid).gr_name
    assert shown == reader.silence and f"{tmp_path}/log (group {group}, mode 0660)" in shown
    assert shown.startswith(f"{ENOUGH_ENDED} connections") and shown.endswith("configtron doctor")
    assert outcome_samples(reader.records())["agent_records_total"] == {
        ("open",): 25, ("close",): 25, ("lost",): 0, ("line",): 0
    }  # fmt: skip
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.sendto(b"a line", str(tmp_path / "log"))
    reader.turn()
    assert not reader.silence and reader.records()[3] == 1
    lines.close()


def test_the_minute_line_gives_each_beacon_a_result(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "configtron.fleet")
    report = CountsReport("page loads", lambda: 2)
    counts = Counter({"beacons": 16, "accepted": 6, "again": 5, "unknown-token": 3})
    report.turn(lambda: counts, now=True)
    assert caplog.messages == ["page loads: 16 beacons, 6 accepted, 5 again, 3 unknown-token, 2 waiting"]


def test_the_document_explains_each_word_of_the_minute_line() -> None:
    page = (ROOT / "docs" / "learn.md").read_text()
    rows = dict(re.findall(r"^\| `([\w -]+)` \| (.*) \|$", page, re.M))
    assert {name: rows.get(name) for name in (ALL | PROGRESS)} == ALL | PROGRESS


def test_page_and_metrics_of_a_loop_that_hears_no_line_show_it(tmp_path: Path) -> None:
    with FleetStore(tmp_path / "l.db"):
        pass
    with running_outcomes(tmp_path / "log", EndedConnections(ENOUGH_ENDED)) as outcomes:  # type: ignore[arg-type]
        outcomes.wait(lambda: bool(outcomes.local.reader.silence))
        texts = loop_texts(tmp_path / "l.db", outcomes=outcomes.local)
        assert "it sent no log line to" in texts["/"].make()
        assert 'configtron_agent_records_total{kind="line"} 0\n' in texts["/metrics"].make()
    assert "no log line" not in loop_texts(tmp_path / "l.db")["/"].make()
