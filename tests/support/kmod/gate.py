# SPDX-License-Identifier: MIT
"""What a kernel complained of, from its log: the net's verdict.

A report is a line with one of the kernel's alarm words and the lines below it, to the report's end. Only what stands
behind the line of inside.py's BEGIN counts: a booting kernel has complaints of its own.
"""

from __future__ import annotations

import re

from tests.support.kmod.inside import BEGIN

ALARM = re.compile(
    r"BUG|WARNING|KASAN|UBSAN|possible|suspicious|Oops|general protection|refcount_t|Kernel panic|INFO: "
)
# Both ends of a report's box, and the end of a warning's trace.
FRAME = re.compile(r"={20,}|-{20,}|---\[ end trace")
STAMP = re.compile(r"^(<\d>)?\[ *\d+\.\d+\](\[ *[CT]\d+\])? ?")
# Logged by a healthy kernel too; each with its reason.
KNOWN = (
    # `modinfo` shows the same: our module is not part of the kernel
    "loading out-of-tree module taints kernel",
)
# No report is longer; one without an end stops here.
MOST_LINES = 120


def reports(log: str) -> list[str]:
    """Every report behind BEGIN, first line first."""
    _, begun, text = log.rpartition(BEGIN)
    if not begun:
        return ["the log ends before the stress began"]
    lines = [STAMP.sub("", line) for line in text.splitlines()]
    found: list[str] = []
    at = 0
    while at < len(lines):
        if not ALARM.search(lines[at]) or any(known in lines[at] for known in KNOWN):
            at += 1
            continue
        last = end_of(lines, at)
        found.append("\n".join(lines[at:last]))
        at = last
    return found


def end_of(lines: list[str], first: int) -> int:
    """One past a report's last line: where its frame or trace closes, or the limit."""
    box = first > 0 and bool(FRAME.search(lines[first - 1]))
    last = min(first + MOST_LINES, len(lines))
    for at in range(first + 1, last):
        # a box of lockdep has inner lines of dashes; it ends at "stack backtrace:" and its trace
        closed = box and re.fullmatch(r"={20,}", lines[at].strip())
        if closed or "---[ end trace" in lines[at] or "</TASK>" in lines[at]:
            return at + 1
    return last
