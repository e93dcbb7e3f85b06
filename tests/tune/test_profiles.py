# SPDX-License-Identifier: MIT
"""The paper's six calls, by both names, on a stack that is memory; on real ones they are the driver's own calls."""

from __future__ import annotations

import inspect

import pytest

from configtron.model.errors import BadInput, Missing
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place, Rules
from configtron.tune import profiles as module
from configtron.tune.drivers.memory import MemoryDriver
from configtron.tune.profiles import Profiles

# Table 3, with the number of its arguments.
TABLE3 = {
    "initConfigProfile": 0, "setProfileParam": 3, "getProfileParam": 2, "deleteConfigProfile": 1, "AssignProfile": 2,
}  # fmt: skip


class Socketed(MemoryDriver):
    """A memory that also knows sockets, as the module does."""

    def __init__(self) -> None:
        super().__init__(Place())
        self.sockets: dict[int, str] = {}

    def assign(self, descriptor: int, profile: str) -> None:
        self.sockets[descriptor] = profile


def test_the_papers_names_are_there_and_documented() -> None:
    for name, arguments in TABLE3.items():
        call = getattr(Profiles, name)
        assert len(inspect.signature(call).parameters) == arguments + 1
        assert name in (module.__doc__ or "") and call.__name__ in (module.__doc__ or "")


def test_table_3() -> None:
    driver = Socketed()
    table = Profiles(driver)
    far, near = table.initConfigProfile(), table.initConfigProfile()
    assert (far, near) == (1, 2)
    table.setProfileParam(far, "initcwnd", 20)
    table.setProfileParam(far, "tcp_congestion_control", "reno")
    assert table.getProfileParam(far, "initcwnd") == 20 and table.getProfileParam(near, "initcwnd") is None
    table.AssignProfile("192.0.2.0/24", far)
    table.AssignProfile(" 2001:db8::/32", far)
    table.AssignProfile(7, near)
    assert driver.sockets == {7: "id-2"}
    settings = (("initcwnd", 20), ("tcp_congestion_control", "reno"))
    assert driver.read() == Rules(
        {"id-1": Profile("id-1", settings), "id-2": Profile("id-2")},
        {"192.0.2.0/24": "id-1", "2001:db8::/32": "id-1"}, "",
    )  # fmt: skip
    with pytest.raises(BadInput, match="192.0.2.0/24 has it"):
        table.deleteConfigProfile(far)
    table.deleteConfigProfile(near)
    assert table.initConfigProfile() == 2, "the lowest that is free"


def test_a_call_that_fails_changes_nothing() -> None:
    driver = MemoryDriver(Place())
    table = Profiles(driver)
    far = table.init_config_profile()
    before = driver.read()
    for wrong in (
        lambda: table.set_profile_params(far, {"initcwnd": 20, "no_knob": 1}),
        lambda: table.set_profile_param(far, "initcwnd", -1),
        lambda: table.set_profile_param(9, "initcwnd", 20),
        lambda: table.get_profile_param(9, "initcwnd"),
        lambda: table.delete_config_profile(9),
        lambda: table.assign_profile("192.0.2.1/24", far),
        lambda: table.assign_profile("192.0.2.0/24", 9),
    ):
        with pytest.raises(BadInput):
            wrong()
    with pytest.raises(Missing, match="driver memory assigns no single sockets"):
        table.assign_profile(3, far)
    assert driver.read() == before


def test_what_was_set_goes_with_the_block_unless_kept() -> None:
    driver = MemoryDriver(Place())
    with Profiles(driver) as table:
        table.assign_profile("192.0.2.0/24", table.init_config_profile())
        assert driver.read().prefixes
    assert driver.read() == Rules()
    with pytest.raises(ZeroDivisionError), Profiles(driver) as table:
        table.init_config_profile()
        raise ZeroDivisionError
    assert driver.read() == Rules()
    with Profiles(driver) as table:
        table.init_config_profile()
        table.keep()
    assert driver.read().profiles


def test_others_see_the_same_profiles() -> None:
    driver = MemoryDriver(Place())
    far = Profiles(driver).init_config_profile()
    Profiles(driver).set_profile_param(far, "initcwnd", 4)
    driver.apply(Changes(profiles={"web": Profile("web")}))
    assert Profiles(driver).get_profile_param(far, "initcwnd") == 4
    assert Profiles(driver).init_config_profile() == 2
