# SPDX-License-Identifier: MIT
"""Rules and settings as text, there and back."""

from __future__ import annotations

import pytest

from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.model.tuning import Place, Rules
from configtron.model.tuning_json import (
    place_of,
    place_text,
    rules_of,
    rules_text,
    setting_of,
    settings_text,
    value_text,
)


def test_rules_come_back() -> None:
    rules = Rules({"w": Profile("w", (("min_rto", 0.02), ("tcp_rmem", (1, 2, 3))))}, {"10.0.0.0/8": "w"}, "w")
    assert rules_of(rules_text(rules)) == rules
    assert rules_of(rules_text(Rules())) == Rules()


def test_places_come_back() -> None:
    for place in (Place(), Place(netns="x"), Place("a", "b", "/c")):
        assert place_of(place_text(place)) == place
    assert place_text(Place()) == "{}"
    with pytest.raises(BadInput):
        place_of('{"nowhere": 1}')


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("initcwnd=20", 20), ("min_rto=0.02", 0.02), ("tcp_congestion_control=bbr", "bbr"), ("pacing=fq", "fq"),
        ("tcp_autocorking=0", 0), ("max_pacing_rate=1e6", 1_000_000),
    ],
)  # fmt: skip
def test_settings_as_typed(word: str, value: object) -> None:
    name, found = setting_of(word)
    assert (name, found) == (word.partition("=")[0], value) and type(found) is type(value)


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("initcwnd", "KNOB=VALUE"), ("initcwnd=", "KNOB=VALUE"), ("icwnd=1", "no knob"),
        ("initcwnd=ten", "a number of segments"), ("initcwnd=2.5", "a whole number of segments"),
        ("initcwnd=nan", "a number"), ("initcwnd=inf", "a number"),
        ("http_version=h2\nroute del default", "takes a name"), ("tcp_congestion_control=reno;", "takes a name"),
        ("congestion_control=bbr", "did you mean tcp_congestion_control"),
    ],
)  # fmt: skip
def test_settings_that_are_none(word: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        setting_of(word)


def test_values_as_people_write_them() -> None:
    assert [value_text(value) for value in (None, "fq", 3, 0.5, (1, 2))] == ["", "fq", "3", "0.5", "[1,2]"]
    assert settings_text((("a", 1), ("b", "c"))) == "a=1 b=c"
