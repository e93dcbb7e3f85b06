# SPDX-License-Identifier: MIT
"""What an agent keeps of its maps: the documents that a later start needs, and which is drawn from in which epoch."""

from __future__ import annotations

from pathlib import Path

from configtron.db.agent_journal import AgentJournal


def test_documents_go_once_no_start_needs_them_and_one_of_a_version_stays(tmp_path: Path) -> None:
    with AgentJournal(tmp_path / "tune.db") as journal:
        assert journal.documents() == [] and journal.drawn() == (0, 0, 0, "")
        for at, data in enumerate((b"whole", b"second", b"another", b"whole again"), 1):
            journal.keep_document(data, 1, at)
        journal.set_drawn(1, 2, 77)
        assert journal.documents() == [b"second", b"another", b"whole again"]
        assert journal.drawn() == (1, 2, 77, "")
        journal.keep_document(b"whole once more", 1, 4)
        journal.drop_documents((1, 9))
        journal.set_drawn(1, 4, 78, "ab,cd")
    with AgentJournal(tmp_path / "tune.db") as journal:
        assert journal.documents() == [b"whole once more"] and journal.drawn() == (1, 4, 78, "ab,cd")
        journal.drop_documents((1, 3))
        assert journal.documents() == []
