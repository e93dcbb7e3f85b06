# SPDX-License-Identifier: MIT
"""The PLT-tensors that ship with the package: `configtron/tensors/NAME.npz`, measured in the lab (docs/tensor.md)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

SUFFIX = ".npz"


@cache
def shipped() -> tuple[str, ...]:
    """Return the names of the shipped tensors, in their order."""
    folder = files("configtron") / "tensors"
    return tuple(sorted(entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX)))


def content(name: str) -> bytes:
    """Return the file of a shipped tensor."""
    return (files("configtron") / "tensors" / f"{name}{SUFFIX}").read_bytes()
