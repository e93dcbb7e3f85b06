# SPDX-License-Identifier: MIT
"""Man pages and shell completions, which `setup.py` puts into a wheel; tables of documents, made from the code.

python -m configtron.cli.manual docs           the tables in docs/fingerprint.md and docs/tune.md
python -m configtron.cli.manual docs PAGES     man pages and completions too, below this folder
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from configtron import __version__
from configtron.cli.outermost import COMPLETE
from configtron.cli.root import root
from configtron.report.command_pages import contexts_of, pages_of


def contexts() -> Iterator[click.Context]:
    """Yield a context for every command, parents first."""
    return contexts_of(root)


def write_pages(folder: str) -> None:
    """Write a man page for each command and a completion script for each shell. It needs no package but click."""
    for name, text in pages_of(root, __version__, COMPLETE).items():
        file = Path(folder, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def write_tables(docs: Path) -> None:
    """Write the tables of docs/fingerprint.md and docs/tune.md."""
    from configtron.fingerprint import grades
    from configtron.tune import capabilities
    from configtron.tune.drivers import tables

    for name, printed in (("fingerprint", grades.printed), ("tune", lambda text: capabilities.printed(text, tables()))):
        if (page := docs / f"{name}.md").exists():
            page.write_text(printed(page.read_text()))


if __name__ == "__main__":
    write_tables(Path(sys.argv[1]))
    for pages in sys.argv[2:]:
        write_pages(pages)
