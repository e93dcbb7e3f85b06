"""configtron.ko for the lab's kernel: built outside, loaded inside."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from configtron.lab.kmod import module_for_guest
from configtron.lab.uml import GUEST_OUTPUT

# Where a guest finds it.
MODULE = Path(GUEST_OUTPUT) / "configtron.ko"


def build(folder: Path) -> None:
    """Put it into the folder that will be a guest's output; built unless the cache has it."""
    shutil.copyfile(module_for_guest(lambda line: print(line, file=sys.stderr, flush=True)), folder / MODULE.name)
