# SPDX-License-Identifier: MIT
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from configtron.cli.manual import write_pages
from configtron.report.command_pages import COMPLETIONS
from tests.support import ROOT


@pytest.mark.slow
def test_pages_need_no_package_but_click_and_have_every_option(tmp_path: Path) -> None:
    """A wheel is built where nothing else is installed (pyproject.toml)."""
    code = (
        "import sys; from configtron.cli.manual import write_pages; write_pages(sys.argv[1])\n"
        "files = {name: getattr(module, '__file__', '') or '' for name, module in sys.modules.items()}\n"
        "own = {name.split('.')[0] for name, file in files.items() if 'site-packages' in file}\n"
        "print(*sorted(name for name in own if not name.startswith('_')))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["click"]
    page = (tmp_path / "man" / "configtron-probe-run.1").read_text()
    for word in ("\\-\\-fail\\-on EXPR", "\\-\\-shards", "alexa\\-top1k"):
        assert word in page


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("man") is None, reason="needs man-db")
def test_man_has_no_complaint(tmp_path: Path) -> None:
    write_pages(str(tmp_path))
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
