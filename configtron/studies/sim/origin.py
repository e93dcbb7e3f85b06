# SPDX-License-Identifier: MIT
"""Where a replay's world comes from: a shape by name, or files; as texts that the database can keep.

A file is kept by its path and a hash of its bytes: a replay that is resumed must find the same ones. The name of a
shipped tensor stands for its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

from configtron.learner.tensor_mapping import mapped
from configtron.model.errors import BadInput
from configtron.model.tensor import Tensor, read
from configtron.service.replay.capture_contexts import contexts_of, is_capture
from configtron.service.shipped_tensors import shipped_names, tensor_file
from configtron.studies.sim import traces
from configtron.studies.sim.brought import header_of
from configtron.studies.sim.captured import captured, clients_of
from configtron.studies.sim.distortions import distorted
from configtron.studies.sim.networks import csv_networks, placed
from configtron.studies.sim.sessions import Arrivals, Sessions
from configtron.studies.sim.world import (
    ANALYTIC,
    SESSIONS,
    World,
    chance,
    sources,
    tensor_of,
    warm_of,
    without_gaps,
    world,
)
from configtron.studies.sim.worldfile import first
from configtron.studies.sim.worldfile import read as read_world

NONE, MIS_SPECIFIED = "none", "mis-specified"
# The source of a world's file that is asked for no other sessions than its own.
OWN = "own"
# Sessions that are drawn unless a number is given: 250 for each of 20 classes x 12 sites.
SESSIONS_DRAWN = 60_000
Say = Callable[[str], None]
# The one client of a link trace.
CLIENT = "192.0.2.0/24"


@dataclass(frozen=True, slots=True)
class Origin:
    """How to make a world again. files: hash by path of every file that it is made from; world: a world's file, which
    stands for the tensor, and for the source where that is OWN; sessions: 0 for as many as that has; distort: names of
    distortions, in order."""

    source: str
    tensor: str
    warm: str
    sessions: int
    seed: int
    classes: int
    per_s: float
    rtt_ms: float
    loss: float
    world: str = ""
    files: tuple[tuple[str, str], ...] = ()
    distort: tuple[str, ...] = ()

    def form(self) -> dict[str, Any]:
        """As the database keeps it."""
        return {**asdict(self), "files": dict(self.files), "distort": list(self.distort)}


def origin_of(form: dict[str, Any]) -> Origin:
    """Return the origin that `Origin.form` wrote."""
    distort = tuple(form.get("distort", ()))
    return Origin(**{**form, "files": tuple(sorted(form["files"].items())), "distort": distort})


def hashed(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the hash by path of those names that are files and no shape's or variant's."""
    known = {*sources(), *ANALYTIC, NONE, MIS_SPECIFIED, OWN, ""}
    return tuple(sorted((name, sha256(_bytes(name)).hexdigest()) for name in names if name not in known))


def made(origin: Origin, say: Say) -> World:
    """Return the world; `say` gets what was left out of files. Errors: `BadInput` for files that cannot be read or have
    changed, or that do not fit one another, and for a distortion that is none."""
    check_unchanged(origin.files)
    return distorted(_brought(origin, say) if origin.world else _own(origin, say), origin.distort)


def _own(origin: Origin, say: Say) -> World:
    """Return a world of a tensor and a source."""
    if not origin.sessions and origin.source in sources():
        raise BadInput(
            f"count: 0 sessions are as many as a world's file has, and {origin.source} is drawn; name a number"
        )
    shape = origin.source if origin.source in sources() else "spread"
    tensor = (
        tensor_of(shape, origin.seed, origin.tensor)
        if origin.tensor in ANALYTIC
        else tensor_of_file(origin.tensor, say)
    )
    warm = _warm(origin, tensor, say)
    sessions = None if origin.source in sources() else _sessions(origin, tensor)
    arrivals = Arrivals(per_s=origin.per_s)
    return world(tensor, origin.sessions, origin.seed, warm=warm, sessions=sessions, classes=origin.classes,
                 arrivals=arrivals)  # fmt: skip


