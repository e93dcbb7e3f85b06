# SPDX-License-Identifier: MIT
"""A scope that another program changed stays frozen until `unfreeze`, also when nothing of ours is left."""

from __future__ import annotations

from configtron.model.errors import DONE, NOTHING
from configtron.model.tuning import Changes, Rules
from tests.support.memory_stack import Stack, stack
from tests.support.tune_command import TuneCommand, rows, tune, wanted

__all__ = ["stack", "tune", "wanted"]

SCOPE = "10.1.0.0/16"


def frozen(wanted: TuneCommand, stack: Stack, *scopes: str) -> None:
    """In force, and these prefixes removed by another program while a watch runs."""
    assert wanted("apply", "--driver", "memory", "--keep")[0] == DONE
    wanted("watch", "--for", "0.1")
    stack.driver.apply(Changes(dropped_prefixes=frozenset(scopes)))
    wanted("watch", "--for", "0.1")


def test_after_a_rollback_it_is_frozen_and_reported(wanted: TuneCommand, stack: Stack) -> None:
    frozen(wanted, stack, SCOPE)
    (act, one) = rows(wanted("status", "-f", "jsonl")[1])
    assert (act["kind"], one["kind"], one["scope"]) == ("act", "frozen", SCOPE)
    assert "taken back" not in str(one["about"])
    code, _, message = wanted("rollback")
    assert code == DONE and stack.rules == Rules()
    assert message.startswith(f"{SCOPE} is frozen: no plan touches")
    assert message.endswith(f"configtron tune unfreeze {SCOPE}\n")
    code, out, message = wanted("status", "-f", "jsonl")
    (one,) = rows(out)
    assert (code, one["kind"], one["scope"]) == (DONE, "frozen", SCOPE) and "taken back since" in str(one["about"])
    assert message.startswith("nothing of ours is in force; transaction 1 ended") and f"unfreeze {SCOPE}" in message
    # It is not touched, all else is; and after its resuming it is.
    assert wanted("apply", "--driver", "memory")[0] == DONE
    assert SCOPE not in stack.rules.prefixes and "2001:db8::/32" in stack.rules.prefixes
    assert wanted("unfreeze", SCOPE)[0] == DONE and wanted("apply", "--driver", "memory")[0] == DONE
    assert SCOPE in stack.rules.prefixes


def test_several_are_counted_and_freed_at_once(wanted: TuneCommand, stack: Stack) -> None:
    frozen(wanted, stack, SCOPE, "2001:db8::/32")
    assert "2 scopes are frozen" in wanted("rollback")[2]
    assert wanted("unfreeze", "--all")[0] == DONE
    assert "frozen" not in "".join(map(str, wanted("status")))
    assert wanted("unfreeze", "--all")[0] == NOTHING


def test_a_freeze_elsewhere_is_not_reported_at_a_rollback_here(wanted: TuneCommand, stack: Stack) -> None:
    frozen(wanted, stack, SCOPE)
    wanted("rollback")
    assert "frozen" not in wanted("rollback")[2], "nothing was undone"
    assert "frozen" in wanted("status")[2]


def test_what_is_lost_together_is_one_event_and_one_row(wanted: TuneCommand, stack: Stack) -> None:
    """One detached program is one event, however many prefixes it served, and nothing is in force any more."""
    many = [f"172.16.{n}.0/24" for n in range(200)]
    assert wanted("prefix", "set", *many, "web")[0] == DONE
    assert wanted("apply", "--driver", "memory", "--keep")[0] == DONE
    wanted("watch", "--for", "0.1")
    stack.driver.revert("{}")
    code, out, message = wanted("watch", "--for", "0.1", "-f", "jsonl")
    (event,) = rows(out)
    assert (event["event"], event["scope"], event["was"]) == ("foreign", "place", "202 prefixes, default small")
    assert rows(wanted("watch", "--for", "0.1", "-f", "jsonl")[1]) == [], "reported once"
    acts = rows(wanted("status", "-f", "jsonl")[1])
    assert [row["kind"] for row in acts] == ["act", "frozen"]
    for keep in (("--keep",), ()):
        code, out, message = wanted("apply", "--driver", "memory", "-f", "jsonl", *keep)
        assert code == NOTHING and "kept" not in out + message and "nothing is in force" in message
        assert rows(out)[0]["status"] == "frozen" and stack.rules == Rules()
    assert "frozen" in wanted("plan", "--driver", "memory")[2]
    assert wanted("unfreeze", "place")[0] == DONE
    assert wanted("apply", "--driver", "memory", "--keep")[0] == DONE and len(stack.rules.prefixes) == 202


def test_what_one_ip_version_loses_is_one_event(wanted: TuneCommand, stack: Stack) -> None:
    assert wanted("prefix", "set", "2001:db8:1::/48", "web")[0] == DONE
    assert wanted("apply", "--driver", "memory", "--keep")[0] == DONE
    wanted("watch", "--for", "0.1")
    stack.driver.apply(Changes(dropped_prefixes=frozenset({"2001:db8::/32", "2001:db8:1::/48"})))
    (event,) = rows(wanted("watch", "--for", "0.1", "-f", "jsonl")[1])
    assert (event["scope"], event["was"], event["found"]) == ("ipv6", "2 prefixes", "")
    assert wanted("prefix", "set", "10.7.0.0/16", "web")[0] == DONE
    assert wanted("apply", "--driver", "memory", "--keep")[0] == DONE
    assert stack.rules.prefixes == {SCOPE: "web", "10.7.0.0/16": "web"}, "IPv6 is frozen, IPv4 is not"
