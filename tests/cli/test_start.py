# SPDX-License-Identifier: MIT
"""A start: what it costs in modules (`benchmarks/start.py` measures seconds), streams that are closed, Ctrl-C at any
moment, which is one line and exit code 130."""

import io
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from configtron.model.errors import INTERRUPTED, UNWRITTEN
from configtron.report.log_lines import JsonLines, TextLines
from tests.support import ROOT
from tests.support.children import default_signals
from tests.support.waiting import PATIENCE_S

# Each of them costs more than `--version` may.
HEAVY = set(
    "scapy numpy rich dns cryptography ssl asyncio sqlite3 publicsuffixlist idna importlib.metadata"
    " h2 hyperframe jsonschema".split()
)


def loaded(words: list[str]) -> set[str]:
    """The modules that a command loads."""
    script = (
        "import sys\n"
        "from configtron.cli.outermost import run\n"
        f"code = run({words!r})\n"
        "print(*sys.modules, file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["probe", "--help"], ["probe", "run", "--help"]])
def test_no_heavy_import(words: list[str]) -> None:
    found = loaded(words)
    assert found & HEAVY == set()
    assert [name for name in found if name.startswith(("configtron.probe", "configtron.lab", "configtron.db"))] == []


RECORDING = str(next((ROOT / "fixtures").glob("icw/*/trace.pcapng.gz")))
# The table of policies lists all folders that have some.
POLICIES = "configtron.studies.policies"


@pytest.mark.parametrize("words", [["probe", "127.0.0.1", "--dry-run"], ["fingerprint", "pcap", RECORDING],
                                   ["tune", "status"], ["learn", "status"]])  # fmt: skip
def test_an_operators_command_loads_nothing_of_the_lab_and_the_studies(words: list[str], tmp_path: Path) -> None:
    found = loaded(["--db", str(tmp_path / "x.db"), *words])
    theirs = [name for name in found if name.startswith(("configtron.lab.", "configtron.studies."))]
    assert [name for name in theirs if not name.startswith(POLICIES)] == []


def logged(form: logging.Formatter, *words: object) -> str:
    handler = logging.StreamHandler(out := io.StringIO())
    handler.setFormatter(form)
    logger = logging.Logger("configtron.test")
    logger.addHandler(handler)
    logger.warning(*words)
    return out.getvalue()


def test_json_logs() -> None:
    record = json.loads(logged(JsonLines(), "%d\n%s", 3, '"'))
    assert (record["level"], record["name"], record["message"]) == ("warning", "configtron.test", '3\n"')
    assert record["time"].endswith("Z")


def test_a_word_of_another_host_poses_as_no_line_and_writes_to_no_terminal() -> None:
    """An agent's reason for a refused map stood in the manager's log as it came: with lines of its own and escapes."""
    reason = "x\x1b]0;title\x07\nINFO all is well\u202e"
    assert logged(TextLines("%(levelname)s %(message)s"), "agent web1 rejects map 1.1: %s", reason) == (
        "WARNING agent web1 rejects map 1.1: x\\u001b]0;title\\u0007\\u000aINFO all is well\\u202e\n"
    )


def test_an_error_writes_to_no_terminal(tmp_path: Path) -> None:
    words = ["--db", str(tmp_path / "\x1b[2J.db"), "learn", "manager", "revoke", "web1"]
    done = subprocess.run([sys.executable, "-m", "configtron", *words], capture_output=True, text=True)
    assert done.returncode == 2 and "\x1b" not in done.stderr and "\\u001b[2J.db: no database" in done.stderr


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    """As `| head` and `2>&1 | head`: Python's own code is 120."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "configtron", "--db", str(tmp_path / "t.db")]
    done = subprocess.run([*command, "probe", "lists", "alexa-top1k"], stdout=writer, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    # What is said before the work does not end it.
    (tmp_path / "x").write_text("plt_ms\n5\n")
    for words, code in (("tune status", 0), ("learn run", 2), ("tune --nothing", 2), ("tune --netns x plan", 5),
                        ("learn import x", 0), ("learn evaluate --policy default", 2)):  # fmt: skip
        assert subprocess.run([*command, *words.split()], stdout=writer, stderr=writer, cwd=tmp_path).returncode == code
    os.close(writer)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["probe lists alexa-top1k", "probe lists", "--version", "tune doctor -f jsonl", "learn policies", "--help"]
)
def test_what_is_lost_on_a_closed_standard_output_is_an_error(words: str, tmp_path: Path) -> None:
    """As `cat >&-`: silence is no empty answer."""
    command = f"{sys.executable} -m configtron --db {tmp_path}/t.db {words} >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == UNWRITTEN, done.stderr
    assert done.stderr.splitlines()[-1] == "configtron: standard output: Bad file descriptor"


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_closed_streams_are_nowhere(closed: tuple[int, ...], tmp_path: Path) -> None:
    """What a shell's `>&-` does; no file of ours may then be taken for standard output."""
    words = " ".join(f"{number}>&-" for number in closed)
    command = f"{sys.executable} -m configtron --db {tmp_path}/t.db tune status {words}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    left = "" if 2 in closed else "nothing of ours is in force\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", left)


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


def ran(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, preexec_fn=default_signals
    )


def at(name: str) -> str:
    return SCRIPT.format(root=str(ROOT), name=name, words=["probe", "lists"])


@pytest.mark.parametrize(
    "name",
    [
        "configtron.cli.outermost", "click", "click.core", "click.types", "configtron.cli.root",
        "configtron.model.errors", "configtron.cli.configfile", "configtron.cli.probe", "configtron.cli.probe.before",
    ],
)  # fmt: skip
def test_during_an_import(name: str) -> None:
    done = ran(at(name))
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "configtron: interrupted\n")


def test_a_start_that_ignores_it_goes_on_ignoring_it() -> None:
    done = ran(f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{at('click')}")
    assert done.returncode == 0 and done.stderr == "" and "alexa-top1k" in done.stdout


def test_after_the_work_it_ends_without_a_word() -> None:
    done = ran(
        f"import atexit, os, signal, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "sys.argv = ['configtron', 'probe', 'lists']\n"
        "from configtron.cli import main\nmain()\n"
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "") and "alexa-top1k" in done.stdout
