"""configtron.ko for the lab's kernel: built outside, loaded inside."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from configtron.lab.modules import ensure_tree, make_module
from configtron.lab.recipes import LAB
from configtron.lab.uml import GUEST_OUTPUT

SOURCES = Path(__file__).resolve().parent.parent / "kmod"
# Where a guest finds it.
MODULE = Path(GUEST_OUTPUT) / "configtron.ko"


def build(folder: Path) -> None:
    """Build it and put it into the folder that will be a guest's output."""
    tree = ensure_tree(lambda line: print(line, file=sys.stderr, flush=True))
    built = make_module(SOURCES, folder / "module", tree, LAB.arch)
    shutil.copyfile(next(path for path in built if path.name == MODULE.name), folder / MODULE.name)
