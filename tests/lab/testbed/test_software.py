# SPDX-License-Identifier: MIT
"""What a shard runs on: versions of what is installed, and our own files by content."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from configtron.lab.testbed.software import software, sources, versions


def test_it_names_what_can_change_a_load(tmp_path: Path) -> None:
    (tmp_path / "client").write_bytes(b"1")
    (tmp_path / "player").write_bytes(b"2")
    found = dict(software(str(tmp_path / "client"), str(tmp_path / "player")))
    assert {"configtron", "python", "sources", "kernel", "client", "player"} <= set(found)
    assert found["client"] != found["player"] and found["kernel"].startswith("kernel-")
    (tmp_path / "client").write_bytes(b"3")
    assert dict(software(str(tmp_path / "client"), str(tmp_path / "player")))["client"] != found["client"]


def test_our_files_count_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "configtron"
    for name in (
        "lab/one.py", "lab/testbed/two.c", "tune/three.py", "model/shared.py", "db/four.py",
    ):  # fmt: skip
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(name)
    monkeypatch.setattr("configtron.__file__", str(package / "__init__.py"))
    before = sources()
    (package / "lab" / "__pycache__").mkdir()
    (package / "lab" / "__pycache__" / "one.pyc").write_text("compiled")
    assert sources() == before
    (package / "db" / "four.py").write_text("acts outside the guest")
    assert sources() == before
    for name in ("lab/testbed/two.c", "model/shared.py"):
        (package / name).write_text("changed")
        assert sources() != before
        (package / name).write_text(name)
    assert sources() == before
    (package / "tune" / "three.py").rename(package / "lab" / "three.py")
    assert sources() != before


def test_packages_that_are_absent_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = "libssl3 3.0.22 installed\nnginx-light 1.22.1 config-files\n"
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("subprocess.run", lambda *_, **__: subprocess.CompletedProcess([], 1, reported, ""))
    assert versions() == {"libssl3": "3.0.22"}
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert versions() == {}
