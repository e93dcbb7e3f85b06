# SPDX-License-Identifier: MIT
"""Pools: whose template a profile asks for, what the maps say, and Apache's lookup as the kernel's."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given

from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.tune.pools import Pool, for_kernel, map_text, pool_of, routing
from configtron.tune.router import lookup as program
from configtron.tune.rules import lookup
from tests.tune.test_route_table import addresses, rules

OLD, NEW = pool_of("old:http_version=http/1.1"), pool_of("new:http_version=h2,h2_max_concurrent_streams=50")
PROFILES = {
    "modern": Profile("modern", (("http_version", "h2"), ("initcwnd", 30))),
    "plain": Profile("plain", (("http_version", "http/1.1"),)),
    "tcp": Profile("tcp", (("initcwnd", 4),)),
}
PREFIXES = {"10.2.0.0/16": "modern", "10.2.3.0/24": "plain", "10.3.0.0/16": "tcp", "fd02::/32": "modern"}


def test_a_prefix_goes_to_the_first_pool_that_serves_its_profile() -> None:
    routed = routing(Rules(PROFILES, PREFIXES), [OLD, NEW])
    assert routed.pools == {
        "10.2.0.0/16": "new", "10.2.3.0/24": "old", "10.3.0.0/16": "old", "fd02::/32": "new",
    }  # fmt: skip
    assert routed.default == "old"
    assert routing(Rules(PROFILES, PREFIXES), [OLD, NEW], "new").pools["10.3.0.0/16"] == "new"
    assert routing(Rules(PROFILES, {}, "modern"), [OLD, NEW]).default == "new"
    assert routing(Rules(PROFILES, {}, "tcp"), [OLD, NEW], "new").default == "new"

    # drivers get what pools do not decide
    assert {name: profile.settings for name, profile in for_kernel(Rules(PROFILES, PREFIXES)).profiles.items()} == {
        "modern": (("initcwnd", 30),), "plain": (), "tcp": (("initcwnd", 4),),
    }  # fmt: skip


def test_settings_of_http_2_choose_too() -> None:
    many = pool_of("many:http_version=h2,h2_max_concurrent_streams=250")
    asked = Profile("asked", (("h2_max_concurrent_streams", 250), ("http_version", "h2")))
    assert routing(Rules({"asked": asked}, {"10.0.0.0/8": "asked"}), [OLD, NEW, many]).pools == {"10.0.0.0/8": "many"}
    with pytest.raises(BadInput, match="profile asked: no pool serves h2_max_concurrent_streams=250, http_version=h2"):
        routing(Rules({"asked": asked}), [OLD, NEW])


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("", "a name is letters"), ("new pool", "a name is letters"), ("x;y", "a name is letters"),
        ("new:http_version", "sets no knob of a web server"), ("new:initcwnd=4", "sets no knob of a web server"),
        ("new:nonsense=4", "KNOB one of http_version"),
    ],
)  # fmt: skip
def test_what_is_no_pool_is_refused(written: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        pool_of(written)


@pytest.mark.parametrize(
    ("pools", "default", "complaint"),
    [
        ([], "", "name each pool once"),
        ([OLD, OLD], "", "name each pool once"),
        ([OLD, NEW], "absent", "no pool is called 'absent'; there is: old, new"),
    ],
)
def test_pools_that_are_none_or_twice_are_refused(pools: list[Pool], default: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        routing(Rules(), pools, default)


def test_maps() -> None:
    routed = routing(Rules(PROFILES, {"10.2.0.0/16": "modern", "fd02::/32": "modern"}), [OLD, NEW])
    assert map_text("nginx", routed).splitlines()[1:] == ["default old;", "10.2.0.0/16 new;", "fd02::/32 new;"]
    lines = ["0.0.0.0/0 old", "::/0 old", "10.2.0.0/16 new", "fd02::/32 new"]
    assert map_text("apache", routed).splitlines()[1:] == lines
    mapped = ["::ffff:0.0.0.0/96 old", "::ffff:10.2.0.0/112 new"]
    assert sorted(map_text("haproxy", routed).splitlines()[1:]) == sorted([*lines, *mapped])
    wide = routing(Rules(PROFILES, {"0.0.0.0/0": "modern"}), [OLD, NEW])
    assert map_text("apache", wide).splitlines()[1:] == ["::/0 old", "0.0.0.0/0 new"]


@given(rules, addresses)
def test_the_program_for_apache_finds_what_the_kernel_would(wanted: Rules, address: object) -> None:
    held = program.tables(f"{prefix} {name}\n" for prefix, name in wanted.prefixes.items())
    found = lookup(replace(wanted, default=""), str(address))
    assert program.pool(held, str(address)) == (found.name if found else program.NOTHING)


def test_the_program_answers_every_line() -> None:
    held = program.tables(["# a map\n", "\n", "10.0.0.0/8 wide\n", "10.1.0.0/16 narrow\n", "fd00::/8 six\n"])
    asked = io.StringIO("10.1.2.3\n10.2.0.1\nfd00::1\n::ffff:10.1.0.1\n192.0.2.1\nnonsense\n\n")
    assert "".join(program.answers(held, asked)).split() == ["narrow", "wide", "six", "narrow", *["NULL"] * 3]


@pytest.mark.parametrize("line", ["10.0.0.1/8 x", "10.0.0.0/8", "10.0.0.0/8 x y", "cat x"])
def test_the_program_names_the_line_that_is_wrong(line: str) -> None:
    with pytest.raises(ValueError, match="line 2: .* is not PREFIX POOL"):
        program.tables(["0.0.0.0/0 all", line])
