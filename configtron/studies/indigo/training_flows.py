# SPDX-License-Identifier: MIT
"""Flows of Indigo's training: orders for a guest of the testbed, its answer, and the boot between them.

A guest gets a list of `FlowOrder` as JSON and, where the network drives, weights; it writes one `FlowFound` for each.
The same orders give the same answer, byte for byte: the guest's time is virtual, its chance is the orders' seeds.
"""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from configtron.lab.schemes.indigo_network import SHAPES, IndigoWeights
from configtron.lab.testbed import measure
from configtron.lab.uml import user_mode_linux as uml
from configtron.model.errors import DONE, PRIVILEGE, BadInput, ConfigtronError, Missing
from configtron.model.records import canonical

ORDERS, WEIGHTS, FOUND = "orders.json", "weights.npz", "found.npz"
# The module that a guest runs.
WORKER = "configtron.studies.indigo.training_guest"
KINDS = ("search", "expert", "learned")
# How often a guest is looked after; it takes seconds at least.
LOOK_EVERY_S = 0.1
# What np.load raises for a file that is none of its own.
NO_ARRAYS = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


@dataclass(frozen=True, slots=True)
class FlowOrder:
    """A flow over a link. kind: of `KINDS`; seconds: of its life; best: the link's best window, for the expert."""

    kind: str
    link: str
    seconds: float
    seed: int
    best: float = 0.0


class FlowFound(NamedTuple):
    """What a guest found: a flow's steps, or the power by window of a search."""

    link: str
    steps: NDArray[np.float32]
    tried: Mapping[int, float]


# What runs flows: `in_guest`, or a path of a test.
RunFlows = Callable[[Sequence[FlowOrder], IndigoWeights | None], list[FlowFound]]


def orders_text(orders: Sequence[FlowOrder]) -> str:
    """Return orders as JSON."""
    return canonical([asdict(order) for order in orders])


def orders_of(text: str) -> list[FlowOrder]:
    """Return the orders of such a text. Errors: `BadInput`."""
    try:
        return [FlowOrder(**form) for form in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise BadInput(f"no orders of flows: {error}") from error


def found_bytes(found: Sequence[FlowFound]) -> bytes:
    """Return what was found as a file of arrays: the same bytes for the same flows."""
    names = canonical([[one.link, {str(window): power for window, power in one.tried.items()}] for one in found])
    return arrays_bytes({"names": np.array(names)} | {f"steps{at}": one.steps for at, one in enumerate(found)})


def found_of(data: bytes) -> list[FlowFound]:
    """Return what such a file holds. Errors: `BadInput`."""
    arrays = arrays_of(data)
    try:
        names = json.loads(str(arrays["names"]))
        return [
            FlowFound(link, arrays[f"steps{at}"], {int(window): power for window, power in tried.items()})
            for at, (link, tried) in enumerate(names)
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"no steps of flows: {error}") from error


def weights_of(data: bytes) -> IndigoWeights:
    """Return the weights of a file of arrays. Errors: `BadInput`."""
    return weights_in(arrays_of(data))


def weights_in(arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> IndigoWeights:
    """Return the weights among arrays, by names that begin so. Errors: `BadInput` for other shapes, or no numbers."""
    try:
        parts = [arrays[prefix + name] for name in IndigoWeights._fields]
    except KeyError as error:
        raise BadInput(f"no weights: {error}") from error
    for name, part, shape in zip(IndigoWeights._fields, parts, SHAPES, strict=True):
        if part.shape != shape or not np.issubdtype(part.dtype, np.floating) or not np.isfinite(part).all():
            raise BadInput(f"no weights: {name} is no array of {' x '.join(map(str, shape))} finite numbers")
    return IndigoWeights(*parts)


def arrays_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return arrays as a file (.npz), whose bytes depend on them alone."""
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def arrays_of(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of such a file. Errors: `BadInput`."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            return dict(stored.items())
    except NO_ARRAYS as error:
        raise BadInput(f"no file of arrays: {error}") from error


def in_guest(guests: measure.Guests | None = None) -> RunFlows:
    """Return what runs flows in a guest of this machine, one boot a call. Errors: `Missing`, when it is called too."""
    ready = guests or measure.guests(WORKER)

    def run(orders: Sequence[FlowOrder], weights: IndigoWeights | None) -> list[FlowFound]:
        # in the host's own folder for large files: a guest's output may be on no overlay
        with TemporaryDirectory(prefix="configtron-indigo-", dir="/var/tmp") as name:
            folder = Path(name)
            (folder / ORDERS).write_text(orders_text(orders))
            if weights:
                (folder / WEIGHTS).write_bytes(arrays_bytes(weights._asdict()))
            return _booted(ready, folder, orders[0].seed)

    return run


def _booted(guests: measure.Guests, folder: Path, seed: int) -> list[FlowFound]:
    """Boot a guest for the orders in a folder; wait for it. Errors: `Missing`, `ConfigtronError` if it fails."""
    number, core = measure.claimed_core()
    with core:
        job = uml.GuestJob((*guests.command, uml.GUEST_OUTPUT), folder, seed, number, measure.MEMORY_MB)
        guest = guests.backend.boot(job)
        try:
            while (code := guest.poll()) is None:
                time.sleep(LOOK_EVERY_S)
        finally:
            guest.kill()
    if code == DONE and (folder / FOUND).exists():
        return found_of((folder / FOUND).read_bytes())
    kind = Missing if code == PRIVILEGE else ConfigtronError
    raise kind(f"a guest of the training ended with exit code {code}: {measure.last_words(guest)}")
