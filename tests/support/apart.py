# SPDX-License-Identifier: MIT
"""Programs of tests/support that run in namespaces of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.isolation import apart


def apart_in_folder(module: str, *words: str) -> Any:
    """Return what a program of tests/support prints, which runs in namespaces of its own with a folder."""
    with tempfile.TemporaryDirectory(prefix="served-") as folder:
        Path(folder).chmod(0o755)
        command = apart([sys.executable, "-m", module, folder, *words])
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=400, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
