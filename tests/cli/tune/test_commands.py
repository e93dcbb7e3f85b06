# SPDX-License-Identifier: MIT
"""The commands as people type them, in this process, on a stack that is memory: words, exit codes, one scenario each.

What transactions, leases and watches do is tested in tests/service/lease; plans, guard and rules in tests/tune; the
bytes of lists in tests/contract.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from configtron.linux.mounts import Mount
from configtron.model.errors import CONDITION, DONE, INTERRUPTED, NOTHING, PRIVILEGE, REFUSED, USAGE
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Rules
from configtron.service.lease import options as lease_options
from configtron.service.lease import watchdog_process
from configtron.tune.drivers.memory import MemoryDriver
from tests.support.memory_stack import Stack
from tests.support.tune_command import TuneCommand, rows
from tests.support.waiting import until

MEMORY = ("--driver", "memory")
JSONL = ("-f", "jsonl")
SCOPE = "10.1.0.0/16"


def test_profiles(wanted: TuneCommand) -> None:
    assert wanted("profile", "set", "web", "initcwnd=30", "--drop", "tcp_congestion_control")[0] == DONE
    listed = rows(wanted("profile", "list", *JSONL)[1])
    assert {row["profile"]: row["settings"] for row in listed} == {"small": {"initcwnd": 4}, "web": {"initcwnd": 30}}
    assert wanted("profile", "drop", "web")[0] == USAGE
    assert wanted("prefix", "drop", SCOPE, "2001:db8::/32")[0] == DONE
    assert [wanted("profile", "drop", "web")[0] for _ in range(2)] == [DONE, NOTHING]
    code, _, message = wanted("profile", "set", "x", "initcwnd=4", "min_rto=-1")
    assert code == USAGE and "min_rto=-1 is beyond" in message and "0.001..120 s (kmod, route, sysctl)" in message
    assert [row["profile"] for row in rows(wanted("profile", "list", *JSONL)[1])] == ["small"]


def test_prefixes(wanted: TuneCommand, tmp_path: Path) -> None:
    listed = wanted("prefix", "list", "-f", "csv")[1]
    assert listed == "prefix,profile,owner\n10.1.0.0/16,web,human\n2001:db8::/32,web,human\ndefault,small,human\n"
    (tmp_path / "p.csv").write_text(listed.replace(SCOPE, "10.9.0.0/16") + "\n# none\n192.0.2.1 small\n")
    code, _, message = wanted("prefix", "import", "--whole", str(tmp_path / "p.csv"))
    assert (code, message) == (DONE, "3 prefixes read, +1 in all\n")
    assert wanted("prefix", "list", "-f", "csv")[1].splitlines()[1:] == [
        "10.9.0.0/16,web,human", "192.0.2.1/32,small,human", "2001:db8::/32,web,human", "default,small,human",
    ]  # fmt: skip
    shown = rows(wanted("prefix", "show", "10.9.3.4", "::ffff:192.0.2.1", "8.8.8.8", *JSONL)[1])
    assert [(row["prefix"], row["profile"]) for row in shown] == [
        ("10.9.0.0/16", "web"), ("192.0.2.1/32", "small"), ("default", "small"),
    ]  # fmt: skip
    for wrong, line in (("10.1.2.3/16 web", 1), ("# x\n10.0.0.0/8", 2), ("10.0.0.0/8 none", 0)):
        (tmp_path / "bad").write_text(wrong + "\n")
        code, _, message = wanted("prefix", "import", str(tmp_path / "bad"))
        assert code == USAGE and (f"line {line}" in message or not line)
    assert [wanted("prefix", "drop", "--all")[0] for _ in range(2)] == [DONE, NOTHING]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        *((f"profile set {wrong}", USAGE) for wrong in ("default initcwnd=1", "untouched", "x icwnd=1", "x --drop y")),
        ("profile show none", NOTHING),
        ("prefix set 10.0.0.0/8 none", USAGE),
        ("prefix show x", USAGE),
        ("prefix drop", USAGE),
        *((f"--driver memory apply --lease {span}", USAGE) for span in ("inf", "nan", "0.1")),
        ("--driver memory plan --holdback nan", USAGE),
        ("plan --driver none", USAGE),
        ("rollback --last --keep", USAGE),
        ("rollback", DONE),
        ("verify", NOTHING),
        ("unfreeze", USAGE),
        ("plan --driver memory --listen https", USAGE),
        *((f"plan --driver {driver} --listen 192.0.2.1:443", PRIVILEGE) for driver in ("kmod", "route", "sysctl")),
        *((f"export --as {form} --listen 443", PRIVILEGE) for form in ("iproute2", "networkd", "sysctl")),
        *((f"--driver memory {command} --allow-unfair --bound {wrong}", USAGE) for command in ("plan", "apply")
          for wrong in ("initcwnd", "icwnd=1..2", "initcwnd=a..b", "initcwnd=9..1", "initcwnd=nan..1")),
        ("prefix drop 9.9.9.9", NOTHING),
        ("profile drop x", NOTHING),
        ("unacknowledge x", NOTHING),
        ("unfreeze x", NOTHING),
        ("--netns absent plan", PRIVILEGE),
        ("doctor --netns absent", NOTHING),
        ("doctor --netns absent -f jsonl", NOTHING),
    ],
)  # fmt: skip
def test_exit_codes(wanted: TuneCommand, stack: Stack, words: str, code: int) -> None:
    """Each with a single line that says why; nothing is changed."""
    before = wanted("profile", "list")[1], wanted("prefix", "list")[1]
    found, out, message = wanted(*words.split())
    assert (found, out) == (code, "") and (message.count("\n") == 1 or "Usage: " in message)
    if code == NOTHING and words.endswith((" x", "9.9.9.9")):
        assert "`configtron tune " in message
    assert stack.rules == Rules() and (wanted("profile", "list")[1], wanted("prefix", "list")[1]) == before
    assert wanted("profile", "set", "a b", "initcwnd=1")[0] == USAGE


def test_nothing_stored_and_nothing_in_force_is_one_line(tune: TuneCommand) -> None:
    lists = ("profile list", "prefix list", "acknowledge", "recover", "log", "status", "watch --for 0.1")
    for command in (*lists, "profile list -f jsonl"):
        code, out, message = tune(*command.split())
        assert (code, out, len(message.splitlines())) == (DONE, "", 1)
    for command in ("profile set web initcwnd=20", f"prefix set {SCOPE} web", "prefix drop --all", "profile drop web"):
        assert len(tune(*command.split())[2].splitlines()) == 1


def test_plan_apply_and_rollback(wanted: TuneCommand, stack: Stack) -> None:
    code, out, message = wanted("plan", *MEMORY, *JSONL)
    head, *advices = rows(out)
    assert code == DONE and head["advices"] == {"due": 6} and len(advices) == 6 and "nothing was written" in message
    assert stack.rules == Rules() and wanted("status") == (DONE, "", "nothing of ours is in force\n")
    code, out, message = wanted("apply", *MEMORY, *JSONL)
    (row,) = rows(out)
    assert (code, row["act"], row["changes"], row["prefixes"], row["lease_s"]) == (DONE, 1, 6, 2, 60.0)
    assert "rollback --keep" in message and stack.rules.prefixes == {SCOPE: "web", "2001:db8::/32": "web"}
    # the same again changes the lease alone, which is as long as the last apply asked
    assert rows(wanted("plan", *MEMORY, *JSONL)[1])[1:] == []
    for lease in ("100", "9"):
        _, out, message = wanted("apply", *MEMORY, "--lease", lease, *JSONL)
        (row,) = rows(out)
        assert (row["act"], row["lease_s"]) == (1, float(lease)) and "nothing to change" in message
        assert f"undone in {lease} s" in message or lease == "100"
        (row,) = rows(wanted("status", *JSONL)[1])
        assert row["status"] == "leased" and -10 < float(str(row["lease_left_s"])) - float(lease) <= 0
    code, out, _ = wanted("rollback", *JSONL)
    assert code == DONE and [(row["act"], row["status"]) for row in rows(out)] == [(1, "undone")]
    assert stack.rules == Rules()


def test_keep(wanted: TuneCommand, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted("apply", *MEMORY)
    (row,) = rows(wanted("rollback", "--keep", *JSONL)[1])
    assert (row["was"], row["status"]) == ("leased", "kept")
    wanted("profile", "set", "web", "initcwnd=10")
    wanted("apply", *MEMORY)
    wanted("rollback", "--last", *MEMORY)
    assert dict(stack.rules.profiles["web"].settings)["initcwnd"] == 20
    assert rows(wanted("status", *JSONL)[1])[0]["status"] == "kept"
    wanted("rollback")
    assert stack.rules == Rules()
    # kept routes need a watch
    message = "its routes follow a change of gateway only while `configtron tune watch` runs"
    code, out, said = wanted("apply", *MEMORY, "--keep", *JSONL)
    assert rows(out)[0]["status"] == "kept" and message not in said
    wanted("rollback")
    monkeypatch.setattr(MemoryDriver, "follow", lambda _: 0, raising=False)
    assert message in wanted("apply", *MEMORY, "--keep")[2]
    wanted("rollback")
    wanted("apply", *MEMORY)
    assert message in wanted("rollback", "--keep")[2]


def test_an_interrupt_after_the_last_write_is_reported(
    wanted: TuneCommand, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    assert wanted("apply", *MEMORY)[0] == DONE
    wanted("profile", "set", "small", "initcwnd=10")
    monkeypatch.setattr(watchdog_process, "dismiss", interrupt)
    code, _, message = wanted("apply", *MEMORY)
    taken = "transaction 2 is leased; take it back: configtron tune rollback\n"
    assert code == INTERRUPTED and message.startswith(taken)
    wanted("profile", "set", "small", "initcwnd=16")
    stack.fail_apply = KeyboardInterrupt()
    code, _, message = wanted("apply", *MEMORY)
    assert code == INTERRUPTED and "take it back" not in message


def test_muted_advice_is_not_followed(wanted: TuneCommand, stack: Stack) -> None:
    advices = {str(row["scope"]): str(row["id"]) for row in rows(wanted("plan", *MEMORY, *JSONL)[1])[1:]}
    muted = sorted((advices[SCOPE], advices["profile:small"]))
    assert wanted("acknowledge", *muted, "--about", "known")[0] == DONE
    _, out, message = wanted("plan", *MEMORY)
    assert SCOPE not in out and "4 due, 2 muted" in message
    assert SCOPE in wanted("plan", *MEMORY, "--all")[1]
    wanted("apply", *MEMORY)
    assert list(stack.rules.prefixes) == ["2001:db8::/32"] and stack.rules.profiles["small"] == Profile("small")
    assert sorted(str(row["id"]) for row in rows(wanted("acknowledge", *JSONL)[1])) == muted
    assert [wanted("unacknowledge", *advices.values())[0] for _ in range(2)] == [DONE, NOTHING]
    assert "2 due" in wanted("plan", *MEMORY)[2]


def test_the_guard_and_its_options(wanted: TuneCommand, stack: Stack, tmp_path: Path) -> None:
    """Options of the verb and of its file hold for all commands."""
    wanted("profile", "set", "web", "tcp_congestion_control=bbr")
    for command in ("plan", "apply"):
        for options, stated in (
            ("", "unfair to cubic"),
            ("--allow-unfair --bound initcwnd=1..10", "beyond your bound"),
            ("--allow-unfair --max-prefixes 1", "--max-prefixes"),
        ):
            code, _, message = wanted(command, *MEMORY, *options.split())
            assert code == REFUSED and stated in message
    assert stack.rules == Rules() and wanted("status")[1] == ""
    everywhere = ("--driver", "memory", "--allow-unfair", "--max-prefixes", "1", "plan")
    assert [wanted(*everywhere, *own)[0] for own in ((), ("--max-prefixes", "2"))] == [REFUSED, DONE]
    assert wanted("apply", *MEMORY, "--allow-unfair")[0] == DONE
    config = tmp_path / "XDG_CONFIG_HOME" / "configtron"
    config.mkdir(parents=True)
    for line, code, stated in (
        ('bound = ["initcwnd=1..10"]', REFUSED, "beyond your bound"),
        ("allow-unfair = true\nholdback = 1.0", DONE, "2 prefixes in the control group"),
    ):
        (config / "config.toml").write_text(f'[tune]\ndriver = "memory"\n{line}\n')
        found, _, message = wanted("plan")
        assert found == code and stated in message


def test_other_hands_freeze_a_scope(wanted: TuneCommand, stack: Stack) -> None:
    wanted("apply", *MEMORY)
    assert wanted("watch", "--for", "0.1") == (DONE, "", "watching transaction 1\n")
    stack.driver.apply(Changes(dropped_prefixes=frozenset({SCOPE})))
    (event,) = rows(wanted("watch", "--for", "0.1", *JSONL)[1])
    assert [event[key] for key in ("event", "scope", "was", "found")] == ["foreign", SCOPE, "profile=web", ""]
    assert wanted("watch", "--for", "0.1")[1] == "", "reported once"
    code, out, _ = wanted("verify", *JSONL)
    assert code == CONDITION and [row["scope"] for row in rows(out)] == [SCOPE]
    (act, one) = rows(wanted("status", *JSONL)[1])
    assert (act["kind"], one["kind"], one["scope"]) == ("act", "frozen", SCOPE)
    assert "taken back" not in str(one["about"]) and "1 frozen" in wanted("plan", *MEMORY)[2]
    wanted("profile", "set", "small", "initcwnd=1")
    assert wanted("apply", *MEMORY)[0] == DONE
    assert SCOPE not in stack.rules.prefixes and wanted("verify")[0] == DONE
    # after a rollback it is frozen still
    code, _, message = wanted("rollback")
    assert code == DONE and stack.rules == Rules() and message.startswith(f"{SCOPE} is frozen: no plan touches")
    assert message.endswith(f"configtron tune unfreeze {SCOPE}\n")
    assert "frozen" not in wanted("rollback")[2], "nothing was undone"
    code, out, message = wanted("status", *JSONL)
    (one,) = rows(out)
    assert (code, one["kind"], one["scope"]) == (DONE, "frozen", SCOPE) and "taken back since" in str(one["about"])
    assert message.startswith("nothing of ours is in force; transaction 2 ended") and f"unfreeze {SCOPE}" in message
    assert wanted("apply", *MEMORY)[0] == DONE and list(stack.rules.prefixes) == ["2001:db8::/32"]
    assert [wanted("unfreeze", SCOPE)[0] for _ in range(2)] == [DONE, NOTHING]
    assert wanted("watch", "--for", "0.1")[1] == "", "an unfrozen change is not reported again"
    wanted("apply", *MEMORY)
    assert stack.rules.prefixes[SCOPE] == "web"


def test_what_is_lost_together_is_one_event_and_one_row(wanted: TuneCommand, stack: Stack) -> None:
    """One detached program is one event, however many prefixes it served, and nothing is in force any more."""
    many = [f"172.16.{n}.0/24" for n in range(200)]
    assert wanted("prefix", "set", *many, "web")[0] == DONE
    assert wanted("apply", *MEMORY, "--keep")[0] == DONE
    wanted("watch", "--for", "0.1")
    stack.driver.revert("{}")
    (event,) = rows(wanted("watch", "--for", "0.1", *JSONL)[1])
    assert [event[key] for key in ("event", "scope", "was")] == ["foreign", "place", "202 prefixes, default small"]
    assert rows(wanted("watch", "--for", "0.1", *JSONL)[1]) == [], "reported once"
    assert [row["kind"] for row in rows(wanted("status", *JSONL)[1])] == ["act", "frozen"]
    for keep in (("--keep",), ()):
        code, out, message = wanted("apply", *MEMORY, *JSONL, *keep)
        assert code == NOTHING and "kept" not in out + message and "nothing is in force" in message
        assert rows(out)[0]["status"] == "frozen" and stack.rules == Rules()
    assert "frozen" in wanted("plan", *MEMORY)[2]
    assert wanted("unfreeze", "place")[0] == DONE
    assert wanted("apply", *MEMORY, "--keep")[0] == DONE and len(stack.rules.prefixes) == 202


def test_what_one_ip_version_loses_is_one_event_and_all_is_freed_at_once(wanted: TuneCommand, stack: Stack) -> None:
    assert wanted("prefix", "set", "2001:db8:1::/48", "web")[0] == DONE
    assert wanted("apply", *MEMORY, "--keep")[0] == DONE
    wanted("watch", "--for", "0.1")
    stack.driver.apply(Changes(dropped_prefixes=frozenset({"2001:db8::/32", "2001:db8:1::/48"})))
    (event,) = rows(wanted("watch", "--for", "0.1", *JSONL)[1])
    assert (event["scope"], event["was"], event["found"]) == ("ipv6", "2 prefixes", "")
    assert wanted("prefix", "set", "10.7.0.0/16", "web")[0] == DONE
    assert wanted("apply", *MEMORY, "--keep")[0] == DONE
    assert stack.rules.prefixes == {SCOPE: "web", "10.7.0.0/16": "web"}, "IPv6 is frozen, IPv4 is not"
    wanted("watch", "--for", "0.1")
    stack.driver.apply(Changes(dropped_prefixes=frozenset({SCOPE})))
    wanted("watch", "--for", "0.1")
    assert "2 scopes are frozen" in wanted("rollback")[2]
    assert wanted("unfreeze", "--all")[0] == DONE and "frozen" not in "".join(map(str, wanted("status")))
    assert wanted("unfreeze", "--all")[0] == NOTHING


def test_rollback_is_of_the_place_that_is_named_and_of_all_if_none_is(
    wanted: TuneCommand, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group has one name, whether its path begins at the hierarchy's root, at its mount, or nowhere."""
    root = "/sys/fs/cgroup/unified"
    monkeypatch.setattr(lease_options, "mounts", lambda _: [Mount("0:1", root, "cgroup2", "cgroup2")])
    assert [lease_options.cgroup_path(name) for name in (f"{root}/", "/", "", f"{root}.x")] == ["", "", "", f"{root}.x"]
    assert {wanted(name, "", "plan")[0] for name in ("--cgroup", "--netns")} == {USAGE}
    wanted("--driver", "memory", "--cgroup", "/a", "apply")
    wanted("profile", "set", "small", "initcwnd=10")
    wanted("--driver", "memory", "--cgroup", "b/c.service", "apply")
    assert [row["act"] for row in rows(wanted("--cgroup", f"{root}/b/c.service/", "rollback", *JSONL)[1])] == [2]
    assert [row["act"] for row in rows(wanted("status", *JSONL)[1])] == [1]
    assert [row["act"] for row in rows(wanted("--driver", "memory", "rollback", *JSONL)[1])] == [1]
    assert wanted("status")[1] == ""
    # what no journal knows is undone by the driver that is named
    wanted("apply", *MEMORY, "--keep")
    (tmp_path / "XDG_DATA_HOME" / "configtron" / "configtron.db").unlink()
    assert wanted("rollback")[0] == DONE and stack.rules != Rules()
    assert wanted("rollback", *MEMORY)[0] == DONE and stack.rules == Rules()


