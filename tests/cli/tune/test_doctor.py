# SPDX-License-Identifier: MIT
"""Which driver is chosen, what the others lack, and what the shell completes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import pytest
from click.shell_completion import ShellComplete

from configtron.cli.root import root
from configtron.model.errors import DONE, NOTHING, PRIVILEGE
from configtron.model.tuning import Reach
from configtron.tune import drivers
from configtron.tune.drivers.memory import MemoryDriver
from tests.support.memory_stack import Stack
from tests.support.tune_command import TuneCommand, rows


class Lame(MemoryDriver):
    """A driver that lacks something here."""

    def missing(self) -> str:
        return "no module; run: make kmod"

    def settable(self) -> Mapping[str, Reach]:
        raise AssertionError("asked though it cannot act")

    reachable: Mapping[str, Reach] = {knob: Reach(knob) for knob in ("initcwnd", "busy_poll")}


LAME, SAME = f"{__name__}:Lame", "configtron.tune.drivers.memory:MemoryDriver"
PLAN, DOCTOR = (import_module(f"configtron.service.lease.{name}") for name in ("planner", "doctor"))


def known(monkeypatch: pytest.MonkeyPatch, **names: str) -> None:
    for module in (drivers, PLAN, DOCTOR):
        monkeypatch.setattr(module, "DRIVERS", names)


def test_a_driver_of_whole_namespaces_is_not_chosen_for_prefixes(
    wanted: TuneCommand, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    reach = {knob: Reach(knob, "netns") for knob in ("initcwnd", "tcp_congestion_control")}
    monkeypatch.setattr(MemoryDriver, "settable", lambda _: reach)
    monkeypatch.setattr(PLAN, "FOR_TRIALS", "")
    monkeypatch.setattr(PLAN, "DRIVERS", {"memory": ""})
    code, _, message = wanted("plan")
    assert code == PRIVILEGE and "sets initcwnd, tcp_congestion_control for all clients at once" in message
    wanted("prefix", "drop", "10.1.0.0/16", "2001:db8::/32")
    assert wanted("plan")[0] == DONE


def test_doctor(wanted: TuneCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lacks is named with the next step; who would be better, who is chosen, who is left."""
    monkeypatch.setattr(MemoryDriver, "settable", lambda _: {"initcwnd": Reach("initcwnd", "prefix", least=1, most=9)})
    known(monkeypatch, kmod=LAME, ebpf=SAME, route=SAME)
    code, out, _ = wanted("doctor", "-f", "jsonl")
    found = rows(out)
    named = [(row["driver"], row["knobs"], row["missing"]) for row in found if row["kind"] == "driver"]
    assert code == DONE and named == [
        ("kmod", 0, "no module; run: make kmod"), ("ebpf", 1, ""), ("route", 1, ""),
    ]  # fmt: skip
    knobs = {row["knob"]: row for row in found if row["kind"] == "knob"}
    window, poll = knobs["initcwnd"], knobs["busy_poll"]
    assert (window["by"], window["else"], window["instead_of"], window["per"]) == ("ebpf", "route", "kmod", "prefix")
    assert window["takes"] == "1..9 segments"
    assert (poll["by"], poll["else"], poll["instead_of"]) == ("-", "", "kmod")
    checks = {row["check"]: row for row in found if row["kind"] == "page loads"}
    assert set(checks) == {"clients of ports 80, 443", "queue of log lines"}
    table = wanted("doctor")[1]
    places = [table.index(one) for one in ("queue of log lines", "missing", "instead_of", "no driver sets")]
    assert places == sorted(places), "what one may have to act on stands first"
    assert sum("h2_" in line for line in table.splitlines()) == 1, "one line for all knobs of a reason"
    known(monkeypatch, kmod=LAME)
    assert wanted("doctor")[0] == NOTHING
    code, _, message = wanted("plan")
    assert code == PRIVILEGE and "no driver reaches" in message and "make kmod" in message


def test_names_are_completed(wanted: TuneCommand) -> None:
    complete = ShellComplete(root, {}, "configtron", "_CONFIGTRON_COMPLETE")
    for words, begun, offered in (
        ("tune profile show", "w", "web"), ("tune plan --driver", "ro", "route"), ("tune", "rollb", "rollback"),
    ):  # fmt: skip
        assert [item.value for item in complete.get_completions(words.split(), begun)] == [offered]
