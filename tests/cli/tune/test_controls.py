# SPDX-License-Identifier: MIT
"""Congestion controls that are none, or cannot be here, are refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.linux.netns import inside
from configtron.model.errors import DONE, REFUSED, USAGE
from configtron.tune.drivers import congestion_controls as controls
from tests.support.tune.two_hosts import Hosts
from tests.support.tune_command import TuneCommand, rows

DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cubic and reno built in, one of ours registered, vegas as a module."""
    (tmp_path / "available").write_text("reno cubic ct_cubic_keep\n")
    folder = tmp_path / controls.os.uname().release
    folder.mkdir()
    modules = ("vegas", "cubic", "diag")
    (folder / "modules.dep").write_text("".join(f"kernel/net/ipv4/tcp_{name}.ko.xz:\n" for name in modules))
    monkeypatch.setattr(controls, "REGISTERED", tmp_path / "available")
    monkeypatch.setattr(controls, "_MODULES", tmp_path)


def put(tune: TuneCommand, name: str, *words: str) -> tuple[int, str]:
    code, _, message = tune("profile", "set", "web", f"tcp_congestion_control={name}", *words)
    return code, message.replace("profile web is stored; the stack changes at the next: configtron tune apply\n", "")


@pytest.mark.parametrize("name", ["nosuchcc", "cubik", "ct_cubic_keep", "configtron", "diag"])
def test_one_that_does_not_exist_is_refused(tune: TuneCommand, kernel: None, name: str) -> None:
    code, message = put(tune, name)
    assert code == USAGE and f"no congestion control is called '{name}' in this kernel" in message
    assert "(it has cubic, reno, and as modules vegas)" in message and "--unchecked" in message
    assert "web" not in tune("profile", "list")[1], "nothing was kept"
    assert put(tune, name, "--unchecked") == (DONE, "") and name in tune("profile", "list")[1]


def test_one_that_is_not_loaded_and_one_of_another_kernel_are_kept_and_named(tune: TuneCommand, kernel: None) -> None:
    assert put(tune, "cubic") == (DONE, "") and controls.askable() == ("cubic", "reno", "vegas")
    assert put(tune, "vegas") == (DONE, "vegas is not loaded in this kernel; run: modprobe tcp_vegas\n")
    code, message = put(tune, "westwood")
    assert code == DONE and message.startswith("this kernel has no westwood (it has cubic, reno, and as modules vegas)")


@pytest.mark.root
def test_what_a_namespace_may_not_have_is_refused_by_the_plan(tune: TuneCommand, hosts: Hosts) -> None:
    there = ("--driver", "sysctl", "--netns", hosts.server)
    here = set(controls.writable(hosts.server)) & {"cubic", "reno", "bbr", "vegas"}
    with inside(hosts.server):
        before = DEFAULT.read_text().strip()
    lacking = sorted({"cubic", "reno", "bbr", "vegas"} - here)
    if not lacking:
        pytest.skip("every namespace of this kernel may have every one of the papers' congestion controls")
    assert tune("profile", "set", "web", f"tcp_congestion_control={lacking[0]}")[0] == DONE
    assert tune("prefix", "set", "default", "web")[0] == DONE
    for command in ("plan", "apply"):
        code, _, message = tune(command, *there)
        assert code == REFUSED and f"tcp_congestion_control={lacking[0]}" in message and "takes" in message
    # what it may have: to the value that the kernel has now, shown and not blank
    other = next(iter(sorted(here - {before}) or sorted(here)))
    assert tune("profile", "set", "web", f"tcp_congestion_control={other}")[0] == DONE
    code, out, _ = tune("plan", *there)
    assert code == DONE and f"{before} (the kernel's)" in out
    advice = next(row for row in rows(tune("plan", *there, "-f", "jsonl")[1]) if row.get("knob", "") != "profile"
                  and row["kind"] == "advice")  # fmt: skip
    assert (advice["was"], advice["now"], advice["to"]) == (None, before, other)
    assert tune("apply", *there, "--keep")[0] == DONE
    assert tune("rollback", *there)[0] == DONE


@pytest.mark.root
def test_a_namespace_takes_exactly_the_settings_reported_writable(hosts: Hosts) -> None:
    printed = set(controls.writable(hosts.server))
    with inside(hosts.server):
        before = DEFAULT.read_text()
        for name in controls.registered():
            try:
                DEFAULT.write_text(name)
                taken = True
            except OSError:
                taken = False
            assert taken == (name in printed), name
        DEFAULT.write_text(before)
