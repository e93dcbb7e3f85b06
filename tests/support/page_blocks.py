# SPDX-License-Identifier: MIT
"""Blocks of a document and what becomes of each: it is run, or a marker on the line before says why not.

    <!-- run -->                 the block is a script: bash runs it, and must end with exit code 0
    <!-- run: COMMAND -->        the block is the input of this command, which must end with exit code 0
    <!-- tour: NAME [...] -->    a console: each `$ command` is run, its output compared (tour.py, shown.py)
    <!-- not run: REASON -->     nothing runs it
    <!-- before: COMMAND -->     no block: a command that a reader does not see, for the blocks that follow

A block is fenced, or indented by four spaces after an empty line or a marker.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.support.shown import differences

MARK = re.compile(r"<!-- (run|not run|tour|before)(?:: (.*))? -->")
# (command, its input) -> (exit code, output).
Shell = Callable[[str, str], tuple[int, str]]
# bash ends at the first command that fails, also within a pipe.
SCRIPT = "bash -e -o pipefail"


class Block(NamedTuple):
    """`kind`: a marker's first word or words, or empty; `about`: what follows its colon. The text is below `line`."""

    line: int
    kind: str
    about: str
    text: str

    @property
    def commands(self) -> list[str]:
        return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]

    @property
    def tolerances(self) -> dict[str, float]:
        """Return what `differences` takes: how far figures and counts may be from those shown."""
        return {name: float(value) for name, value in re.findall(r"\b(rtol|counts)=([\d.]+)", self.about)}


def blocks(page: str) -> Iterator[Block]:
    lines, at, mark = page.split("\n"), 0, ("", "")
    while at < len(lines):
        found, begun = MARK.fullmatch(lines[at].strip()), at
        after_gap = at == 0 or not lines[at - 1].strip() or MARK.fullmatch(lines[at - 1].strip())
        if found and found[1] == "before":
            yield Block(at + 1, "before", found[2], "")
        elif found:
            mark = (found[1], found[2] or "")
        elif lines[at].startswith("```"):
            at = lines.index("```", at + 1)
            yield Block(begun + 1, *mark, "\n".join(lines[begun + 1 : at]) + "\n")
            mark = ("", "")
        elif lines[at].startswith("    ") and after_gap:
            while at + 1 < len(lines) and (lines[at + 1].startswith("    ") or not lines[at + 1].strip()):
                at += 1
            yield Block(begun + 1, *mark, textwrap.dedent("\n".join(lines[begun : at + 1])).rstrip() + "\n")
            mark = ("", "")
        elif not lines[at].startswith("<!--"):
            mark = ("", "")
        at += 1


def unmarked(page: str) -> list[int]:
    """Return the lines of the blocks that nothing runs and that do not say why."""
    return [block.line for block in blocks(page) if not block.kind or (block.kind == "not run" and not block.about)]


def faults(page: str, shell: Shell) -> Iterator[str]:
    """Run the blocks of a page in order; yield what went wrong, a text for each block."""
    for block in blocks(page):
        if block.kind == "run":
            wrong = _ended(shell, block.about or SCRIPT, block.text)
        elif block.kind == "before":
            wrong = _ended(shell, f"{SCRIPT} -c {_quoted(block.about)}", "")
        elif block.kind == "tour":
            wrong = "\n".join(_console(block, shell))
        else:
            continue
        if wrong:
            yield f"line {block.line}: {wrong}"


def _quoted(command: str) -> str:
    return "'" + command.replace("'", "'\\''") + "'"


def _ended(shell: Shell, command: str, text: str) -> str:
    code, output = shell(command, text)
    return f"{command}: exit code {code}\n{text}{output}" if code else ""


def _console(block: Block, shell: Shell) -> list[str]:
    printed: list[str] = []
    errors = "exec 2>&1" if "stderr" in block.about.split() else "exec 2>/dev/null"
    for command in block.commands:
        output = shell(f"{errors}; {command}", "")[1].rstrip().splitlines()
        printed += [f"$ {command}", *(line.rstrip() for line in output)]
    return differences(block.text.rstrip("\n").splitlines(), printed, **block.tolerances)
