# SPDX-License-Identifier: MIT
"""Who may read a database: its owner, whatever the umask was when it was made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.db.private import BESIDE
from configtron.db.tuning import Tuning
from configtron.service.lease.context import exclusive_lock, lock_path


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture(autouse=True)
def careless() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_database_is_made_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "share" / "configtron" / "configtron.db"
    with Tuning(path) as book:
        book.acknowledge({"0123456789abcdef": "one"})
        there = [each for each in path.parent.iterdir() if each.name.startswith(path.name)]
        assert len(there) > 1, "with its log"
        assert {mode(each) for each in there} == {0o600}
    assert {mode(folder) for folder in (path.parent, path.parent.parent)} == {0o700}
    with exclusive_lock(path):
        assert mode(lock_path(path)) == 0o600


def test_folders_that_are_there_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o775)
    Tuning(folder / "db").close()
    assert (mode(folder), mode(folder / "db")) == (0o775, 0o600)


def test_what_everybody_can_read_is_narrowed_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "db"
    with Tuning(path) as writer:
        writer.acknowledge({"0123456789abcdef": "one"})
        for end in BESIDE[:3]:
            path.with_name(path.name + end).chmod(0o644)
        Tuning(path).close()
        assert {mode(path.with_name(path.name + end)) for end in BESIDE[:3]} == {0o600}
    assert caplog.text.count("could be read by everybody") == 3
    caplog.clear()
    Tuning(path).close()
    assert caplog.text == ""


def test_the_group_is_the_operators_choice(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "db"
    Tuning(path).close()
    path.chmod(0o640)
    Tuning(path).close()
    assert mode(path) == 0o640 and caplog.text == ""


def test_anothers_file_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "db"
    Tuning(path).close()
    path.chmod(0o666)

    def forbidden(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", forbidden)
    Tuning(path).close()
    assert f"chmod 600 {path}" in caplog.text
