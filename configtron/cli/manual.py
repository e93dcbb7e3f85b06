# SPDX-License-Identifier: MIT
"""Manual pages, shell completions, capabilities of drivers, grade rules: `python -m configtron.cli.manual docs`.

Made from the commands and drivers themselves; a test finds pages that are out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from configtron import __version__
from configtron.cli.outermost import COMPLETE
from configtron.cli.root import root
from configtron.fingerprint import grades
from configtron.report.command_pages import contexts_of, pages_of
from configtron.tune import capabilities
from configtron.tune.drivers import tables


def pages() -> dict[str, str]:
    """Return every file below docs/, by its name there."""
    return pages_of(root, __version__, COMPLETE)


def contexts() -> Iterator[click.Context]:
    """Yield a context for every command, parents first."""
    return contexts_of(root)


def write(folder: Path) -> None:
    """Write all of them, and the tables of docs/fingerprint.md and docs/tune.md; remove pages of lost commands."""
    made = pages()
    for old in (folder / "man").glob("*.1"):
        if f"man/{old.name}" not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if (fingerprint := folder / "fingerprint.md").exists():
        fingerprint.write_text(grades.printed(fingerprint.read_text()))
    if (tune := folder / "tune.md").exists():
        tune.write_text(capabilities.printed(tune.read_text(), tables()))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
