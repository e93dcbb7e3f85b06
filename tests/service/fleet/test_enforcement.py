# SPDX-License-Identifier: MIT
"""Rules of an agent as one leased transaction: changes are journaled as changes, and its lease ends them.

A map's ports: connections to others, sshd's first of all, are untouched; a driver that cannot select is refused.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from configtron.db.agent_journal import AgentJournal
from configtron.db.tuning import Tuning
from configtron.model.draw import Key, Mix, Plan
from configtron.model.errors import BadInput, ConfigtronError, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place, Rules
from configtron.service.fleet import enforcement as enforcing
from configtron.service.fleet.applier import LeaseOver
from configtron.service.fleet.enforcement import JournaledEnforcement, selected
from configtron.service.lease.context import context_of
from configtron.service.lease.options import AUTO, LeaseOptions
from configtron.service.lease.processes import alive, end, ended
from configtron.service.lease.watcher import Watcher
from configtron.tune.drivers import load
from configtron.tune.drivers.memory import MemoryDriver
from configtron.tune.guard import Bound, Limits
from configtron.tune.journal import LEASED, UNDONE
from tests.support.fleet_kernel import DrawingKernel
from tests.support.tune.aside import aside
from tests.support.waiting import PATIENCE_S, until

FAST = Profile("fast", (("initcwnd", 20),))
RULES = Rules({"fast": FAST}, {f"198.51.{at}.0/24": "fast" for at in range(20)})
LEASE_S = 30.0


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[AgentJournal]:
    with AgentJournal(tmp_path / "tune.db") as found:
        yield found


def made(journal: AgentJournal, driver: MemoryDriver) -> JournaledEnforcement:
    limits = Limits({"initcwnd": Bound(4, 20)})
    return JournaledEnforcement(LeaseOptions(journal.path, "memory", limits=limits), journal, driver)


@pytest.fixture
def driver() -> MemoryDriver:
    return MemoryDriver(Place())


@pytest.fixture
def one(journal: AgentJournal, driver: MemoryDriver) -> JournaledEnforcement:
    """An enforcement with rules in force."""
    found = made(journal, driver)
    found.begin(RULES, LEASE_S)
    return found


def changed(rules: Rules, at: int) -> tuple[Changes, Rules]:
    """Return a change that drops one prefix and adds another, and what it leads to."""
    prefixes = {**rules.prefixes, f"192.0.{at}.0/24": "fast"}
    gone = next(iter(rules.prefixes))
    del prefixes[gone]
    changes = Changes({"fast": FAST}, {f"192.0.{at}.0/24": "fast"}, frozenset(), frozenset({gone}))
    return changes, Rules(rules.profiles, prefixes)


def test_changes_are_journaled_as_changes_and_read_back_as_rules(
    one: JournaledEnforcement, driver: MemoryDriver, journal: AgentJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enforcing, "MOST_CHANGES", 3)
    rules, counts = RULES, []
    for at in range(5):
        changes, rules = changed(rules, at)
        one.change(changes, rules)
        counts.append(journal._connection.execute("SELECT count(*) FROM act_change").fetchone()[0])
        with Tuning(journal.path) as other:
            (act,) = other.acts(LEASED)
            assert act.rules == rules == driver.read()
            assert other.open_act("memory", Place(), context_of(other).namespace) == act
    assert counts == [1, 2, 0, 1, 2]
    one.release()
    assert journal.acts(UNDONE)[-1].why == "the agent was stopped" and journal.acts(LEASED) == []
    assert journal._connection.execute("SELECT count(*) FROM act_change").fetchone() == (0,)


def test_a_change_that_the_driver_refuses_leaves_what_was_there(
    one: JournaledEnforcement, driver: MemoryDriver, journal: AgentJournal
) -> None:
    bad = Profile("bad", (("initcwnd", "many"),))
    with pytest.raises(BadInput, match="out of reach"):
        one.change(Changes({"bad": bad}, {"192.0.2.0/24": "bad"}), Rules({"fast": FAST, "bad": bad}, RULES.prefixes))
    assert driver.read() == RULES and journal.acts(LEASED)[0].rules == RULES
    one.renew(LEASE_S)
    one.release()


def test_a_lease_that_is_not_renewed_ends_and_a_change_after_it_is_refused(journal: AgentJournal) -> None:
    driver = MemoryDriver(Place())
    one = made(journal, driver)
    one.begin(RULES, 0.5)
    until(lambda: not journal.acts(LEASED), lambda: "the watchdog does not end the lease")
    with pytest.raises(LeaseOver):
        one.renew(LEASE_S)
    with pytest.raises(ConfigtronError):
        one.change(*changed(RULES, 1))


def killed(journal: AgentJournal) -> str:
    """Kill the watchdog of the transaction in force; return its name."""
    (act,) = journal.acts(LEASED)
    end(act.watchdog, signal.SIGKILL)
    assert ended(act.watchdog, PATIENCE_S)
    return act.watchdog


@pytest.mark.slow
def test_a_watchdog_that_was_killed_is_started_anew(
    one: JournaledEnforcement, journal: AgentJournal, caplog: pytest.LogCaptureFixture
) -> None:
    before = killed(journal)
    one.renew(LEASE_S)
    one.renew(LEASE_S)
    (act,) = journal.acts(LEASED)
    assert act.watchdog != before and alive(act.watchdog)
    (line,) = [record.getMessage() for record in caplog.records if "watchdog" in record.getMessage()]
    assert line.startswith(f"the watchdog of transaction {act.id} has ended, and another one is started")
    one.release()
    assert not alive(act.watchdog)


@pytest.mark.slow
def test_rules_that_no_watchdog_watches_are_taken_back(
    one: JournaledEnforcement, journal: AgentJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(journal)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(Refused, match="Default applies, as no watchdog"):
        one.renew(LEASE_S)
    assert journal.acts(LEASED) == [] and journal.acts(UNDONE)[-1].why == "it has no watchdog"
    with pytest.raises(ConfigtronError):
        one.renew(LEASE_S)


def test_a_watch_on_the_same_database_neither_renews_the_agents_lease_nor_reports_its_changes(
    one: JournaledEnforcement, journal: AgentJournal
) -> None:
    (before,) = journal.acts(LEASED)
    one.change(*changed(RULES, 1))
    with Tuning(journal.path) as other:
        watcher = Watcher(context_of(other))
        assert watcher.turn() == [] and watcher.turn() == []
    assert journal.acts(LEASED)[0].expires_s == before.expires_s
    one.release()


def test_a_foreign_change_is_one_line_and_one_frozen_place_and_it_is_known_when_all_is_gone(
    one: JournaledEnforcement, driver: MemoryDriver, journal: AgentJournal
) -> None:
    """Also where another program goes on after its first changes were noticed; `tune status` shows the same."""
    prefixes = [*RULES.prefixes]
    assert one.foreign() == ""
    driver.apply(Changes(dropped_prefixes=frozenset(prefixes[:15])))
    assert "and 14 more" in one.foreign() and one.foreign() == "" and not one.gone()
    assert [scope.scope for scope in journal.frozen()] == ["place"] and one.frozen()
    driver.apply(Changes(dropped_prefixes=frozenset(prefixes[15:])))
    assert not one.gone() and one.gone()
    driver.apply(Changes({"fast": FAST}, {prefixes[0]: "fast"}))
    assert one.gone() and not one.gone()
    journal.unfreeze(None)
    assert one.frozen() == ""
    one.release()
    assert one.gone()


def test_a_later_start_takes_over_what_stands_and_knows_it_from_a_humans(journal: AgentJournal) -> None:
    driver = MemoryDriver(Place())
    one = made(journal, driver)
    assert one.human_rules() == Rules()
    one.begin(RULES, LEASE_S)
    (act,) = journal.acts(LEASED)
    later = made(journal, driver)
    assert later.human_rules() == Rules()
    later.begin(RULES, LEASE_S)
    assert [each.id for each in journal.acts(LEASED)] == [act.id]
    later.release()


class MemoryThatDraws(MemoryDriver):
    """The driver of trials with a kernel that draws, and refuses what the driver ebpf's refuses."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.kernel = DrawingKernel()

    def apply(self, changes: Changes) -> Rules:
        self.kernel.change(changes)
        return super().apply(changes)

    def renew(self, until_ns: int) -> None:
        self.kernel.lease_ns = until_ns

    def __getattr__(self, name: str) -> Any:
        """Leave plans and records to the kernel."""
        return getattr(self.kernel, name)


