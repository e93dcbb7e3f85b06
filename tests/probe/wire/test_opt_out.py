# SPDX-License-Identifier: MIT
"""An entry that is added while a run is under way counts within a second."""

from __future__ import annotations

from pathlib import Path

from configtron.probe.wire.opt_out import OptOut


def test_a_new_entry_is_noticed_and_a_file_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    file, now = tmp_path / "out", [0.0]
    file.write_text("a.example\n")
    out = OptOut((file,), clock=lambda: now[0])
    assert out.why("www.a.example", "192.0.2.1") and not out.why("b.example", "192.0.2.2")
    file.write_text("a.example\nb.example\n192.0.2.3\n")
    assert not out.why("b.example", "192.0.2.2"), "looked at less than a second ago"
    now[0] = 1.0
    assert out.why("b.example", "192.0.2.2") and out.why("c.example", "192.0.2.3")
    for now[0], spoil in ((2.0, lambda: file.write_text("not a name or address!\n")), (3.0, file.unlink)):
        spoil()
        assert out.why("b.example", "192.0.2.1") and not out.why("d.example", "192.0.2.2")


def test_without_files_no_target_is_forbidden() -> None:
    assert not OptOut(()).why("a.example", "192.0.2.1")