def test_listeners_are_kept_and_distinguished(wanted: TuneCommand, stack: Stack, tmp_path: Path) -> None:
    plan = tmp_path / "plan.jsonl"
    assert wanted("plan", *MEMORY, "--listen", "8443", "--listen", "443", *JSONL, "-o", str(plan))[0] == DONE
    assert json.loads(plan.read_text().splitlines()[0])["place"] == {"listen": "443,8443"}
    assert wanted("apply", str(plan), "--keep")[0] == DONE and stack.rules.prefixes
    (row,) = rows(wanted("status", *JSONL)[1])
    assert json.loads(str(row["place"])) == {"listen": "443,8443"} and wanted("verify")[0] == DONE
    # another choice is another place: nothing of it is in force
    code, _, message = wanted("rollback", "--listen", "443")
    assert (code, "nothing of ours" in message, bool(stack.rules.prefixes)) == (DONE, True, True)
    (undone,) = rows(wanted("rollback", "--listen", "443,8443", *JSONL)[1])
    assert undone["status"] == "undone" and not stack.rules.prefixes
    # without a choice every one ends
    assert wanted("apply", *MEMORY, "--listen", "443", "--keep")[0] == DONE
    assert len(rows(wanted("rollback", *JSONL)[1])) == 1 and not stack.rules.prefixes
    # from the file, or from `tune`
    file = tmp_path / "XDG_CONFIG_HOME" / "configtron" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('[tune]\nlisten = ["443", "192.0.2.1:80"]\n')
    assert rows(wanted("plan", *MEMORY, *JSONL)[1])[0]["place"] == {"listen": "192.0.2.1:80,443"}
    assert rows(wanted("--listen", "22", "plan", *MEMORY, *JSONL)[1])[0]["place"] == {"listen": "22"}