DRAWN = Rules({"fast": FAST, "slow": Profile("slow"), "near": Profile("near")}, {"198.51.100.0/24": "near"})
PLAN = Plan(Key(1, 2), 5, 10**18)
FAR = Rules({"fast": FAST, "far": Profile("far")}, {"192.0.2.0/24": "far"})


@pytest.mark.parametrize(("rules", "mixes"), [
    (DRAWN, {"near": Mix(("fast", "slow"), (60_000, 5_536))}), (FAR, {"far": Mix(("fast",), (65_536,))}),
], ids=["other mixes", "a profile less"])  # fmt: skip
def test_a_later_start_puts_others_in_force_than_the_plan_of_the_epoch_draws(
    journal: AgentJournal, rules: Rules, mixes: dict[str, Mix]
) -> None:
    driver = MemoryThatDraws(Place())
    one, later = made(journal, driver), made(journal, driver)
    one.begin(DRAWN, LEASE_S)
    one.turn(PLAN, {"near": Mix(("fast", "slow"), (30_000, 35_536))})
    with pytest.raises(BadInput, match="other mixes"):
        one.turn(PLAN, {"near": Mix(("fast",), (65_536,))})
    later.begin(rules, LEASE_S)
    later.turn(PLAN, mixes)
    assert driver.kernel.half is not None and driver.kernel.half.mixes == mixes
    assert driver.kernel.rules.prefixes == rules.prefixes
    with pytest.raises(BadInput, match="other mixes"):
        later.turn(PLAN, {name: Mix((name,), (65_536,)) for name in mixes})
    later.release()


