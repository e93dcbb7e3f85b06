# SPDX-License-Identifier: MIT
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from configtron.cli.manual import pages, write
from configtron.report.command_pages import COMPLETIONS

DOCS = Path(__file__).parents[2] / "docs"


def test_pages_and_completions_are_current() -> None:
    kept = {str(path.relative_to(DOCS)) for folder in ("man", "completion") for path in (DOCS / folder).iterdir()}
    assert kept == set(pages()), "run: make man"
    stale = [name for name, text in pages().items() if (DOCS / name).read_text() != text]
    assert stale == [], "run: make man"


def test_pages_of_lost_commands_go(tmp_path: Path) -> None:
    (tmp_path / "man").mkdir()
    (tmp_path / "man" / "configtron-old.1").write_text("x")
    write(tmp_path)
    kept = {path.name for path in (tmp_path / "man").iterdir()}
    assert "configtron-probe.1" in kept and "configtron-old.1" not in kept


def test_every_option_is_in_its_page() -> None:
    page = pages()["man/configtron-probe-run.1"]
    for word in ("\\-\\-fail\\-on EXPR", "\\-\\-shards", "alexa\\-top1k"):
        assert word in page


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("man") is None, reason="needs man-db")
def test_man_has_no_complaint(tmp_path: Path) -> None:
    write(tmp_path)
    for page in (tmp_path / "man").iterdir():
        command = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(page)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.stderr == "", page.name


def test_completion_completes() -> None:
    asked = {"_CONFIGTRON_COMPLETE": "bash_complete", "COMP_WORDS": "configtron probe sh", "COMP_CWORD": "2"}
    command = [sys.executable, "-m", "configtron"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | asked)
    assert done.stdout == "plain,show\n"
    assert set(COMPLETIONS) == {"bash", "zsh", "fish"}
