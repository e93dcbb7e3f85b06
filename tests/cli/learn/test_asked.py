# SPDX-License-Identifier: MIT
"""Who is meant: a client by an address in its prefix, a policy by one word in every command of `learn`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from configtron.model.errors import DONE, USAGE
from tests.support.learn_command import Typed, filled, rows, typed

__all__ = ["filled", "typed"]


def test_an_address_is_asked_about_by_the_longest_prefix_around_it(typed: Typed, tmp_path: Path) -> None:
    """IPv4, IPv6, an address and a longer prefix; what is logged as such is itself."""
    prefixes = {"192.0.0.0/16": 30, "192.0.2.0/24": 80, "2001:db8::/32": 150, "2001:db8:1::/48": 300, "house 7": 20}
    lines = [
        {"plt_ms": 500.0 + at, "profile": {"initcwnd": 10 + 20 * (at % 2)},
         "context": {"bandwidth_kbps": 5000, "rtt_ms": rtt + at % 3, "loss": 0.01, "prefix": prefix}}
        for at in range(40) for prefix, rtt in prefixes.items()
    ]  # fmt: skip
    (tmp_path / "o.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    assert typed("learn", "import", "o.jsonl")[0] == DONE
    assert typed("learn", "run", "--policy", "mab_nc", "--classes", 3)[0] == DONE
    for asked, prefix in (
        ("192.0.2.7", "192.0.2.0/24"), ("192.0.2.128/25", "192.0.2.0/24"), ("192.0.3.7", "192.0.0.0/16"),
        ("192.0.2.0/23", "192.0.0.0/16"), ("::ffff:192.0.2.7", "192.0.2.0/24"),
        ("2001:db8:1::1", "2001:db8:1::/48"), ("2001:DB8:2::/64", "2001:db8::/32"),
    ):  # fmt: skip
        code, out, _ = typed("learn", "explain", asked, "-f", "jsonl")
        head = rows(out)[0]
        assert code == DONE and head["prefix"] == prefix and head["about"].startswith(f"{asked} is in {prefix}: ")
        assert prefixes[prefix] <= head["seen"]["rtt_ms"] <= prefixes[prefix] + 2
    for asked in prefixes:
        head = rows(typed("learn", "explain", asked, "-f", "jsonl")[1])[0]
        assert head["prefix"] == asked and " is in " not in head["about"]
    for asked, says in (
        ("203.0.113.9", "in none of the 5 prefixes"), ("2001:db9::1", "in none"), ("192.0.0.0/15", "in none"),
        ("::/0", "in none"), ("house 8", "no address"), ("fe80::1%eth0", "no address"),
    ):  # fmt: skip
        code, out, err = typed("learn", "explain", asked)
        assert code == USAGE and out == "" and says in err and err.count("\n") == 1 and asked in err


def outcomes_of(folder: Path, typed: Typed, *groups: tuple[str, int, int]) -> None:
    """A log more: outcomes of a prefix with a round trip, so many."""
    lines = [
        json.dumps({"plt_ms": 500.0 + at, "profile": {"initcwnd": 10 + 20 * (at % 2)},
                    "context": {"bandwidth_kbps": 5000, "rtt_ms": rtt, "loss": 0.01, "prefix": prefix}})
        for prefix, rtt, n in groups for at in range(n)
    ]  # fmt: skip
    (folder / "o.jsonl").write_text("\n".join(lines))
    assert typed("learn", "import", "o.jsonl")[0] == DONE


def test_a_network_spelt_twice_is_one(typed: Typed, tmp_path: Path) -> None:
    outcomes_of(tmp_path, typed, ("10.1.2.3/24", 10, 1), ("10.1.0.0/16", 500, 40), ("10.1.2.0/24", 80, 3))
    assert typed("learn", "run", "--policy", "mab_nc", "--classes", 2)[0] == DONE
    head = rows(typed("learn", "explain", "10.1.2.77", "-f", "jsonl")[1])[0]
    assert head["seen"]["rtt_ms"] == 80 and head["about"].startswith("10.1.2.77 is in 10.1.2.0/24: ")
    outcomes_of(tmp_path, typed, ("10.1.2.3/24", 20, 9))
    head = rows(typed("learn", "explain", "10.1.2.77", "-f", "jsonl")[1])[0]
    assert head["seen"]["rtt_ms"] == 20 and head["prefix"] == "10.1.2.0/24", "by the outcomes of both"


def test_a_network_is_read_from_what_the_policy_learns_from(typed: Typed, tmp_path: Path) -> None:
    """Another log's clients of the same prefix, and its longer prefixes, are none of the policy's."""
    outcomes_of(tmp_path, typed, ("10.1.0.0/16", 80, 40))
    outcomes_of(tmp_path, typed, ("10.1.0.0/16", 300, 40), ("10.1.2.0/24", 20, 5))
    made = ("learn", "run", "--policy", "mab_nc", "--classes", 2)
    for log in (1, 2):
        assert typed(*made, "--name", f"of{log}", "--log", log)[0] == DONE
    for name, asked, prefix, rtt in (
        ("of1", "10.1.0.0/16", "10.1.0.0/16", 80), ("of2", "10.1.0.0/16", "10.1.0.0/16", 300),
        ("of1", "10.1.2.77", "10.1.0.0/16", 80), ("of2", "10.1.2.77", "10.1.2.0/24", 20),
        ("of1", "10.1.2.0/24", "10.1.0.0/16", 80),
    ):  # fmt: skip
        head = rows(typed("learn", "explain", asked, "--policy", name, "-f", "jsonl")[1])[0]
        assert (head["prefix"], head["seen"]["rtt_ms"]) == (prefix, rtt), (name, asked)
    none = "in none of the 1 prefixes that outcomes of log 1,"
    for asked, says in (("10.2.0.1", none), ("house", "no outcome of log 1,")):
        code, _, err = typed("learn", "explain", asked, "--policy", "of1")
        assert code == USAGE and says in err and err.count("\n") == 1


@pytest.mark.slow
def test_one_word_names_a_policy(filled: Typed) -> None:
    """Where it is made, where it goes on, where it is asked, judged, handed over and dropped."""
    run = ("learn", "run", "--classes", 4, "-f", "jsonl")
    made = rows(filled(*run, "--policy", "mab_nc", "--name", "mine", "--outcomes", 700)[1])[0]
    assert (made["name"], made["policy"], made["learned"]) == ("mine", "mab_nc", 700)
    assert rows(filled("learn", "run", "--policy", "mine", "-f", "jsonl")[1])[0]["learned"] == 1500
    assert filled("learn", "run", "--policy", "default", "--classes", 4)[0] == DONE
    head = rows(filled("learn", "explain", "10.0.0.0/24", "--policy", "mine", "-f", "jsonl")[1])[0]
    assert (head["name"], head["policy"]) == ("mine", "mab_nc")
    assert filled("learn", "export", "--policy", "mine", "--only", "loss")[0] == DONE
    assert filled("learn", "knobs", "--policy", "mine")[0] == DONE
    judged = rows(filled("learn", "evaluate", "--policy", "mine", "--policy", "initcwnd=30", "-f", "jsonl")[1])
    assert [row["candidate"] for row in judged[::3]] == ["mine", "initcwnd=30"]
    assert [row["estimator"] for row in judged[:3]] == ["logged", "dr", "dr_ln"]
    asked = filled("learn", "evaluate", "--policy", "mine", "--estimator", "snips", "--estimator", "dr", "-f", "jsonl")
    assert [row["estimator"] for row in rows(asked[1])] == ["logged", "snips", "dr"]
    assert {row["candidate"] for row in rows(filled("learn", "evaluate", "-f", "jsonl")[1])} == {"default"}
    anew = rows(filled(*run[:2], "--policy", "mine", "--fresh", "--classes", 6, "-f", "jsonl")[1])[0]
    assert (anew["name"], anew["policy"], anew["classes"], anew["learned"]) == ("mine", "mab_nc", 6, 1500)
    assert filled("learn", "drop", "--policy", "mine")[0] == DONE
    assert filled("learn", "drop")[0] == USAGE, "dropping is no default"


@pytest.mark.slow
def test_a_name_means_one_policy(filled: Typed) -> None:
    assert filled("learn", "run", "--policy", "mab_nc", "--name", "mine", "--classes", 4)[0] == DONE
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
    ):
        code, out, err = filled("learn", "run", *words)
        assert code == USAGE and out == "" and says in err and err.count("\n") == 1, words
    assert "mine" in filled("learn", "run", "--policy", "their")[2], "what is there is named"
    (kept,) = [row for row in rows(filled("learn", "status", "-f", "jsonl")[1]) if row["kind"] == "policy"]
    assert kept["name"] == "mine" and kept["outcomes"] == 1500, "nothing was forgotten"


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
    code, out, err = filled("learn", "explain", f"{context},site=news", "--site", "shop", "--policy", "default")
    assert code == USAGE and out == "" and "'news'" in err and "'shop'" in err and err.count("\n") == 1
    assert filled("learn", "explain", f"{context},site=news", "--site", "news")[0] == DONE
    code, out, err = filled("learn", "explain", "rtt_ms=80,loss=0,rtt_ms=90", "--policy", "default")
    assert code == USAGE and out == "" and "'rtt_ms' is in the context twice" in err and err.count("\n") == 1
    assert "there is: bandwidth_kbps, rtt_ms" in filled("learn", "explain", "rtt=80")[2]