def _brought(origin: Origin, say: Say) -> World:
    """Return the world of a file, with its own sessions or others put on its networks."""
    found = read_world(BytesIO(_bytes(origin.world)), origin.world)
    conditions, lost = found.left_out
    if found.missing or conditions or lost:
        left = f"{conditions} conditions and {lost} sessions left out, where Default has no page load time"
        say(f"{origin.world}: {found.missing} cells without one load as under Default; {left}")
    n, sessions = origin.sessions or SESSIONS_DRAWN, found.sessions
    if origin.source in sources():
        sessions = None
    elif origin.source != OWN:
        sessions = _sessions(origin, found.tensor)
    elif sessions is not None and origin.sessions:
        sessions = first(sessions, origin.sessions)
    warm = _warm(origin, found.tensor, say)
    return world(found.tensor, n, origin.seed, warm=warm, sessions=sessions, classes=origin.classes,
                 arrivals=found.arrivals, spread=found.noise)  # fmt: skip


def check_unchanged(files: Iterable[tuple[str, str]]) -> None:
    """Check that files have the hashes of when the replay was begun. Errors: `BadInput`."""
    for name, before in files:
        if sha256(_bytes(name)).hexdigest() != before:
            raise BadInput(f"{name}: changed since this replay was begun; begin a new one")


def _warm(origin: Origin, tensor: Tensor, say: Say) -> Tensor | None:
    if origin.warm == NONE:
        return None
    if origin.warm == MIS_SPECIFIED:
        return warm_of(tensor, origin.source, origin.seed)
    # Gaps and all: a start need not be whole, as a world must.
    found = read(BytesIO(_bytes(origin.warm)), origin.warm)
    if left := mapped(found, tensor.grid, tensor.sites).left_out:
        say(f"{origin.warm}: not used of it: {left}")
    return found


def tensor_of_file(name: str, say: Say) -> Tensor:
    """Return a file's tensor without its gaps; `say` gets what that leaves out. Errors: `BadInput`."""
    found = read(BytesIO(_bytes(name)), name)
    whole = without_gaps(found)
    if whole is not found:
        left = f"{len(whole.names)} of {len(found.names)} conditions"
        of = f"{len(whole.grid)} of {len(found.grid)} configurations"
        unrated = len(found.names) - len(found.rated().names)
        why = f"{found.missing()} cells without a median, {unrated} conditions without one rate"
        say(f"{name}: {why}; left are {left}, {of}")
    return whole


def _bytes(name: str) -> bytes:
    if name in shipped_names():
        return tensor_file(name)
    try:
        return Path(name).read_bytes()
    except OSError as error:
        known = ", ".join((*sources(), *ANALYTIC, *shipped_names()))
        raise BadInput(f"{name or repr(name)}: {error.strerror}; name a file, or one of: {known}") from error


def _sessions(origin: Origin, tensor: Tensor) -> Sessions:
    """Return the sessions of a file: a packet capture, contexts as JSON Lines, CSV with a header (sessions, or networks
    to draw from), link traces of two kinds."""
    data, rng = _bytes(origin.source), chance(origin.seed, SESSIONS)
    if is_capture(data):
        return captured(contexts_of(origin.source), tensor, origin.sessions, rng, origin.source)
    try:
        # Spreadsheets begin what they save with a mark.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{origin.source}: not UTF-8 text (byte {error.start + 1}); save it as UTF-8") from error
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if first.startswith("{"):
        return captured(clients_of(text, origin.source), tensor, origin.sessions, rng, origin.source)
    if columns := header_of(text):
        if "at_s" in columns:
            return traces.csv_sessions(text, tensor, origin.source)
        networks = csv_networks(text, origin.source)
        return placed(networks, tensor, origin.sessions, rng, Arrivals(per_s=origin.per_s))
    rates = (traces.mahimahi if first.isdigit() else traces.steps)(text, origin.source)
    pieces = traces.pieces(rates, origin.rtt_ms, origin.loss)
    return traces.visited(pieces, CLIENT, tensor, origin.sessions, rng)
