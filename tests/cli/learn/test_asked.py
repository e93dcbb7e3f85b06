# SPDX-License-Identifier: MIT
"""Who is meant: a client by an address in its prefix, a policy by one word in every command of `learn`."""

from __future__ import annotations

from typing import Any

import pytest

from configtron.model.errors import DONE, USAGE
from tests.support.learn_command import Typed, brought, refused, shown


def of_prefix(prefix: str, rtt_ms: float, at: int) -> dict[str, Any]:
    """An outcome of that prefix with that round trip."""
    context = {"bandwidth_kbps": 5000, "rtt_ms": rtt_ms, "loss": 0.01, "prefix": prefix}
    return {"plt_ms": 500.0 + at, "profile": {"initcwnd": 10 + 20 * (at % 2)}, "context": context}


def outcomes_of(typed: Typed, *groups: tuple[str, int, int]) -> None:
    """A log more: outcomes of a prefix with a round trip, so many."""
    brought(typed, [of_prefix(prefix, rtt_ms, at) for prefix, rtt_ms, n in groups for at in range(n)])


def test_an_address_is_asked_about_by_the_longest_prefix_around_it(typed: Typed) -> None:
    """IPv4, IPv6, an address and a longer prefix; what is logged as such is itself."""
    prefixes = {"192.0.0.0/16": 30, "192.0.2.0/24": 80, "2001:db8::/32": 150, "2001:db8:1::/48": 300, "house 7": 20}
    brought(typed, [of_prefix(prefix, rtt + at % 3, at) for at in range(40) for prefix, rtt in prefixes.items()])
    shown(typed, "learn", "run", "--policy", "mab_nc", "--classes", 3)
    for asked, prefix in (
        ("192.0.2.7", "192.0.2.0/24"), ("192.0.2.128/25", "192.0.2.0/24"), ("192.0.3.7", "192.0.0.0/16"),
        ("192.0.2.0/23", "192.0.0.0/16"), ("::ffff:192.0.2.7", "192.0.2.0/24"),
        ("2001:db8:1::1", "2001:db8:1::/48"), ("2001:DB8:2::/64", "2001:db8::/32"),
    ):  # fmt: skip
        head = shown(typed, "learn", "explain", asked)[0]
        assert head["prefix"] == prefix and head["about"].startswith(f"{asked} is in {prefix}: ")
        assert prefixes[prefix] <= head["seen"]["rtt_ms"] <= prefixes[prefix] + 2
    for asked in prefixes:
        head = shown(typed, "learn", "explain", asked)[0]
        assert head["prefix"] == asked and " is in " not in head["about"]
    for asked, says in (
        ("203.0.113.9", "in none of the 5 prefixes"), ("2001:db9::1", "in none"), ("192.0.0.0/15", "in none"),
        ("::/0", "in none"), ("house 8", "no address"), ("fe80::1%eth0", "no address"),
    ):  # fmt: skip
        refused(typed, says, "learn", "explain", asked)


def test_a_network_spelt_twice_is_one(typed: Typed) -> None:
    outcomes_of(typed, ("10.1.2.3/24", 10, 1), ("10.1.0.0/16", 500, 40), ("10.1.2.0/24", 80, 3))
    shown(typed, "learn", "run", "--policy", "mab_nc", "--classes", 2)
    head = shown(typed, "learn", "explain", "10.1.2.77")[0]
    assert head["seen"]["rtt_ms"] == 80 and head["about"].startswith("10.1.2.77 is in 10.1.2.0/24: ")
    outcomes_of(typed, ("10.1.2.3/24", 20, 9))
    head = shown(typed, "learn", "explain", "10.1.2.77")[0]
    assert head["seen"]["rtt_ms"] == 20 and head["prefix"] == "10.1.2.0/24", "by the outcomes of both"


def test_a_network_is_read_from_what_the_policy_learns_from(typed: Typed) -> None:
    """Another log's clients of the same prefix, and its longer prefixes, are none of the policy's."""
    outcomes_of(typed, ("10.1.0.0/16", 80, 40))
    outcomes_of(typed, ("10.1.0.0/16", 300, 40), ("10.1.2.0/24", 20, 5))
    for log in (1, 2):
        shown(typed, "learn", "run", "--policy", "mab_nc", "--classes", 2, "--name", f"of{log}", "--log", log)
    for name, asked, prefix, rtt in (
        ("of1", "10.1.0.0/16", "10.1.0.0/16", 80), ("of2", "10.1.0.0/16", "10.1.0.0/16", 300),
        ("of1", "10.1.2.77", "10.1.0.0/16", 80), ("of2", "10.1.2.77", "10.1.2.0/24", 20),
        ("of1", "10.1.2.0/24", "10.1.0.0/16", 80),
    ):  # fmt: skip
        head = shown(typed, "learn", "explain", asked, "--policy", name)[0]
        assert (head["prefix"], head["seen"]["rtt_ms"]) == (prefix, rtt), (name, asked)
    none = "in none of the 1 prefixes that outcomes of log 1,"
    for asked, says in (("10.2.0.1", none), ("house", "no outcome of log 1,")):
        refused(typed, says, "learn", "explain", asked, "--policy", "of1")


