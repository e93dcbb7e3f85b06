# SPDX-License-Identifier: MIT
"""The command line: parse, build the edge objects, call one function, render.

Rules for this folder: a file a command, or a family of small commands of one noun; nothing heavy is imported before
the command that needs it is called.
"""

from __future__ import annotations

import os
import signal


def main() -> None:
    """The console script: run the command line and exit with one of the codes of `errors.py`."""
    # Of numpy's: threads that wait for matrices cost each start 20 ms.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    python = signal.getsignal(signal.SIGINT)
    # A start with SIGINT ignored (`nohup`, a shell's `&`) stays so.
    ours = python is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, _leave)
    from configtron.cli.outermost import run

    if ours:
        signal.signal(signal.SIGINT, python)
    code = run()
    if ours:
        # All is done and written: a late Ctrl-C ends the process, and interrupts no module that closes.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise SystemExit(code)


def _leave(number: int, frame: object) -> None:
    """Ctrl-C while modules are being imported: nothing is begun, and an exception could end up inside any of them."""
    os.write(2, b"configtron: interrupted\n")
    # The code of `errors.INTERRUPTED`, without importing it.
    os._exit(128 + number)
