# SPDX-License-Identifier: MIT
"""What a start costs, counted in modules; seconds are measured by `benchmarks/start.py`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from configtron.model.errors import UNWRITTEN
from tests.support import ROOT

# Each of them costs more than `--version` may.
HEAVY = "scapy numpy rich dns cryptography ssl asyncio sqlite3 publicsuffixlist idna importlib.metadata".split()


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["probe", "--help"], ["probe", "run", "--help"]])
def test_no_heavy_import(words: list[str]) -> None:
    script = (
        "import sys\n"
        "from configtron.cli.outermost import run\n"
        f"code = run({words!r})\n"
        "print(sorted(sys.modules), file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(eval(done.stderr))
    assert [name for name in HEAVY if name in loaded] == []
    assert [name for name in loaded if name.startswith(("configtron.probe", "configtron.lab", "configtron.db"))] == []


RECORDING = str(next((ROOT / "fixtures").glob("icw/*/trace.pcapng.gz")))
# The table of policies lists all folders that have some.
POLICIES = "configtron.studies.policies"


@pytest.mark.parametrize("words", [["probe", "127.0.0.1", "--dry-run"], ["fingerprint", "pcap", RECORDING],
                                   ["tune", "status"], ["learn", "status"]])  # fmt: skip
def test_an_operators_command_loads_nothing_of_the_lab_and_the_studies(words: list[str], tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from configtron.cli.outermost import run\n"
        f"code = run({['--db', str(tmp_path / 'x.db'), *words]!r})\n"
        "print(*sys.modules, file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = [name for name in done.stderr.split() if name.startswith(("configtron.lab.", "configtron.studies."))]
    assert [name for name in loaded if not name.startswith(POLICIES)] == []


def test_json_logs(tmp_path: object) -> None:
    import io
    import json
    import logging

    from configtron.report.log_lines import JsonLines

    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonLines())
    logger = logging.Logger("configtron.test")
    logger.addHandler(handler)
    logger.warning("%d\n%s", 3, '"')
    record = json.loads(out.getvalue())
    assert (record["level"], record["name"], record["message"]) == ("warning", "configtron.test", '3\n"')
    assert record["time"].endswith("Z")


def test_a_word_of_another_host_poses_as_no_line_and_writes_to_no_terminal() -> None:
    """An agent's reason for a refused map stood in the manager's log as it came: with lines of its own and escapes."""
    import io
    import logging

    from configtron.report.log_lines import TextLines

    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(TextLines("%(levelname)s %(message)s"))
    logger = logging.Logger("configtron.test")
    logger.addHandler(handler)
    logger.warning("agent web1 rejects map 1.1: %s", "x\x1b]0;title\x07\nINFO all is well\u202e")
    assert out.getvalue() == (
        "WARNING agent web1 rejects map 1.1: x\\u001b]0;title\\u0007\\u000aINFO all is well\\u202e\n"
    )


def test_an_error_writes_to_no_terminal(tmp_path: Path) -> None:
    words = ["--db", str(tmp_path / "\x1b[2J.db"), "learn", "manager", "revoke", "web1"]
    done = subprocess.run([sys.executable, "-m", "configtron", *words], capture_output=True, text=True)
    assert done.returncode == 2 and "\x1b" not in done.stderr and "\\u001b[2J.db: no database" in done.stderr


def test_a_closed_pipe_is_quiet() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "configtron", "probe", "lists", "alexa-top1k"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


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
