# SPDX-License-Identifier: MIT
"""--listen in every command that names a place: kept in plan and journal, distinguished from other choices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from configtron.model.errors import DONE, NOTHING, PRIVILEGE, USAGE
from tests.support.memory_stack import Stack, stack
from tests.support.tune_command import TuneCommand, rows, tune, wanted

__all__ = ["stack", "tune", "wanted"]
BY_MEMORY = ("--driver", "memory")


def test_it_is_kept_and_distinguished(wanted: TuneCommand, stack: Stack, tmp_path: Path) -> None:
    plan = tmp_path / "plan.jsonl"
    assert wanted("plan", *BY_MEMORY, "--listen", "8443", "--listen", "443", "-f", "jsonl", "-o", str(plan))[0] == DONE
    assert json.loads(plan.read_text().splitlines()[0])["place"] == {"listen": "443,8443"}
    assert wanted("apply", str(plan), "--keep")[0] == DONE
    assert stack.rules.prefixes
    (row,) = rows(wanted("status", "-f", "jsonl")[1])
    assert json.loads(str(row["place"])) == {"listen": "443,8443"}
    assert wanted("verify")[0] == DONE
    # another choice is another place: nothing of it is in force
    code, _, message = wanted("rollback", "--listen", "443")
    assert (code, "nothing of ours" in message, bool(stack.rules.prefixes)) == (DONE, True, True)
    (undone,) = rows(wanted("rollback", "--listen", "443,8443", "-f", "jsonl")[1])
    assert undone["status"] == "undone" and not stack.rules.prefixes
    assert wanted("verify")[0] == NOTHING


def test_a_rollback_without_it_ends_every_choice(wanted: TuneCommand, stack: Stack) -> None:
    assert wanted("apply", *BY_MEMORY, "--listen", "443", "--keep")[0] == DONE
    assert len(rows(wanted("rollback", "-f", "jsonl")[1])) == 1 and not stack.rules.prefixes


def test_it_holds_for_every_command_from_tune_or_the_file(wanted: TuneCommand, stack: Stack, tmp_path: Path) -> None:
    file = tmp_path / "XDG_CONFIG_HOME" / "configtron" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('[tune]\nlisten = ["443", "192.0.2.1:80"]\n')
    out = wanted("plan", *BY_MEMORY, "-f", "jsonl")[1]
    assert rows(out)[0]["place"] == {"listen": "192.0.2.1:80,443"}
    assert rows(wanted("--listen", "22", "plan", *BY_MEMORY, "-f", "jsonl")[1])[0]["place"] == {"listen": "22"}


@pytest.mark.parametrize(("driver", "listen"), [("kmod", "192.0.2.1:443"), ("route", "443"), ("sysctl", "443")])
def test_drivers_that_cannot_are_named(wanted: TuneCommand, driver: str, listen: str) -> None:
    """The module distinguishes ports, but not local addresses."""
    code, _, message = wanted("plan", "--driver", driver, "--listen", listen)
    assert code == PRIVILEGE and "use the driver ebpf" in message and f"driver {driver}:" in message
    lacks = {row["driver"]: row["missing"] for row in rows(wanted("doctor", "--listen", listen, "-f", "jsonl")[1])
             if row["kind"] == "driver"}  # fmt: skip
    assert "use the driver ebpf" in str(lacks[driver])


@pytest.mark.parametrize("form", ["iproute2", "networkd", "sysctl"])
def test_no_other_tool_has_a_word_for_it(wanted: TuneCommand, form: str) -> None:
    code, out, message = wanted("export", "--as", form, "--listen", "443")
    assert (code, out) == (PRIVILEGE, "") and "--listen" in message


def test_what_is_no_listener_is_refused(wanted: TuneCommand) -> None:
    code, _, message = wanted("plan", *BY_MEMORY, "--listen", "https")
    assert code == USAGE and "write e.g. 443" in message
