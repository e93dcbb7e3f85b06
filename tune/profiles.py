# SPDX-License-Identifier: MIT
"""The paper's programming interface (ConfigTron 2019, Table 3) as functions of rules.

paper                            here                                     result
initConfigProfile() -> ID        init_config_profile(rules)               the lowest free ID, rules with that profile
setProfileParam(ID, key, value)  set_profile_params(rules, ID, settings)  rules with these settings, all or none
getProfileParam(ID, key)         get_profile_param(rules, ID, knob)       the value; None if the profile sets none
deleteConfigProfile(ID)          delete_config_profile(rules, ID)         rules without it; not while a prefix has it
AssignProfile(IP-Prefix, ID)     assign_profile(rules, prefix, ID)        rules by which those clients have it

`configtron.service.lease.Profiles` puts them in force, under the paper's names too, and assigns single sockets. Knobs
are those of `configtron/model/knobs.py`. IDs count from 1; the profile of ID 3 is called "id-3" everywhere else.

Differs from the paper's: several settings can be set at once, one version of the profile instead of several.
Source: Naseer and Benson, ConfigTron, 2019, Table 3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from configtron.model.errors import BadInput
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Rules
from configtron.tune.rules import canonical

# The name of an ID's profile, for drivers, the journal and `configtron tune`.
NAMED = re.compile(r"id-(\d+)")


def init_config_profile(rules: Rules) -> tuple[int, Rules]:
    """Return the lowest free ID, and the rules with a profile of that ID that sets nothing."""
    taken = {int(found[1]) for name in rules.profiles if (found := NAMED.fullmatch(name))}
    number = next(n for n in range(1, len(taken) + 2) if n not in taken)
    return number, _with_profile(rules, Profile(_name(number)))


def set_profile_params(rules: Rules, number: int, settings: Mapping[str, Value]) -> Rules:
    """Return the rules with these knobs of a profile set; its other knobs stay. Errors: `BadInput`."""
    profile = profile_of(rules, number)
    return _with_profile(rules, Profile(profile.name, tuple({**dict(profile.settings), **settings}.items())))


def get_profile_param(rules: Rules, number: int, knob: str) -> Value | None:
    """Return a knob of a profile; None where the profile does not set it. Errors: `BadInput`."""
    return dict(profile_of(rules, number).settings).get(knob)


def delete_config_profile(rules: Rules, number: int) -> Rules:
    """Return the rules without a profile. Errors: `BadInput` while prefixes or the default have it."""
    name = profile_of(rules, number).name
    having = sorted(prefix for prefix, has in rules.prefixes.items() if has == name)
    if having or rules.default == name:
        raise BadInput(f"profile {number}: {having[0] if having else 'the default'} has it; assign another first")
    return replace(rules, profiles={other: profile for other, profile in rules.profiles.items() if other != name})


def assign_profile(rules: Rules, prefix: str, number: int) -> Rules:
    """Return the rules by which clients of a prefix have a profile. Errors: `BadInput`."""
    return replace(rules, prefixes={**rules.prefixes, canonical(prefix): profile_of(rules, number).name})


def profile_of(rules: Rules, number: int) -> Profile:
    """Return the profile of an ID. Errors: `BadInput` where there is none."""
    found = rules.profiles.get(_name(number))
    if found is None:
        raise BadInput(f"there is no profile {number}; init_config_profile() makes one")
    return found


def _with_profile(rules: Rules, profile: Profile) -> Rules:
    return replace(rules, profiles={**rules.profiles, profile.name: profile})


def _name(number: int) -> str:
    return f"id-{number}"
