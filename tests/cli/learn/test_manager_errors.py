# SPDX-License-Identifier: MIT
"""The fleet's commands on files of other users, and without their extra: one line, and the documented exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from configtron.model.errors import PRIVILEGE, USAGE
from configtron.service.learning import importable
from tests.support.learn_command import Typed, typed

__all__ = ["typed"]
# Rights by which root reads what no permission allows.
WITHOUT = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give up its rights")
def test_key_folder_without_permissions_is_exit_code_5(tmp_path: Path) -> None:
    """It was 4, `nothing succeeded`, without a remedy."""
    (tmp_path / "fleet").mkdir(mode=0o000)
    enroll = ("learn", "manager", "enroll", "web1", "--address", "tcp://127.0.0.1:5560")
    command = [*WITHOUT, sys.executable, "-m", "configtron", "--db", tmp_path / "m.db", *enroll]
    environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == PRIVILEGE, done.stderr
    assert done.stderr.count("\n") == 1 and "fleet/curve.key: Permission denied; run this as the owner" in done.stderr


def test_report_asks_for_its_extra_before_it_reads(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no loads it wrote a page, with loads it ended for want of scipy: the same command, two answers."""
    monkeypatch.setattr(importable, "find_spec", lambda name: None)
    code, _, err = typed("learn", "report", "-o", tmp_path / "r.html")
    assert code == USAGE and "no database here" in err
    typed("tune", "profile", "set", "fast", "initcwnd=20")
    code, _, err = typed("learn", "report", "-o", tmp_path / "r.html")
    assert code == PRIVILEGE and "pip install 'configtron[learn]'" in err and not (tmp_path / "r.html").exists()


def test_manager_without_profiles_is_not_started_again(typed: Typed) -> None:
    """Its unit started it each two seconds; `RestartPreventExitStatus` has this code."""
    code, _, err = typed("learn", "manager", "run", "--policy", "thompson")
    assert code == USAGE and err.count("\n") == 1 and "tune profile set NAME KNOB=VALUE" in err
