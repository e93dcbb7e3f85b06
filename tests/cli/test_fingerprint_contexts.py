# SPDX-License-Identifier: MIT
"""`fingerprint contexts`: what a watch kept, and the list of watches."""

from __future__ import annotations

import csv
import io
import json
import socket
from pathlib import Path

import pytest

from configtron.model.errors import NOTHING
from configtron.report.contexts import TABLE, shown
from tests.cli.test_fingerprint_live import run_fingerprint

pytestmark = pytest.mark.root


def test_a_watch_that_saw_nothing_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        done = run_fingerprint(tmp_path, "socket", "--port", str(unused.getsockname()[1]))
    assert done.returncode == NOTHING and done.stderr == "sockets: 0 connections reported; 0 dropped\n"
    for name in ("1", "last"):
        done = run_fingerprint(tmp_path, "contexts", name)
        assert (done.returncode, done.stdout, done.stderr) == (NOTHING, "", "configtron: watch 1: stored no context\n")


def test_the_list_of_watches_speaks_every_form(tmp_path: Path) -> None:
    run_fingerprint(tmp_path, "socket")
    (line,) = run_fingerprint(tmp_path, "contexts", "-f", "jsonl").stdout.splitlines()
    found = json.loads(line)
    assert list(found) == sorted(found) and found["watch"] == 1 and isinstance(found["contexts"], int)
    assert found.pop("schema") == "configtron.watches/1"
    (row,) = csv.DictReader(io.StringIO(run_fingerprint(tmp_path, "contexts", "-f", "csv").stdout))
    assert row == {name: str(value) for name, value in found.items()}
    head, message = run_fingerprint(tmp_path, "contexts").stdout.splitlines()
    assert head.split() == list(row) and message.split() == list(row.values())


@pytest.mark.parametrize("width", range(79, 160))
def test_a_narrow_terminal_has_whole_columns(width: int) -> None:
    """What says most stays; the sum of widths and gaps fits."""
    names = [TABLE[place][0] for place in shown(width)]
    assert {"client", "rtt [ms]", "min [ms]", "loss", "bandwidth [kbit/s]"} <= set(names)
    assert sum(TABLE[place][1] + 2 for place in shown(width)) - 2 <= width
    assert ("asn" in names) == (width >= 140)