@pytest.mark.slow
def test_one_word_names_a_policy(filled: Typed) -> None:
    """Where it is made, where it goes on, where it is asked, judged, handed over and dropped."""
    run = ("learn", "run", "--classes", 4)
    made = shown(filled, *run, "--policy", "mab_nc", "--name", "mine", "--outcomes", 700)[0]
    assert (made["name"], made["policy"], made["learned"]) == ("mine", "mab_nc", 700)
    assert shown(filled, "learn", "run", "--policy", "mine")[0]["learned"] == 1500
    shown(filled, *run, "--policy", "default")
    head = shown(filled, "learn", "explain", "10.0.0.0/24", "--policy", "mine")[0]
    assert (head["name"], head["policy"]) == ("mine", "mab_nc")
    shown(filled, "learn", "export", "--policy", "mine", "--only", "loss")
    shown(filled, "learn", "knobs", "--policy", "mine")
    judged = shown(filled, "learn", "evaluate", "--policy", "mine", "--policy", "initcwnd=30")
    assert [row["candidate"] for row in judged[::3]] == ["mine", "initcwnd=30"]
    assert [row["estimator"] for row in judged[:3]] == ["logged", "dr", "dr_ln"]
    asked = shown(filled, "learn", "evaluate", "--policy", "mine", "--estimator", "snips", "--estimator", "dr")
    assert [row["estimator"] for row in asked] == ["logged", "snips", "dr"]
    assert {row["candidate"] for row in shown(filled, "learn", "evaluate")} == {"default"}
    anew = shown(filled, "learn", "run", "--policy", "mine", "--fresh", "--classes", 6)[0]
    assert (anew["name"], anew["policy"], anew["classes"], anew["learned"]) == ("mine", "mab_nc", 6, 1500)
    assert filled("learn", "drop", "--policy", "mine")[0] == DONE
    assert filled("learn", "drop")[0] == USAGE, "dropping is no default"


@pytest.mark.slow
def test_a_name_means_one_policy(filled: Typed) -> None:
    shown(filled, "learn", "run", "--policy", "mab_nc", "--name", "mine", "--classes", 4)
    for words, says in (
        (("--policy", "default", "--name", "mine"), "without --policy"),
        (("--policy", "mine", "--name", "other"), "mine is there already"),
        (("--policy", "default", "--name", "mab_nc"), "'mab_nc' already means something"),
        (("--name", "initcwnd=30"), '"=" is KNOB=VALUE to `learn evaluate --policy`'),
        (("--policy", "mine", "--fresh", "--classes", "few"), "--classes 'few'"),
        (("--policy", "mine", "--fresh", "--classes", "00"), "a number from 1 to 400"),
        (("--policy", "mine", "--fresh", "--classes", 401), "--classes 401: at most 400: they are made from the first"),
        (("--policy", "mine", "--fresh", "--classes", "9" * 5000), "at most 400"),
        (("--policy", "mine", "--fresh", "--log", 77), "log 77 is not in the database; there is: 1"),
        (("--policy", "their"), "no policy is called 'their'; there is: "),
        (("--policy", "their"), "mine"),  # what is there is named
    ):
        refused(filled, says, "learn", "run", *words)
    (policy,) = [row for row in shown(filled, "learn", "status") if row["kind"] == "policy"]
    assert policy["name"] == "mine" and policy["outcomes"] == 1500, "nothing was forgotten"


@pytest.mark.slow
def test_omissions_are_reported_and_two_sites_are_one_too_many(filled: Typed) -> None:
    filled("learn", "run", "--policy", "mab_nc", "--classes", 4, "--outcomes", 700)
    context = "bandwidth_kbps=5000,rtt_ms=80,loss=0.01"
    code, alone, err = filled("learn", "explain", context)
    assert code == DONE and "is meant" not in err
    filled("learn", "run", "--policy", "default", "--classes", 4, "--outcomes", 700)
    for words in (("explain", context), ("export", "--only", "loss"), ("knobs",), ("evaluate",)):
        assert "default is meant, of 2 policies" in filled("learn", *words)[2]
    code, out, err = filled("learn", "explain", context, "--policy", "mab_nc")
    assert code == DONE and out == alone and "is meant" not in err
    for says in ("'news'", "'shop'"):
        refused(filled, says, "learn", "explain", f"{context},site=news", "--site", "shop", "--policy", "default")
    assert filled("learn", "explain", f"{context},site=news", "--site", "news")[0] == DONE
    twice = "rtt_ms=80,loss=0,rtt_ms=90"
    refused(filled, "'rtt_ms' is in the context twice", "learn", "explain", twice, "--policy", "default")
    assert "there is: bandwidth_kbps, rtt_ms" in filled("learn", "explain", "rtt=80")[2]
