# SPDX-License-Identifier: MIT
"""A map's ports: connections to others, sshd's first of all, are untouched; a driver that cannot select is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.db.agent_journal import AgentJournal
from configtron.model.errors import Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.service.fleet.enforcement import JournaledEnforcement, selected
from configtron.service.lease.options import AUTO, LeaseOptions
from configtron.tune.drivers import load
from configtron.tune.drivers.memory import MemoryDriver
from tests.support.tune.aside import aside

RULES = Rules({"fast": Profile("fast", (("initcwnd", 20),))}, {"198.51.100.0/24": "fast"})
ADDRESSES = ("127.0.0.1", "::1")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[AgentJournal]:
    with AgentJournal(tmp_path / "tune.db") as found:
        yield found


def test_the_operators_listeners_narrow_a_maps_ports() -> None:
    assert selected("", (443, 80)) == "80,443"
    assert selected("443,192.0.2.1:80,22", (80, 443)) == "192.0.2.1:80,443"
    with pytest.raises(Refused, match="ports 80, and --listen allows 22 alone"):
        selected("22", (80,))


@pytest.mark.parametrize("name", ["route", "sysctl"])
def test_a_driver_that_cannot_select_ports_is_refused_by_name_unless_the_operator_names_it(
    name: str, journal: AgentJournal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driver = load(name, LeaseOptions(journal.path).place)
    monkeypatch.setattr(type(driver), "missing", lambda self: "it is the same for every port" * bool(self.place.listen))
    chosen = JournaledEnforcement(LeaseOptions(journal.path, AUTO), journal, driver)
    with pytest.raises(Refused, match=f"driver {name} cannot select ports 80,443.*sshd.*--driver {name}"):
        chosen.begin(RULES, 3.0, (80, 443))
    assert journal.acts() == []
    named = JournaledEnforcement(LeaseOptions(journal.path, name), journal, driver)
    for _ in range(2):
        assert named._driver_of((80, 443)) is driver
    assert len([one for one in caplog.records if "cannot select ports 80,443" in one.message]) == 1


def test_the_driver_of_trials_selects_nothing_and_is_not_refused(journal: AgentJournal) -> None:
    driver = MemoryDriver(LeaseOptions(journal.path).place)
    one = JournaledEnforcement(LeaseOptions(journal.path, "memory"), journal, driver)
    one.begin(RULES, 30.0, (80, 443))
    assert driver.read() == RULES
    one.release()


@pytest.mark.root
def test_a_default_never_reaches_another_port(tmp_path: Path) -> None:
    found = aside("fleet_ports.py", "ebpf", str(tmp_path))
    (plain,) = set(found["before"].values())
    for what, ports in (("web", ("web",)), ("ssh", ("ssh",)), ("both", ("web", "ssh")), ("none", ())):
        wanted = {f"{name} {at}": 20 if name in ports else plain for name in ("web", "ssh") for at in ADDRESSES}
        assert found[what] == {"error": "", "refused": [], "remarks": [], "seen": wanted}, what
    assert found["after"] == found["before"] and plain != 20 and not found["pins left"]
