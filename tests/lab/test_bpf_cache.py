# SPDX-License-Identifier: MIT
"""The laboratory's BPF programs are loaded from no folder that another user can write."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from configtron.lab.internet import bpf
from configtron.model.errors import Refused

SOURCE = Path(bpf.__file__).parent / "middlebox.bpf.c"


def test_what_others_could_write_is_refused(tmp_path: Path) -> None:
    if not shutil.which("clang"):
        pytest.skip("no compiler")
    built = bpf.compiled(SOURCE, tmp_path)
    assert built.stat().st_mode & 0o777 == 0o600 and bpf.compiled(SOURCE, tmp_path) == built
    built.chmod(0o620)
    with pytest.raises(Refused, match=f"{built} can be written by others"):
        bpf.compiled(SOURCE, tmp_path)
    built.chmod(0o600)
    tmp_path.chmod(0o777)
    with pytest.raises(Refused, match=f"{tmp_path} can be written by others"):
        bpf.compiled(SOURCE, tmp_path)
