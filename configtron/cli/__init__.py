"""The command line: parse, build the edge objects, call one function, render.

Rules for this folder: a file a command; nothing heavy is imported before the command that needs it is called.
"""

from __future__ import annotations


def main() -> None:
    """The console script: run the command line and exit with one of the codes of `errors.py`."""
    from configtron.cli.outermost import run

    raise SystemExit(run())
