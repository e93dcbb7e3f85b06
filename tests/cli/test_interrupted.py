# SPDX-License-Identifier: MIT
"""Ctrl-C at any moment of a start is one line and exit code 130; never a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from configtron.model.errors import INTERRUPTED
from tests.support import ROOT
from tests.support.children import default_signals
from tests.support.waiting import PATIENCE_S

# A process that gets SIGINT when a module of that name is looked for, or has just been run.
SCRIPT = """
import os, signal, sys
sys.path.insert(0, {root!r})
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {name!r}:
            sys.meta_path.remove(Finder)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder)
sys.argv = ["configtron", *{words!r}]
from configtron.cli import main
main()
"""


def at(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.format(root=str(ROOT), name=name, words=list(words))
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, preexec_fn=default_signals
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "configtron.cli.outermost", "click", "click.core", "click.types", "configtron.cli.root",
        "configtron.model.errors", "configtron.cli.configfile", "configtron.cli.probe", "configtron.cli.probe.before",
    ],
)  # fmt: skip
def test_during_an_import(name: str) -> None:
    done = at(name, "probe", "lists")
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "configtron: interrupted\n")


def test_a_start_that_ignores_it_goes_on_ignoring_it() -> None:
    script = SCRIPT.format(root=str(ROOT), name="click", words=["probe", "lists"])
    ignored = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{script}"
    done = subprocess.run(
        [sys.executable, "-c", ignored], capture_output=True, text=True, timeout=PATIENCE_S, preexec_fn=default_signals
    )
    assert done.returncode == 0 and done.stderr == "" and "alexa-top1k" in done.stdout


def test_after_the_work_it_ends_without_a_word() -> None:
    script = (
        f"import atexit, os, signal, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "sys.argv = ['configtron', 'probe', 'lists']\n"
        "from configtron.cli import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, preexec_fn=default_signals
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "") and "alexa-top1k" in done.stdout
