# SPDX-License-Identifier: MIT
"""Killed anywhere, the host is as it was within the lease; and what a watch sees on a real stack."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from configtron.db.tuning import Tuning
from configtron.model.tuning import Place
from configtron.service.lease.processes import alive, end, ended, named
from configtron.service.lease.undo import REQUESTED
from configtron.service.lease.watchdog import OVERRUN_S
from configtron.tune.drivers import load
from configtron.tune.journal import KEPT, UNDOING, WRITING
from tests.support import guest_module
from tests.support.children import child
from tests.support.kill_points import Point, campaign, kill_at, points, put_back, restored
from tests.support.tune.leases import lease_left_s, shorten_lease
from tests.support.tune_sandbox import TuneSandbox, tune_sandbox
from tests.support.waiting import PATIENCE_S, until

# A guest that takes longer hangs.
GUEST_LIMIT_S = 300
pytestmark = pytest.mark.root


def needs(driver: str) -> None:
    if lack := load(driver, Place()).missing():
        pytest.skip(lack)


@pytest.mark.proof
@pytest.mark.parametrize("driver", ["sysctl", "route", "ebpf"])
def test_a_lease_that_ends_and_a_kill_leave_the_host_as_it_was(driver: str) -> None:
    needs(driver)
    assert put_back(driver, PATIENCE_S)


@pytest.mark.proof
@pytest.mark.lab
def test_so_does_the_module_in_a_guest() -> None:
    if lack := guest_module.kernel().available():
        pytest.skip(lack)
    code, printed = guest_module.run([sys.executable, "-m", "tests.support.kill_points", "kmod"], GUEST_LIMIT_S)
    assert code == 0, printed


@pytest.mark.parametrize("verb", ["apply", "rollback"])
@pytest.mark.parametrize(("driver", "count"), [("sysctl", 5), ("route", 5), ("kmod", 1)])
def test_killed_at_some_calls(driver: str, count: int, verb: str) -> None:
    needs(driver)
    assert campaign(driver, verb, count, PATIENCE_S)


def watchdog_of(here: TuneSandbox) -> str:
    ((_, _, lease_watchdog),) = here.open_acts()
    return lease_watchdog


def last_send(here: TuneSandbox, words: tuple[str, ...]) -> Point:
    """The last write of an apply to the kernel; what it had done is undone."""
    send = next(p for p in reversed(points(here, words, 10_000)) if p.call in ("sendto", "sendmsg"))
    here.run("rollback")
    return Point(send.call, send.number)


def test_a_killed_watchdog_is_replaced_and_none_is_left() -> None:
    with tune_sandbox("sysctl") as here:
        baseline = here.state()
        here.run("apply", *here.where, "--lease", "10")
        first = watchdog_of(here)
        assert alive(first) and here.state() != baseline
        end(first, signal.SIGKILL)
        status = subprocess.run(here.command("status"), capture_output=True, text=True).stdout
        assert "nobody will undo it" in status
        here.run("recover")
        second = watchdog_of(here)
        assert alive(second) and second != first
        assert restored(here, baseline, PATIENCE_S) is not None
        assert not alive(second)


def test_an_act_whose_database_is_removed_is_undone() -> None:
    with tune_sandbox("route") as here:
        baseline = here.state()
        here.run("apply", *here.where, "--lease", "60")
        assert restored(here, baseline, 1.0) is None, "a baseline that does not come back is seen"
        lease_watchdog = watchdog_of(here)
        here.database.unlink()
        assert ended(lease_watchdog, PATIENCE_S)
        assert here.state() == baseline


def test_an_apply_that_hangs_is_ended_after_its_lease() -> None:
    """Stopped while it writes, holding the lock: the watchdog cannot wait for it."""
    with tune_sandbox("route") as here:
        baseline = here.state()
        words = ("apply", *here.where, "--lease", "1")
        send = last_send(here, words)
        stop = f"inject={send.call}:signal=STOP:when={send.number}"
        strace = ["strace", "-qq", "-o", "/dev/null", "-e", f"trace={send.call}", "-e", stop]
        began = time.monotonic()
        with child([*strace, *here.command(*words)], stdout=subprocess.DEVNULL) as hanging:
            assert hanging.wait(PATIENCE_S) != 0
            assert time.monotonic() - began > 1 + OVERRUN_S
        assert restored(here, baseline, PATIENCE_S) is not None


def test_who_was_killed_twice_is_mended_by_the_next_command() -> None:
    with tune_sandbox("route") as here:
        baseline = here.state()
        words = ("apply", *here.where, "--lease", "60")
        assert kill_at(here, last_send(here, words), words)
        end(watchdog_of(here), signal.SIGKILL)
        assert here.open_acts()[0][1] in (WRITING, UNDOING)
        here.run("apply", *here.where, "--lease", "60")
        assert [status for _, status, _ in here.open_acts()] == ["leased"]
        here.run("rollback")
        assert here.state() == baseline


@pytest.mark.parametrize("verb", ["verify", "status", "log", "plan", "recover"])
def test_a_killed_rollback_of_what_is_kept_is_finished_by_the_next_command(verb: str) -> None:
    """Also by one that reads only, where its watchdog was killed too."""
    with tune_sandbox("route") as here:
        baseline = here.state()
        here.run("apply", *here.where, "--keep")
        with Tuning(here.database) as journal:
            (kept,) = journal.acts(KEPT)
            journal.put(replace(kept, status=UNDOING, why=REQUESTED))
        assert here.state() != baseline
        subprocess.run(here.command(verb), capture_output=True)
        assert here.state() == baseline and here.open_acts() == []


def test_a_watch_follows_the_gateway_and_yields_to_other_hands() -> None:
    with tune_sandbox("route") as here:
        baseline = here.state()
        here.run("apply", *here.where, "--lease", "60")
        shorten_lease(here.database, 20.0)
        with child(here.command("watch", "-f", "jsonl"), stdout=subprocess.PIPE, text=True) as watch:
            assert watch.stdout is not None
            try:
                gateway = ("route", "replace", "default", "via", "192.0.2.253")
                until(lambda: lease_left_s(here.database) > 20.0)
                subprocess.run(["ip", "-n", here.name, *gateway], check=True)
                until(lambda: "10.1.2.0/24 via 192.0.2.253" in here.state(), here.state)
                asked = ["ip", "-j", "-n", here.name, "route", "show", "table", "all", "exact", "10.2.0.0/16"]
                table = str(json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)[0]["table"])
                subprocess.run(["ip", "-n", here.name, "route", "del", "10.2.0.0/16", "table", table], check=True)
                event = json.loads(watch.stdout.readline())
                assert (event["event"], event["scope"], event["was"]) == ("foreign", "10.2.0.0/16", "profile=web")
            finally:
                watch.terminate()
            assert watch.wait(PATIENCE_S) == 130
            assert watch.stdout.read() == ""
        assert named(watch.pid) == ""
        here.run("rollback")
        assert here.state() == baseline.replace("192.0.2.254", "192.0.2.253")
