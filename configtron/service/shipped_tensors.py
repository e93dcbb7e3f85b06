# SPDX-License-Identifier: MIT
"""The PLT-tensors that ship with the package: `configtron/tensors/NAME.npz`, measured in the lab (docs/studies.md)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

SUFFIX = ".npz"


@cache
def shipped_names() -> tuple[str, ...]:
    """Return the names of the shipped tensors, sorted."""
    folder = files("configtron") / "tensors"
    return tuple(sorted(entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX)))


def tensor_file(name: str) -> bytes:
    """Return the bytes of a shipped tensor's file."""
    return (files("configtron") / "tensors" / f"{name}{SUFFIX}").read_bytes()