def test_bounds_of_the_operator_and_the_guard_bar_profiles(journal: AgentJournal) -> None:
    one = made(journal, MemoryDriver(Place()))
    assert one.barred(FAST) == ""
    assert "beyond your bound" in one.barred(Profile("wide", (("initcwnd", 30),)))
    assert "unfair" in one.barred(Profile("bbr", (("tcp_congestion_control", "bbr"),)))


# ---- ports


def test_the_operators_listeners_narrow_a_maps_ports() -> None:
    assert selected("", (443, 80)) == "80,443"
    assert selected("443,192.0.2.1:80,22", (80, 443)) == "192.0.2.1:80,443"
    with pytest.raises(Refused, match="ports 80, and --listen allows 22 alone"):
        selected("22", (80,))


@pytest.mark.parametrize("name", ["route", "sysctl"])
def test_a_driver_that_cannot_select_ports_is_refused_by_name_unless_the_operator_names_it(
    name: str, journal: AgentJournal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = load(name, LeaseOptions(journal.path).place)
    monkeypatch.setattr(type(found), "missing", lambda self: "it is the same for every port" * bool(self.place.listen))
    with pytest.raises(Refused, match=f"driver {name} cannot select ports 80,443.*sshd.*--driver {name}"):
        JournaledEnforcement(LeaseOptions(journal.path, AUTO), journal, found).begin(RULES, 3.0, (80, 443))
    assert journal.acts() == []
    named = JournaledEnforcement(LeaseOptions(journal.path, name), journal, found)
    for _ in range(2):
        assert named._driver_of((80, 443)) is found
    assert len([one for one in caplog.records if "cannot select ports 80,443" in one.message]) == 1


def test_the_driver_of_trials_selects_nothing_and_is_not_refused(journal: AgentJournal, driver: MemoryDriver) -> None:
    one = JournaledEnforcement(LeaseOptions(journal.path, "memory"), journal, driver)
    one.begin(RULES, 30.0, (80, 443))
    assert driver.read() == RULES
    one.release()


@pytest.mark.root
def test_a_default_never_reaches_another_port(tmp_path: Path) -> None:
    found = aside("fleet_ports.py", "ebpf", str(tmp_path))
    (plain,) = set(found["before"].values())
    for what, ports in (("web", ("web",)), ("ssh", ("ssh",)), ("both", ("web", "ssh")), ("none", ())):
        wanted = {f"{name} {at}": 20 if name in ports else plain
                  for name in ("web", "ssh") for at in ("127.0.0.1", "::1")}  # fmt: skip
        assert found[what] == {"error": "", "refused": [], "remarks": [], "seen": wanted}, what
    assert found["after"] == found["before"] and plain != 20 and not found["pins left"]
