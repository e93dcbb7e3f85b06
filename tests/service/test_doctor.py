# SPDX-License-Identifier: MIT
"""Hosts that are broken in one way get the sentence of that way, with what to type next, and no other's."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from configtron.cli.outermost import run
from configtron.linux.adjtimex import ClockState, clock_state
from configtron.linux.netns import holds
from configtron.linux.privileges import become, in_child
from configtron.linux.proc import PortHolder
from configtron.model.checks import GREEN, NOT_HERE, RED
from configtron.model.errors import CONDITION, DONE
from configtron.service.doctor import CAPABILITIES, EARLIEST_NS, clock_check, database_check, room_check
from configtron.service.outcomes.delivery import format_check, line_check, sender_of
from tests.support import ROOT
from tests.support.broken_host import HOSTS
from tests.support.isolation import apart, with_own_pins
from tests.support.real_servers import absent

# Kind of host -> the check that fails there, what it finds, what to type next.
SENTENCES = {
    "socket": ("log line as the web server's user", "www-data may not write to the socket", "chgrp www-data"),
    "folder": ("log line as the web server's user", "www-data may not enter the folder", "chmod g+x"),
    "format": ("log format", "the lines of nginx are not in the log format", "docs/learn.md"),
    "bpf": ("driver ebpf", "loading BPF programs needs CAP_BPF", "run as root"),
    "clock": ("clock", "no program keeps the clock synchronised", "timedatectl set-ntp true"),
    "disk": ("room on the disk", "has 0 MB left", "configtron --db FILE"),
}
SECOND_NS = 1_000_000_000
Capsys = pytest.CaptureFixture[str]


def examined(kind: str) -> dict[str, Any]:
    """Return what the doctor found on a host of this kind."""
    with tempfile.TemporaryDirectory(prefix="doctor-") as name:
        Path(name).chmod(0o755)
        words = [sys.executable, "-m", "tests.support.broken_host", kind, name]
        done = subprocess.run(apart(with_own_pins(words)), capture_output=True, text=True, cwd=ROOT, timeout=120)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.mark.root
@pytest.mark.parametrize("kind", HOSTS)
def test_a_broken_host_gets_its_sentence_and_no_other(kind: str) -> None:
    if why := absent("nginx"):
        pytest.skip(why)
    found = examined(kind)
    red = [one for one in found["checks"] if one["state"] == RED]
    named = {
        host for host, (check, text, then) in SENTENCES.items()
        if any(one["check"] == check and text in one["found"] and then in one["next"] for one in red)
    }  # fmt: skip
    assert named == {kind} & set(SENTENCES), red
    # root without capabilities is a sentence of its own
    assert len(red) == (0 if kind == "none" else 2 if kind == "bpf" else 1), red
    assert all(one["next"] for one in red)
    # what was sent is counted apart, and no page load became a row
    assert found["rows"] == 0 and found["counts"]["test-beacon"] == 1
    assert not {"beacons", "unreadable", "no-token"} & set(found["counts"])
    assert ("line-test" in found["counts"]) == (kind not in ("socket", "folder"))


def test_a_clock_is_judged_by_two_readings() -> None:
    first = ClockState(True, EARLIEST_NS + SECOND_NS, 5 * SECOND_NS)
    later = ClockState(True, EARLIEST_NS + 2 * SECOND_NS, 6 * SECOND_NS)
    assert clock_check(first, later).state == GREEN
    assert clock_check(first, later._replace(synchronised=None)).state == NOT_HERE
    for last, text in (
        (later._replace(synchronised=False), "no program keeps the clock synchronised"),
        (later._replace(wall_ns=later.wall_ns + SECOND_NS), "the clock was stepped by +1.0 s just now"),
        (later._replace(wall_ns=SECOND_NS), "the clock shows 1970-01-01 00:00:01+00:00"),
    ):
        found = clock_check(first, last)
        assert found.state == RED and found.next and text in found.found


def test_the_kernel_is_asked_for_its_clock() -> None:
    before_ns, found = time.time_ns(), clock_state()
    assert before_ns <= found.wall_ns <= time.time_ns() and found.boot_ns > 0
    # the kernel counts an error bound up, and gives synchronisation up when it has grown to 16 s
    if found.synchronised is None:
        pytest.skip("adjtimex(2) is refused here")


def test_a_line_is_sent_with_the_rights_of_the_process_that_logs() -> None:
    master, worker = PortHolder(1, "nginx", 0, 0), PortHolder(2, "nginx", 33, 33)
    assert sender_of([master, worker]) == worker
    first, child = PortHolder(1, "apache2", 0, 0), PortHolder(2, "apache2", 33, 33)
    assert sender_of([first, child]) == first, "Apache's logger is started by root"


OLD = {"heard": 9, "line-unreadable": 9}


@pytest.mark.parametrize(
    ("before", "after", "served", "state", "text"),
    [
        ({}, {"heard": 1, "joined": 1}, "a", GREEN, "the lines of nginx are understood (1 came"),
        ({}, {"heard": 1, "line-test": 2, "line-unreadable": 1}, "a", RED, "the lines of nginx are not in the log"),
        ({"heard": 9}, {"heard": 11, "line-without-token": 2}, "a", RED, "the lines of nginx have no token: 2 of 2"),
        (OLD, OLD | {"heard": 11}, "a", GREEN, "the lines of nginx are understood (2"),
        ({"line-test": 2}, {"line-test": 3}, "a", RED, "a served a page, and nginx sent no line"),
        ({"heard": 9}, {"heard": 9}, "a", GREEN, "the lines of nginx are understood (9"),
        ({}, {}, "", NOT_HERE, "no web server answers, and no line came yet"),
    ],
)
def test_lines_are_judged_by_what_the_reader_counted(
    before: dict[str, int], after: dict[str, int], served: str, state: str, text: str
) -> None:
    found = format_check(Counter(before), Counter(after), served, "nginx")
    assert found.state == state and found.found.startswith(text) and (state == GREEN or found.next)


@pytest.mark.parametrize("words", [["doctor"], ["probe", "doctor"]])
def test_the_exit_code_is_that_of_the_rows(words: list[str], tmp_path: Path, capsys: Capsys) -> None:
    code = run(["--db", str(tmp_path / "db"), *words, "-f", "jsonl"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    states = [row["state"] for row in rows]
    assert code == (CONDITION if RED in states else DONE)
    assert states == sorted(states, key=(RED, NOT_HERE, GREEN).index), "red checks stand first"
    assert all(row["next"] for row in rows if row["state"] == RED)
    assert not (tmp_path / "db").exists() and len(rows) > 4
    if holds(CAPABILITIES["CAP_NET_RAW"]):
        assert ("raw sockets and capture", GREEN) in [(row["check"], row["state"]) for row in rows]


@pytest.mark.root
def test_a_folder_that_is_closed_to_this_user_is_a_row_and_no_advice_to_own_a_system_s(tmp_path: Path) -> None:
    """The whole doctor ended in "Permission denied"; without a home, it advised `chown 65534 /`."""
    tmp_path.chmod(0o700)

    def judged() -> str:
        become("/", 65534, 65534, ())
        closed = tmp_path / "folder" / "db"
        return "\n".join(one.line() for one in (database_check(closed), room_check(closed), database_check(Path("/x"))))

    database, room, without_home = in_child(judged).split("\n")
    assert "cannot be written" in database and "MB" in room
    assert "/ cannot be written" in without_home and "chown" not in without_home


@pytest.mark.parametrize(("unit", "state", "then"), [("", RED, "see why: journal"), ("no", NOT_HERE, "learn serve")])
def test_a_unit_that_is_set_up_and_reads_nothing_is_red(tmp_path: Path, unit: str, state: str, then: str) -> None:
    found = line_check(tmp_path, PortHolder(1, "nginx", 0, 0), "unread", (80,), tmp_path / unit)
    assert found.state == state and then in found.next
