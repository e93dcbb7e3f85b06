"""What `make install` says while it works: a line a step, the command's own exit code, and all of it if it fails."""

from __future__ import annotations

import subprocess
from pathlib import Path

TOLD = Path(__file__).parent.parent / ".ci" / "told"
SAID = """Reading package lists...
Need to get 12.3 MB of archives.
Unpacking a (1.0) ...
Unpacking b (1.0) ...
Setting up a (1.0) ...
Collecting numpy
  Downloading https://pypi.example/numpy-1.24-cp311.whl (18.2 MB)
  Downloading click-8.1.whl (97 kB)
Installing collected packages: a, b, c
"""


def told(code: int) -> subprocess.CompletedProcess[str]:
    words = ["sh", "-c", f"cat; exit {code}"]
    return subprocess.run([TOLD, *words], input=SAID, capture_output=True, text=True, check=False)


def test_steps_are_said() -> None:
    done = told(0)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.splitlines() == [
        "  fetching 12.3 MB", "  unpacking", "  setting up", "  fetching numpy-1.24-cp311.whl (18.2 MB)",
        "  installing 3 Python packages",
    ]  # fmt: skip


def test_a_failure_is_shown_whole_and_stays_one() -> None:
    done = told(7)
    assert done.returncode == 7 and done.stderr == SAID
