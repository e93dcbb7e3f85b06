# SPDX-License-Identifier: MIT
"""Make the outputs in README.md again: run the commands that it shows and put the output below them.

Usage: python -m tests.support.tour [--check] [NAME ...]     (make docs)

A block lies between two comments:

    <!-- tour: NAME [repo] [stderr] [head=N] [tail=N] [rtol=X] [counts=X] -->
    ```console
    $ command
    what it printed
    ```
    <!-- end -->

Each line that begins with "$ " is run by bash; the lines up to the next command are replaced by its standard output.
`repo` runs in the repository's root (else in an empty folder that all blocks share), `stderr` shows standard
error too, `head` and `tail` keep that many lines and say how many were left out. `rtol` and `counts` state how far
figures and counts may be from those shown (tests/support/shown.py): a block that is within stays as it is.
`<!-- before: COMMAND -->` runs unseen and ends with the tour. With names, only those blocks; with --check nothing is
written and a difference exits 1.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.support import ROOT
from tests.support.page_blocks import Block, blocks
from tests.support.shown import differences

PAGE = ROOT / "README.md"
# The demo builds a kernel on a machine that has none; longer than that is a hang.
LIMIT_S = 1800
# What a server run by `before` needs to be listening.
SETTLE_S = 1.0


def surroundings(home: Path) -> dict[str, str]:
    """The environment of every command: this repository's programs first, a home of its own, plain text 110 wide."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CONFIGTRON_")}
    # The lab kernel's cache is the one thing worth keeping between tours.
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return kept | {
        "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}", "HOME": str(home), "XDG_CACHE_HOME": cache,
        "XDG_DATA_HOME": str(home / ".local/share"), "XDG_STATE_HOME": str(home / ".local/state"),
        "XDG_CONFIG_HOME": str(home / ".config"), "COLUMNS": "110", "NO_COLOR": "1", "TERM": "dumb",
        "LC_ALL": "C.UTF-8", "MAKEFLAGS": "",
    }  # fmt: skip


def printed(command: str, home: Path, *, repo: bool, stderr: bool) -> list[str]:
    """What the command printed, line by line, with this machine's folders called ~."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT if repo else home,
        env=surroundings(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if stderr else subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
    )
    print(f"  $ {command}  -> exit code {done.returncode}", file=sys.stderr)
    if done.returncode and not stderr:
        sys.stderr.write(done.stderr[-2000:])
    text = done.stdout.replace(str(home), "~").replace(str(ROOT), "~/configtron")
    return [line.rstrip() for line in text.rstrip("\n").split("\n")] if text.strip() else []


def cut(lines: list[str], head: int, tail: int) -> list[str]:
    """The first and last lines, with a line between that says how many are missing."""
    kept = head + tail
    if not kept or len(lines) <= kept + 1:
        return lines
    return [*lines[:head], f"[... {len(lines) - kept} lines]", *(lines[-tail:] if tail else [])]


def remade(block: Block, home: Path) -> list[str]:
    """The block's lines with its commands' outputs of today."""
    options, lines = block.about.split(), []
    kept = {name: int(value) for name, value in re.findall(r"\b(head|tail)=(\d+)", block.about)}
    for command in block.commands:
        output = printed(command, home, repo="repo" in options, stderr="stderr" in options)
        lines += [f"$ {command}", *cut(output, kept.get("head", 0), kept.get("tail", 0))]
    return lines


def main(arguments: list[str], page: Path = PAGE) -> int:
    names = {word for word in arguments if not word.startswith("-")}
    return rewritten(page, names, write="--check" not in arguments)


def rewritten(page: Path, names: set[str], *, write: bool) -> int:
    """Run a page's blocks and write what changed. Return 1 if something would change and `write` is false."""
    lines, unseen, changes = page.read_text().split("\n"), [], []
    with tempfile.TemporaryDirectory(prefix="tour-") as folder:
        home = Path(folder)
        try:
            for block in blocks(page.read_text()):
                if block.kind == "before":
                    unseen.append(in_background(block.about, home))
                elif block.kind == "tour" and (not names or block.about.split()[0] in names):
                    print(f"{block.about.split()[0]}:", file=sys.stderr)
                    shown, made = block.text.splitlines(), remade(block, home)
                    if differ := differences(shown, made, **block.tolerances):
                        sys.stderr.writelines(f"{line}\n" for line in differ)
                        changes.append((slice(block.line, block.line + len(shown)), made))
        finally:
            for process in unseen:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGTERM)
                    process.wait(10)
    if changes and not write:
        print(f"{page.name} would change: run `make docs`", file=sys.stderr)
        return 1
    for place, made in reversed(changes):
        lines[place] = made
    if changes:
        page.write_text("\n".join(lines))
    return 0


def in_background(command: str, home: Path) -> subprocess.Popen[bytes]:
    """Start a server for the blocks that follow."""
    words, quiet = ["bash", "-c", command], subprocess.DEVNULL
    process = subprocess.Popen(
        words, cwd=home, env=surroundings(home), start_new_session=True, stdout=quiet, stderr=quiet
    )
    with suppress(subprocess.TimeoutExpired):
        process.wait(SETTLE_S)
    return process


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
