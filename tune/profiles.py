# SPDX-License-Identifier: MIT
"""The paper's programming interface (ConfigTron 2019, Table 3), over any driver.

paper                            here                                  does
initConfigProfile() -> ID        init_config_profile() -> int          a profile without settings; the lowest free ID
setProfileParam(ID, key, value)  set_profile_param(ID, knob, value)    one setting, at once in force for its prefixes
getProfileParam(ID, key)         get_profile_param(ID, knob)           what the kernel holds; None if it is not set
deleteConfigProfile(ID)          delete_config_profile(ID)             refused while a prefix has it
AssignProfile(SocketID, ID)      assign_profile(descriptor, ID)        a connected socket
AssignProfile(IP-Prefix, ID)     assign_profile("192.0.2.0/24", ID)    connections of those clients from now on

Both names are there. Knobs are those of `configtron/model/knobs.py`; IDs count from 1 and are no more than names: what
there is, is read from the driver at each call, so two processes with one driver share their profiles.

    from configtron.tune.drivers import load
    from configtron.tune.profiles import Profiles
    from configtron.model.tuning import Place

    with Profiles(load("route", Place(netns="web"))) as table:
        far = table.init_config_profile()
        table.set_profile_params(far, {"initcwnd": 20, "tcp_congestion_control": "reno"})
        table.assign_profile("192.0.2.0/24", far)
        ...                               # in force here; left with `keep()`, else as it was before

Differs from the paper's: `set_profile_params` sets several at once, one version of the profile instead of several;
leaving the `with` puts back what stood before. There is no journal here: a process that is killed leaves what it had
set, for `configtron tune rollback --driver NAME` to remove. `configtron tune apply` has one.
Source: Naseer and Benson, ConfigTron, 2019, Table 3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import TracebackType

from configtron.model.errors import BadInput, Missing
from configtron.model.nouns import Profile, Value
from configtron.model.protocols import Driver, SocketAssigner
from configtron.model.tuning import Changes
from configtron.tune.rules import canonical

# How the profile of an ID is called by drivers, the journal and `configtron tune`.
NAMED = re.compile(r"id-(\d+)")


class Profiles:
    """The six calls. Errors are the driver's: `Missing`, `BadInput`, `Refused`; a failed call changes nothing."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._before: str | None = None

    def __enter__(self) -> Profiles:
        self._before = self._driver.before()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            self._driver.revert(self._before)

    def keep(self) -> None:
        """Leave what is in force when the `with` ends."""
        self._before = None

    def init_config_profile(self) -> int:
        """Make a profile; its ID."""
        taken = {int(found[1]) for name in self._driver.read().profiles if (found := NAMED.fullmatch(name))}
        number = next(n for n in range(1, len(taken) + 2) if n not in taken)
        self._driver.apply(Changes(profiles={_name(number): Profile(_name(number))}))
        return number

    def set_profile_param(self, number: int, knob: str, value: Value) -> None:
        """Set one knob of a profile."""
        self.set_profile_params(number, {knob: value})

    def set_profile_params(self, number: int, settings: Mapping[str, Value]) -> None:
        """Set several knobs of a profile, all or none."""
        profile = self._profile(number)
        new = Profile(profile.name, tuple({**dict(profile.settings), **settings}.items()))
        self._driver.apply(Changes(profiles={new.name: new}))

    def get_profile_param(self, number: int, knob: str) -> Value | None:
        """A knob of a profile as the driver reads it back; None where the profile does not set it."""
        return dict(self._profile(number).settings).get(knob)

    def delete_config_profile(self, number: int) -> None:
        """Forget a profile. Errors: `BadInput` while prefixes have it."""
        name, rules = self._profile(number).name, self._driver.read()
        having = sorted(prefix for prefix, has in rules.prefixes.items() if has == name)
        if having or rules.default == name:
            raise BadInput(f"profile {number}: {having[0] if having else 'the default'} has it; assign another first")
        self._driver.apply(Changes(dropped_profiles=frozenset({name})))

    def assign_profile(self, whom: str | int, number: int) -> None:
        """Give a profile to a prefix (text), or to a connected socket (its descriptor).

        Errors: `Missing` for a socket where the driver reaches none.
        """
        profile = self._profile(number)
        if isinstance(whom, str):
            self._driver.apply(Changes(profiles={profile.name: profile}, prefixes={canonical(whom): profile.name}))
            return
        if not isinstance(self._driver, SocketAssigner):
            raise Missing(f"the driver {self._driver.name} assigns no single sockets; the driver kmod does")
        self._driver.assign(whom, profile.name)

    def _profile(self, number: int) -> Profile:
        found = self._driver.read().profiles.get(_name(number))
        if found is None:
            raise BadInput(f"there is no profile {number}; init_config_profile() makes one")
        return found

    # The paper's own names.
    initConfigProfile = init_config_profile
    setProfileParam = set_profile_param
    getProfileParam = get_profile_param
    deleteConfigProfile = delete_config_profile
    AssignProfile = assign_profile


def _name(number: int) -> str:
    return f"id-{number}"
