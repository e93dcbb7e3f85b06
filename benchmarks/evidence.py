# SPDX-License-Identifier: MIT
"""The papers' figures beside ours, by commands that run now: a dated table with the commit that it was made of.

    python -m benchmarks.evidence [--long] [--lab] [--only WORDS]... [-o FILE]      `make evidence`

Claim: every row has a figure: its command ends well and prints what the row reads. Rows of LONG commands (minutes) and
of LAB commands (the lab's kernel, root) run when asked for, else the table says "not run". --only: rows whose paper,
name or command have one of these words, whatever they cost. Exit code: 1 if a command failed or a figure is missing.
"""

from __future__ import annotations

import argparse
import datetime
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.evidence_rows import LAB, LONG, ROWS, SHORT, PaperRow
from tests.support import ROOT

HEAD = ("paper", "what", "paper's figure", "ours", "command", "s")
NOT_RUN, FAILED = "not run", "FAILED"
# A command that takes longer hangs.
TIMEOUT_S = 7200.0
Run = Callable[[str], tuple[str, float]]


def run(command: str) -> tuple[str, float]:
    """(what a command prints, seconds). Errors: `LookupError` with its last line where it fails."""
    with tempfile.TemporaryDirectory(prefix="evidence-", dir="/var/tmp") as folder:
        began = time.monotonic()
        words = command.format(folder=folder).replace("python -m", f"{shlex.quote(sys.executable)} -m")
        words = words.replace("configtron --db", f"{shlex.quote(sys.executable)} -m configtron --db")
        words = words.replace("configtron tune", f"{shlex.quote(sys.executable)} -m configtron tune")
        done = subprocess.run(words, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()[-1]
        raise LookupError(f"exit code {done.returncode}: {last}")
    return done.stdout, time.monotonic() - began


def table(rows: Iterable[PaperRow], chosen: Callable[[PaperRow], bool], how: Run) -> tuple[list[tuple[str, ...]], int]:
    """The table's lines and how many figures are missing; each command runs once."""
    outputs: dict[str, tuple[str, float] | str] = {}
    lines: list[tuple[str, ...]] = []
    missing = 0
    for row in rows:
        ours, took = NOT_RUN, ""
        if chosen(row):
            try:
                if row.command not in outputs:
                    outputs[row.command] = how(row.command)
            except (LookupError, subprocess.TimeoutExpired) as error:
                outputs[row.command] = f"{FAILED}: {error}"
            output = outputs[row.command]
            if isinstance(output, str):
                ours = output
            else:
                ours, took = _figure(row, output[0]), f"{output[1]:.0f}"
            missing += ours.startswith(FAILED)
        shown = row.command.replace("--db {folder}/e.db ", "").replace(" -o {folder}/o.txt", "")
        lines.append((row.paper, row.what, row.theirs, ours, f"`{shown}`", took))
        print(f"{row.paper}: {row.what}: {ours}", file=sys.stderr, flush=True)
    return lines, missing


def _figure(row: PaperRow, output: str) -> str:
    try:
        return row.read(output).strip().replace("|", "/")
    except LookupError as error:
        return f"{FAILED}: {error}"


def page(lines: Sequence[tuple[str, ...]], commit: str, day: str) -> str:
    """The table as Markdown."""
    body = "".join(f"| {' | '.join(line)} |\n" for line in (HEAD, ("---",) * len(HEAD), *lines))
    return f"# Evidence\n\nMade by `make evidence` on {day} at commit {commit}.\n\n{body}"


def commit_of(root: Path) -> str:
    """The commit, and whether files differ from it."""
    words = ["git", "-C", str(root), "describe", "--always", "--dirty= with changes", "--abbrev=10", "--exclude=*"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main(words: list[str] | None = None) -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(prog="benchmarks.evidence")
    parser.add_argument("--long", action="store_true", help="commands of minutes too")
    parser.add_argument("--lab", action="store_true", help="commands in the lab's kernel too; as root")
    parser.add_argument("--only", action="append", default=[], metavar="WORDS", help="rows with these words; again")
    parser.add_argument("-o", "--output-file", type=Path, help="write the table here; stdout")
    arguments = parser.parse_args(words)
    costs = {SHORT} | ({LONG} if arguments.long else set()) | ({LAB} if arguments.lab else set())

    def chosen(row: PaperRow) -> bool:
        if arguments.only:
            return any(word in text for word in arguments.only for text in (row.paper, row.what, row.command))
        return row.cost in costs

    lines, missing = table(ROWS, chosen, run)
    day = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = page(lines, commit_of(ROOT), day)
    if arguments.output_file:
        arguments.output_file.write_text(text)
    else:
        print(text, end="")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