def test_recover(wanted: TuneCommand, stack: Stack) -> None:
    wanted("apply", *MEMORY, "--lease", "0.5")
    stack.fail_revert = OSError("no device")
    until(lambda: "no device" in (found := wanted("recover"))[2] and found[0] == NOTHING)
    stack.fail_revert = None
    code, out, _ = wanted("recover")
    assert code == DONE and "lease ended" in out and stack.rules == Rules()
    assert wanted("status")[2] == "nothing of ours is in force; transaction 1 ended 0 s ago: lease\n"
    wanted("apply", *MEMORY)
    found = [(row["act"], row["ended_s_ago"] is None, row["why"]) for row in rows(wanted("log", *JSONL)[1])]
    assert found == [(2, True, ""), (1, False, "lease ended")]
    stack.fail_revert = OSError("no device")
    wanted("rollback")
    code, out, message = wanted("verify", *JSONL)
    assert code == CONDITION
    assert "its rollback has not ended; end what is still in force: configtron tune roll" in message
    assert {row["scope"] for row in rows(out)} >= {"default", *stack.rules.prefixes}
    (act,) = rows(wanted("status", *JSONL)[1])
    assert (act["status"], act["in_force"]) == ("undoing", 2) and "its rollback has not ended" in str(act["about"])
    stack.fail_revert = None
    assert wanted("verify")[0] == NOTHING and stack.rules == Rules() and rows(wanted("status", *JSONL)[1]) == []


def test_reapply_and_refusals(wanted: TuneCommand, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open connections are moved on request, and what the kernel refused at one is a difference."""
    assert wanted("reapply") == (NOTHING, "", "nothing of ours is in force here\n")
    assert wanted("--driver", "memory", "apply")[0] == DONE
    code, out, _ = wanted("reapply", *JSONL)
    assert code == NOTHING and rows(out)[0]["about"] == "does not reach open connections"
    monkeypatch.setattr(MemoryDriver, "move", lambda self: (9, 2), raising=False)
    code, out, _ = wanted("reapply", *JSONL)
    (row,) = rows(out)
    assert (code, row["act"], row["driver"], row["served"], row["moved"]) == (DONE, 1, "memory", 9, 2)
    refused = {"min_rto": (3, "Invalid argument")}
    monkeypatch.setattr(MemoryDriver, "refusals", lambda self: refused, raising=False)
    code, out, _ = wanted("verify", *JSONL)
    (row,) = rows(out)
    assert code == CONDITION and (row["scope"], row["knob"]) == ("connections", "min_rto")
    assert row["found"] == "refused 3 times: Invalid argument"
    refused.clear()
    assert wanted("verify")[0] == DONE
