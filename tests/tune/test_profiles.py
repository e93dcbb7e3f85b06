# SPDX-License-Identifier: MIT
"""Table 3 as functions of rules."""

from __future__ import annotations

import pytest

from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.tune.profiles import (
    assign_profile,
    delete_config_profile,
    get_profile_param,
    init_config_profile,
    set_profile_params,
)


def test_ids_are_the_lowest_that_are_free() -> None:
    first, rules = init_config_profile(Rules({"web": Profile("web"), "id-2": Profile("id-2")}))
    assert first == 1 and init_config_profile(rules)[0] == 3
    assert init_config_profile(delete_config_profile(rules, 2))[0] == 2


def test_settings_are_replaced_by_name() -> None:
    number, rules = init_config_profile(Rules())
    rules = set_profile_params(rules, number, {"initcwnd": 20, "tcp_congestion_control": "reno"})
    rules = set_profile_params(rules, number, {"initcwnd": 4})
    assert rules.profiles["id-1"].settings == (("initcwnd", 4), ("tcp_congestion_control", "reno"))
    assert get_profile_param(rules, number, "initcwnd") == 4 and get_profile_param(rules, number, "min_rto") is None


@pytest.mark.parametrize(("prefixes", "default"), [({"10.0.0.0/8": "id-1"}, ""), ({}, "id-1")])
def test_a_profile_that_is_in_use_is_not_deleted(prefixes: dict[str, str], default: str) -> None:
    with pytest.raises(BadInput, match="has it; assign another first"):
        delete_config_profile(Rules({"id-1": Profile("id-1")}, prefixes, default), 1)


def test_prefixes_are_written_one_way() -> None:
    number, rules = init_config_profile(Rules())
    assert assign_profile(rules, " ::ffff:192.0.2.1", number).prefixes == {"192.0.2.1/32": "id-1"}
    with pytest.raises(BadInput, match="there is no profile 7"):
        assign_profile(rules, "192.0.2.1", 7)
