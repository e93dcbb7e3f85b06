# SPDX-License-Identifier: MIT
"""The table of mounts as this process sees it. Source: proc_pid_mountinfo(5)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TABLE = Path("/proc/self/mountinfo")


class Mount(NamedTuple):
    """device: "major:minor"; folder: where it is mounted; kind: "tmpfs"; source: what was mounted."""

    device: str
    folder: str
    kind: str
    source: str


def mounts(kind: str = "", table: Path = TABLE) -> Iterator[Mount]:
    """Yield the mounts of a kind, "" for all, in the order in which they were mounted. Errors: `OSError`."""
    for line in table.read_text().splitlines():
        before, _, after = line.partition(" - ")
        # A look for changes asks each second, and a host may have thousands of other mounts.
        if kind and not after.startswith(f"{kind} "):
            continue
        ours, theirs = before.split(), after.split()
        yield Mount(ours[2], ours[4], theirs[0], theirs[1])


def device_of(path: Path) -> str:
    """Return which file system stands at a path, as the table writes it. Errors: `OSError`."""
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"
