# SPDX-License-Identifier: MIT
"""The paper's six calls under a lease, by both names: on a stack that is memory, and killed in a network namespace."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from configtron.db.tuning import Tuning
from configtron.model.errors import BadInput, Missing, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Rules
from configtron.service import lease
from configtron.service.lease import ownership, watchdog_process
from configtron.service.lease import profiles as module
from configtron.tune import drivers
from configtron.tune.drivers.memory import MemoryDriver
from configtron.tune.journal import KEPT, LEASED, UNDONE
from tests.support.children import child
from tests.support.memory_stack import Stack, stack
from tests.support.tune.leases import lease_left_s, shorten_lease
from tests.support.tune_sandbox import tune_sandbox
from tests.support.waiting import PATIENCE_S, until

__all__ = ["stack"]

# Table 3, with the number of its arguments.
TABLE3 = {
    "initConfigProfile": 0, "setProfileParam": 3, "getProfileParam": 2, "deleteConfigProfile": 1, "AssignProfile": 2,
}  # fmt: skip


class Socketed(MemoryDriver):
    """A memory that also assigns sockets, as the module does."""

    sockets: ClassVar[dict[int, str]] = {}

    def assign(self, descriptor: int, profile: str) -> None:
        self.sockets[descriptor] = profile

    def assigned(self, descriptor: int) -> str:
        return self.sockets.get(descriptor, "")


@pytest.fixture
def options(tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[lease.LeaseOptions]:
    """A memory without watchdogs: time does not pass here."""
    monkeypatch.setattr(watchdog_process, "start", lambda context, number: "")
    yield lease.LeaseOptions(tmp_path / "t.db", driver="memory")


def test_the_papers_names_are_there_and_documented() -> None:
    for name, arguments in TABLE3.items():
        call = getattr(lease.Profiles, name)
        assert len(inspect.signature(call).parameters) == arguments + 1
        assert name in (module.__doc__ or "") and call.__name__ in (module.__doc__ or "")


def test_table_3(options: lease.LeaseOptions, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(drivers.DRIVERS, "memory", f"{__name__}:Socketed")  # type: ignore[arg-type]
    with lease.Profiles(options) as table:
        far, near = table.initConfigProfile(), table.initConfigProfile()
        assert (far, near) == (1, 2)
        table.setProfileParam(far, "initcwnd", 20)
        table.setProfileParam(far, "tcp_congestion_control", "reno")
        assert table.getProfileParam(far, "initcwnd") == 20 and table.getProfileParam(near, "initcwnd") is None
        table.AssignProfile("192.0.2.0/24", far)
        table.AssignProfile(" 2001:db8::/32", far)
        table.AssignProfile(7, near)
        assert Socketed.sockets == {7: "id-2"}
        settings = (("initcwnd", 20), ("tcp_congestion_control", "reno"))
        assert stack.rules == Rules(
            {"id-1": Profile("id-1", settings), "id-2": Profile("id-2")},
            {"192.0.2.0/24": "id-1", "2001:db8::/32": "id-1"}, "",
        )  # fmt: skip
        with pytest.raises(BadInput, match="192.0.2.0/24 has it"):
            table.deleteConfigProfile(far)
        table.deleteConfigProfile(near)
        assert table.initConfigProfile() == 2, "the lowest that is free"
    assert stack.rules == Rules()


def test_a_call_that_fails_changes_nothing(options: lease.LeaseOptions, stack: Stack) -> None:
    with lease.Profiles(options) as table:
        far = table.init_config_profile()
        before = stack.rules
        for wrong in (
            lambda: table.set_profile_params(far, {"initcwnd": 20, "no_knob": 1}),
            lambda: table.set_profile_param(far, "initcwnd", -1),
            lambda: table.set_profile_param(far, "tcp_congestion_control", "bbr"),
            lambda: table.set_profile_param(9, "initcwnd", 20), lambda: table.get_profile_param(9, "initcwnd"),
            lambda: table.delete_config_profile(9), lambda: table.assign_profile("192.0.2.1/24", far),
            lambda: table.assign_profile("192.0.2.0/24", 9),
        ):  # fmt: skip
            with pytest.raises((BadInput, Refused)):
                wrong()
        with pytest.raises(Missing, match="driver memory assigns no single sockets"):
            table.assign_profile(3, far)
        assert stack.rules == before


def test_every_change_is_journaled_and_goes_with_the_block_unless_kept(
    options: lease.LeaseOptions, stack: Stack
) -> None:
    with lease.Profiles(options) as table:
        table.assign_profile("192.0.2.0/24", table.init_config_profile())
        (running,) = lease.status(options).transactions
        assert running.transaction.status == LEASED and running.transaction.lease_s == module.TABLE_LEASE_S
        assert stack.rules.prefixes
    assert stack.rules == Rules() and lease.status(options).transactions == ()
    with pytest.raises(ZeroDivisionError), lease.Profiles(options) as table:
        table.init_config_profile()
        raise ZeroDivisionError
    assert stack.rules == Rules()
    with lease.Profiles(options) as table:
        table.init_config_profile()
        table.keep()
        table.init_config_profile()
    assert stack.rules.profiles.keys() == {"id-1", "id-2"}
    (kept,) = lease.status(options).transactions
    assert kept.transaction.status == KEPT
    with lease.Profiles(options) as table:
        assert table.init_config_profile() == 3
    assert stack.rules.profiles.keys() == {"id-1", "id-2"}, "what was kept before comes back"
    with Tuning(options.database) as journal:
        before = len(journal.acts())
        with lease.Profiles(options):
            pass
        assert len(journal.acts()) == before, "a block without a change leaves no trace"


def test_the_end_of_a_transaction_of_this_boot_is_so_long_ago(options: lease.LeaseOptions, stack: Stack) -> None:
    with lease.Profiles(options) as table:
        table.init_config_profile()
    with Tuning(options.database) as journal:
        (ended,) = journal.acts()
        journal.begin(replace(ended, boot="an earlier one"))
    earlier, last = lease.history(options.database)
    assert earlier.ended_s_ago is None and last.ended_s_ago is not None and 0 <= last.ended_s_ago < PATIENCE_S
    shown = lease.status(options).last
    assert shown is not None and shown.transaction == last.transaction


def test_a_table_that_another_program_ended_says_so(options: lease.LeaseOptions, stack: Stack) -> None:
    with lease.Profiles(options) as table:
        far = table.init_config_profile()
        lease.rollback(options)
        for call in (lambda: table.get_profile_param(far, "initcwnd"), table.init_config_profile):
            with pytest.raises(Refused, match=r"transaction 1 of this table is undone \(rollback\)"):
                call()


def test_others_see_the_same_profiles(options: lease.LeaseOptions, stack: Stack) -> None:
    with lease.Profiles(options) as table:
        far = table.init_config_profile()
        stack.driver.apply(Changes(profiles={"web": Profile("web"), "id-1": Profile("id-1", (("initcwnd", 4),))}))
        assert table.get_profile_param(far, "initcwnd") == 4
        assert table.init_config_profile() == 2


def test_the_lease_is_renewed_while_the_block_runs(options: lease.LeaseOptions, stack: Stack) -> None:
    with lease.Profiles(options, lease_s=0.3) as table:
        table.init_config_profile()
        (first,) = lease.status(options).transactions

        def renewed() -> bool:
            (now,) = lease.status(options).transactions
            return now.transaction.expires_s > first.transaction.expires_s

        until(renewed)
        (ended,) = lease.recover(options).ended or (None,)
        assert ended is None or ended.status == UNDONE  # a machine that stood still for 0.3 s


PROGRAM = """
import signal, sys
from pathlib import Path
from typing import ClassVar
from configtron.model.tuning import Place
from configtron.service import lease

options = lease.LeaseOptions(Path(sys.argv[1]), driver="route", place=Place(netns=sys.argv[2]))
with lease.Profiles(options, lease_s=6.0) as table:
    far = table.init_config_profile()
    table.set_profile_params(far, {"initcwnd": 20, "tcp_congestion_control": "reno"})
    table.assign_profile("10.77.0.0/16", far)
    print("in force", flush=True)
    signal.pause()
"""


@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_program_leaves_nothing(number: signal.Signals) -> None:
    with tune_sandbox("route") as here:
        before = here.state()
        command = [sys.executable, "-c", PROGRAM, str(here.database), here.name]
        with child(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as program:
            assert program.stdout is not None and program.stdout.readline() == "in force\n"
            assert "10.77.0.0/16" in here.state()
            before_s = lease_left_s(here.database)
            until(lambda: lease_left_s(here.database) > before_s)
            assert "10.77.0.0/16" in here.state()
            program.send_signal(number)
            assert program.wait(PATIENCE_S) != 0
        shorten_lease(here.database, 0.0)
        until(lambda: here.state() == before and not here.open_acts(), here.state)
        owner = os.fsencode(here.database.resolve())
        assert [file for file in ownership.FOLDER.iterdir() if file.read_bytes() == owner] == []
