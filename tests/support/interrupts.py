# SPDX-License-Identifier: MIT
"""One Ctrl-C ends pytest: also where the code under test catches KeyboardInterrupt, or handles SIGINT itself.

The terminal sends SIGINT to all processes of the foreground group. A child of ours that does nothing dies of it, so we
know of a Ctrl-C that a test's own handler took. A SIGINT for pytest alone is noted by our handler. A test that was
interrupted has neither failed nor passed: it is not reported. Hooks of conftest.py.
"""

from __future__ import annotations

import signal
import subprocess
from types import FrameType

import pytest

# Nothing writes to it; `cat` ends when pytest does, however that ends.
_watcher: subprocess.Popen[bytes] | None = None
_noted: list[int] = []


def _note(number: int, frame: FrameType | None) -> None:
    _noted.append(number)
    raise KeyboardInterrupt


def interrupted() -> bool:
    """Whether there was a Ctrl-C, or a SIGINT for this process that no test's handler took."""
    return bool(_noted) or _watcher is not None and _watcher.poll() == -signal.SIGINT


def pytest_sessionstart(session: pytest.Session) -> None:
    global _watcher
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        _watcher = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        signal.signal(signal.SIGINT, _note)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    if interrupted():
        raise KeyboardInterrupt


def pytest_unconfigure(config: pytest.Config) -> None:
    global _watcher
    if _watcher is not None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert _watcher.stdin is not None
        _watcher.stdin.close()
        _watcher.wait()
        _watcher = None
