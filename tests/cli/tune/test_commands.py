# SPDX-License-Identifier: MIT
"""The commands as people type them, in this process, on a stack that is memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.model.errors import CONDITION, DONE, INTERRUPTED, NOTHING, PRIVILEGE, REFUSED, USAGE
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Rules
from configtron.service.lease import watchdog_process
from configtron.tune.drivers.memory import MemoryDriver
from configtron.tune.rules import lookup
from tests.support.memory_stack import Stack, stack
from tests.support.tune_command import TuneCommand, rows, tune, wanted

__all__ = ["stack", "tune", "wanted"]


def test_profiles(wanted: TuneCommand) -> None:
    assert wanted("profile", "set", "web", "initcwnd=30", "--drop", "tcp_congestion_control")[0] == DONE
    listed = rows(wanted("profile", "list", "-f", "jsonl")[1])
    assert [(row["profile"], row["settings"], row["prefixes"], row["default"]) for row in listed] == [
        ("small", {"initcwnd": 4}, 0, True),
        ("web", {"initcwnd": 30}, 2, False),
    ]
    assert {row["schema"] for row in listed} == {"configtron.tuning/1"}
    (row,) = rows(wanted("profile", "show", "web", "-f", "jsonl")[1])
    assert (row["knob"], row["value"], row["unit"]) == ("initcwnd", 30, "segments")
    assert wanted("profile", "show", "none")[0] == NOTHING
    assert wanted("profile", "drop", "web")[0] == USAGE
    assert wanted("prefix", "drop", "10.1.0.0/16", "2001:db8::/32")[0] == DONE
    assert wanted("profile", "drop", "web")[0] == DONE
    assert wanted("profile", "drop", "web")[0] == NOTHING
    listed_left = rows(wanted("profile", "list", "-f", "jsonl")[1])
    for wrong in (
        ("a b", "initcwnd=1"),
        ("default", "initcwnd=1"),
        ("untouched",),
        ("x", "icwnd=1"),
        ("x", "--drop", "y"),
    ):
        assert wanted("profile", "set", *wrong)[0] == USAGE
    code, _, message = wanted("profile", "set", "x", "initcwnd=4", "min_rto=-1")
    assert code == USAGE and "min_rto=-1 is beyond" in message and "0.001..120 s (kmod, route, sysctl)" in message
    assert rows(wanted("profile", "list", "-f", "jsonl")[1]) == listed_left


def test_prefixes(wanted: TuneCommand, tmp_path: Path) -> None:
    code, listed, _ = wanted("prefix", "list", "-f", "csv")
    assert listed == "prefix,profile,owner\n10.1.0.0/16,web,human\n2001:db8::/32,web,human\ndefault,small,human\n"
    (tmp_path / "p.csv").write_text(listed.replace("10.1.0.0/16", "10.9.0.0/16") + "\n# none\n192.0.2.1 small\n")
    code, _, message = wanted("prefix", "import", "--whole", str(tmp_path / "p.csv"))
    assert (code, message) == (DONE, "3 prefixes read, +1 in all\n")
    assert wanted("prefix", "list", "-f", "csv")[1].splitlines()[1:] == [
        "10.9.0.0/16,web,human", "192.0.2.1/32,small,human", "2001:db8::/32,web,human", "default,small,human",
    ]  # fmt: skip
    shown = rows(wanted("prefix", "show", "10.9.3.4", "::ffff:192.0.2.1", "8.8.8.8", "-f", "jsonl")[1])
    assert [(row["prefix"], row["profile"]) for row in shown] == [
        ("10.9.0.0/16", "web"), ("192.0.2.1/32", "small"), ("default", "small"),
    ]  # fmt: skip
    for wrong, line in (("10.1.2.3/16 web", 1), ("# x\n10.0.0.0/8", 2), ("10.0.0.0/8 none", 0)):
        (tmp_path / "bad").write_text(wrong + "\n")
        code, _, message = wanted("prefix", "import", str(tmp_path / "bad"))
        assert code == USAGE and (f"line {line}" in message or not line)
    assert wanted("prefix", "set", "10.0.0.0/8", "none")[0] == USAGE
    assert wanted("prefix", "show", "x")[0] == USAGE
    assert wanted("prefix", "drop")[0] == USAGE
    assert wanted("prefix", "drop", "--all")[0] == DONE
    assert wanted("prefix", "drop", "--all")[0] == NOTHING


def test_plan_apply_status_verify_rollback(wanted: TuneCommand, stack: Stack) -> None:
    code, out, message = wanted("plan", "--driver", "memory", "-f", "jsonl")
    head, *advices = rows(out)
    assert code == DONE and head["advices"] == {"due": 6} and len(advices) == 6 and "nothing was written" in message
    assert stack.rules == Rules()
    assert wanted("status") == (DONE, "", "nothing of ours is in force\n")
    assert wanted("verify")[0] == NOTHING

    code, out, message = wanted("apply", "--driver", "memory", "-f", "jsonl")
    (row,) = rows(out)
    assert (code, row["act"], row["changes"], row["prefixes"], row["lease_s"]) == (DONE, 1, 6, 2, 60.0)
    assert "rollback --keep" in message
    found = lookup(stack.rules, "10.1.2.3")
    assert found is not None and dict(found.settings) == {"initcwnd": 20, "tcp_congestion_control": "reno"}
    assert wanted("verify") == (DONE, "", "1 transaction, 2 prefixes read back: 0 differences\n")
    (row,) = rows(wanted("status", "-f", "jsonl")[1])
    assert (row["status"], row["driver"], row["default"]) == ("leased", "memory", "small")
    assert 50 < float(str(row["lease_left_s"])) <= 60

    assert rows(wanted("plan", "--driver", "memory", "-f", "jsonl")[1])[1:] == []
    code, out, message = wanted("apply", "--driver", "memory", "--lease", "100", "-f", "jsonl")
    assert rows(out)[0]["act"] == 1 and "nothing to change" in message
    assert float(str(rows(wanted("status", "-f", "jsonl")[1])[0]["lease_left_s"])) > 90

    code, out, _ = wanted("rollback", "-f", "jsonl")
    assert code == DONE and [(row["act"], row["status"]) for row in rows(out)] == [(1, "undone")]
    assert stack.rules == Rules()
    assert wanted("rollback") == (DONE, "", "nothing of ours is in force here\n")


@pytest.mark.parametrize("span", ["inf", "nan", "0.1"])
def test_a_lease_ends(wanted: TuneCommand, stack: Stack, span: str) -> None:
    code, _, message = wanted("apply", "--driver", "memory", "--lease", span)
    assert code == USAGE and "--lease" in message and stack.rules == Rules()
    assert wanted("plan", "--driver", "memory", "--holdback", "nan")[0] == USAGE


def test_keep(wanted: TuneCommand, stack: Stack) -> None:
    wanted("apply", "--driver", "memory")
    code, out, _ = wanted("rollback", "--keep", "-f", "jsonl")
    assert [(row["was"], row["status"]) for row in rows(out)] == [("leased", "kept")]
    wanted("profile", "set", "web", "initcwnd=10")
    wanted("apply", "--driver", "memory")
    wanted("rollback", "--last", "--driver", "memory")
    assert dict(stack.rules.profiles["web"].settings)["initcwnd"] == 20
    assert rows(wanted("status", "-f", "jsonl")[1])[0]["status"] == "kept"
    assert wanted("rollback", "--last", "--keep")[0] == USAGE
    wanted("rollback")
    assert stack.rules == Rules()
    code, out, _ = wanted("apply", "--driver", "memory", "--keep", "-f", "jsonl")
    assert rows(out)[0]["status"] == "kept"


def test_kept_routes_are_reported_to_need_a_watch(
    wanted: TuneCommand, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "its routes follow a change of gateway only while `configtron tune watch` runs"
    assert message not in wanted("apply", "--driver", "memory", "--keep")[2]
    wanted("rollback")
    monkeypatch.setattr(MemoryDriver, "follow", lambda _: 0, raising=False)
    assert message in wanted("apply", "--driver", "memory", "--keep")[2]
    wanted("rollback")
    wanted("apply", "--driver", "memory")
    assert message in wanted("rollback", "--keep")[2]


def test_an_interrupt_after_the_last_write_is_reported(
    wanted: TuneCommand, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    assert wanted("apply", "--driver", "memory")[0] == DONE
    wanted("profile", "set", "small", "initcwnd=10")
    monkeypatch.setattr(watchdog_process, "dismiss", interrupt)
    code, _, message = wanted("apply", "--driver", "memory")
    assert code == INTERRUPTED and message.startswith(
        "transaction 2 is leased; take it back: configtron tune rollback\n"
    )
    wanted("profile", "set", "small", "initcwnd=16")
    stack.fail_apply = KeyboardInterrupt()
    code, _, message = wanted("apply", "--driver", "memory")
    assert code == INTERRUPTED and "take it back" not in message


def test_a_saved_plan(wanted: TuneCommand, stack: Stack, tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    wanted("plan", "--driver", "memory", "-f", "jsonl", "-o", str(path))
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if "2001:db8" not in line))
    code, out, _ = wanted("apply", str(path), "-f", "jsonl")
    assert code == DONE and list(stack.rules.prefixes) == ["10.1.0.0/16"]
    code, _, message = wanted("apply", str(path))
    assert code == REFUSED and "out of date" in message
    path.write_text("\n".join(lines).replace('"to":20', '"to":25'))
    code, _, message = wanted("apply", str(path))
    assert code == USAGE and "was edited" in message
    for wrong in ("", "x", "[]", '{"kind":"advice"}', lines[0] + "\n{}", lines[1]):
        path.write_text(wrong)
        assert wanted("apply", str(path))[0] == USAGE


def test_muted_advice_is_not_followed(wanted: TuneCommand, stack: Stack) -> None:
    advices = {
        str(row["scope"]): str(row["id"]) for row in rows(wanted("plan", "--driver", "memory", "-f", "jsonl")[1])[1:]
    }
    assert wanted("acknowledge", advices["10.1.0.0/16"], advices["profile:small"], "--about", "known")[0] == DONE
    code, out, message = wanted("plan", "--driver", "memory")
    assert "10.1.0.0/16" not in out and "4 due, 2 muted" in message
    assert "10.1.0.0/16" in wanted("plan", "--driver", "memory", "--all")[1]
    wanted("apply", "--driver", "memory")
    assert list(stack.rules.prefixes) == ["2001:db8::/32"] and stack.rules.profiles["small"] == Profile("small")
    assert sorted(str(row["id"]) for row in rows(wanted("acknowledge", "-f", "jsonl")[1])) == sorted(
        [advices["10.1.0.0/16"], advices["profile:small"]]
    )
    assert wanted("unacknowledge", *advices.values())[0] == DONE
    assert wanted("unacknowledge", *advices.values())[0] == NOTHING
    assert "2 due" in wanted("plan", "--driver", "memory")[2]


def test_the_guard(wanted: TuneCommand, stack: Stack) -> None:
    wanted("profile", "set", "web", "tcp_congestion_control=bbr")
    for command in ("plan", "apply"):
        code, _, message = wanted(command, "--driver", "memory")
        assert code == REFUSED and "unfair to cubic" in message
        code, _, message = wanted(command, "--driver", "memory", "--allow-unfair", "--bound", "initcwnd=1..10")
        assert code == REFUSED and "beyond your bound" in message
        code, _, message = wanted(command, "--driver", "memory", "--allow-unfair", "--max-prefixes", "1")
        assert code == REFUSED and "--max-prefixes" in message
        for wrong in ("initcwnd", "icwnd=1..2", "initcwnd=a..b", "initcwnd=9..1", "initcwnd=nan..1"):
            assert wanted(command, "--driver", "memory", "--bound", wrong)[0] == USAGE
    assert stack.rules == Rules() and wanted("status")[1] == ""
    assert wanted("apply", "--driver", "memory", "--allow-unfair")[0] == DONE


def test_options_of_the_verb_and_of_its_file_hold_for_all(wanted: TuneCommand, stack: Stack, tmp_path: Path) -> None:
    assert wanted("--driver", "memory", "--max-prefixes", "1", "plan")[0] == REFUSED
    assert wanted("--driver", "memory", "--max-prefixes", "1", "plan", "--max-prefixes", "2")[0] == DONE
    config = tmp_path / "XDG_CONFIG_HOME" / "configtron"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[tune]\ndriver = "memory"\nbound = ["initcwnd=1..10"]\n')
    code, _, message = wanted("plan")
    assert code == REFUSED and "beyond your bound" in message
    (config / "config.toml").write_text('[tune]\ndriver = "memory"\nholdback = 1.0\n')
    assert "2 prefixes in the control group" in wanted("plan")[2]


def test_no_driver(wanted: TuneCommand) -> None:
    assert wanted("plan", "--driver", "none")[0] == USAGE


def test_other_hands_freeze_a_scope(wanted: TuneCommand, stack: Stack) -> None:
    wanted("apply", "--driver", "memory")
    assert wanted("watch", "--for", "0.1") == (DONE, "", "watching transaction 1\n")
    stack.driver.apply(Changes(dropped_prefixes=frozenset({"10.1.0.0/16"})))
    (event,) = rows(wanted("watch", "--for", "0.1", "-f", "jsonl")[1])
    assert (event["event"], event["scope"], event["was"], event["found"]) == (
        "foreign",
        "10.1.0.0/16",
        "profile=web",
        "",
    )
    assert wanted("watch", "--for", "0.1")[1] == "", "reported once"
    code, out, _ = wanted("verify", "-f", "jsonl")
    assert code == CONDITION and [row["scope"] for row in rows(out)] == ["10.1.0.0/16"]
    assert "frozen" in wanted("status")[1]
    assert "1 frozen" in wanted("plan", "--driver", "memory")[2]
    wanted("profile", "set", "small", "initcwnd=1")
    assert wanted("apply", "--driver", "memory")[0] == DONE
    assert "10.1.0.0/16" not in stack.rules.prefixes and wanted("verify")[0] == DONE
    assert wanted("unfreeze")[0] == USAGE
    assert wanted("unfreeze", "10.1.0.0/16")[0] == DONE
    assert wanted("unfreeze", "10.1.0.0/16")[0] == NOTHING
    assert wanted("watch", "--for", "0.1")[1] == "", "an unfrozen change is not reported again"
    wanted("apply", "--driver", "memory")
    assert stack.rules.prefixes["10.1.0.0/16"] == "web"


def test_rollback_is_of_the_place_that_is_named_and_of_all_if_none_is(wanted: TuneCommand, stack: Stack) -> None:
    wanted("--driver", "memory", "--cgroup", "/a", "apply")
    wanted("profile", "set", "small", "initcwnd=10")
    wanted("--driver", "memory", "--cgroup", "/b", "apply")
    assert [row["act"] for row in rows(wanted("--cgroup", "/b", "rollback", "-f", "jsonl")[1])] == [2]
    assert [row["act"] for row in rows(wanted("status", "-f", "jsonl")[1])] == [1]
    assert [row["act"] for row in rows(wanted("--driver", "memory", "rollback", "-f", "jsonl")[1])] == [1]
    assert wanted("status")[1] == ""


def test_a_lease_is_as_long_as_the_last_apply_asked(wanted: TuneCommand, stack: Stack) -> None:
    wanted("apply", "--driver", "memory", "--lease", "100")
    code, out, message = wanted("apply", "--driver", "memory", "--lease", "9", "-f", "jsonl")
    (row,) = rows(out)
    assert (code, row["lease_s"]) == (DONE, 9.0) and "undone in 9 s" in message


def test_an_empty_result_is_reported(wanted: TuneCommand) -> None:
    for command in (("prefix", "drop", "9.9.9.9"), ("profile", "drop", "x"), ("unacknowledge", "x"), ("unfreeze", "x")):
        code, _, message = wanted(*command)
        assert code == NOTHING and len(message.splitlines()) == 1 and "`configtron tune " in message


def test_nothing_stored_and_nothing_in_force_is_one_line(tune: TuneCommand) -> None:
    lists = ("profile list", "prefix list", "acknowledge", "recover", "log", "status", "watch --for 0.1")
    for command in (*lists, "profile list -f jsonl"):
        code, out, message = tune(*command.split())
        assert (code, out, len(message.splitlines())) == (DONE, "", 1)
    for command in (
        "profile set web initcwnd=20",
        "prefix set 10.1.0.0/16 web",
        "prefix drop --all",
        "profile drop web",
    ):
        assert len(tune(*command.split())[2].splitlines()) == 1


def test_an_absent_namespace_is_reported_once(wanted: TuneCommand) -> None:
    code, _, message = wanted("--netns", "absent", "plan")
    assert code == PRIVILEGE and message.count("'absent'") == 1


def test_rollback_of_what_no_journal_knows(wanted: TuneCommand, stack: Stack, tmp_path: Path) -> None:
    wanted("apply", "--driver", "memory", "--keep")
    (tmp_path / "XDG_DATA_HOME" / "configtron" / "configtron.db").unlink()
    assert wanted("rollback")[0] == DONE and stack.rules != Rules()
    assert wanted("rollback", "--driver", "memory")[0] == DONE and stack.rules == Rules()


def test_recover(wanted: TuneCommand, stack: Stack) -> None:
    assert wanted("recover")[0] == DONE
    wanted("apply", "--driver", "memory", "--lease", "0.5")
    import time

    time.sleep(0.6)
    stack.fail_revert = OSError("no device")
    code, _, message = wanted("recover")
    assert code == NOTHING and "no device" in message
    stack.fail_revert = None
    code, out, _ = wanted("recover")
    assert code == DONE and "lease ended" in out and stack.rules == Rules()
    assert wanted("status")[2] == "nothing of ours is in force; transaction 1 ended 0 s ago: lease\n"
    wanted("apply", "--driver", "memory")
    found = [(row["act"], row["ended_s_ago"] is None, row["why"]) for row in rows(wanted("log", "-f", "jsonl")[1])]
    assert found == [(2, True, ""), (1, False, "lease ended")]
