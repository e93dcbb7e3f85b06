# SPDX-License-Identifier: MIT
"""Shards over the cores of this machine: one guest a core, each in its own folder; an incomplete shard runs again.

Question   How can days of measuring survive a kill, a reboot or a full disk, and lose few results?
Method     A shard's folder holds its orders and its guest's output. A guest outlives its owner (orphans.py): after a
           kill of the measurement its guests finish their shards, and a process that resumes it waits for them. Ctrl-C
           or SIGTERM to the owner ends them. The death of a guest loses its shard; a crash of the machine loses one
           shard a job. A whole shard never runs again.
           Shards run in an order drawn from the seed, so that the time used so far predicts the time left.
Reads as   a `ShardResult` per shard: its lines, or why there are none.
Fails as   the guest's last words; a missing privilege or program ends the measurement, since all shards need it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

from configtron.lab.testbed import aqm, loads, orphans, player, servers
from configtron.lab.testbed.shard import LINES, ORDERS, TLS, Orders
from configtron.lab.testbed.software import software
from configtron.lab.uml import user_mode_linux as uml
from configtron.lab.uml.kernel import cache_folder, ensure_kernel
from configtron.model.errors import PRIVILEGE, BadInput, Missing, Refused
from configtron.model.records import canonical
from configtron.model.samples import Filled, Pairs, digest, filled_of

# The file beside a shard's orders and lines with the software that it ran on.
SOFTWARE = "software.json"
# A guest of the testbed: servers, client and the bodies of ten pages; memory is taken from the host as it is touched.
MEMORY_MB = 512
# Interval between checks of guests; a shard takes a second at least.
LOOK_EVERY_S = 0.1
# Of a failed guest's console.
LAST_LINES = 4
# A second guest on a core gains nothing and more cost memory; beyond this, the number is mistyped.
MOST_ON_A_CORE = 8


class ShardResult(NamedTuple):
    """A shard that ended: its text and the software it ran on, or the reason why it has no text."""

    condition: str
    text: str
    software: Pairs
    wall_s: float
    why: str = ""

    def filled(self) -> Filled:
        """Return its measurements. Errors: `BadInput`."""
        return filled_of(self.text.splitlines(), self.condition)


class FillCounts(NamedTuple):
    """The progress of the guests that run now."""

    cells: int = 0
    loads: int = 0


@dataclass(frozen=True)
class Guests:
    """How a shard is run: `command` and then the guest's folder; `software` is recorded with its lines."""

    backend: uml.Backend
    command: tuple[str, ...]
    software: Pairs


def guests(module: str, backend: uml.Backend | None = None) -> Guests:
    """Return guests of this machine that run `module`; build the kernel and client first. Errors: `Missing`."""
    backend = backend or uml.UmlVirtual()
    if reason := backend.available():
        raise Missing(f"lab {backend.name}: {reason}")
    if isinstance(backend, uml.UmlVirtual):
        ensure_kernel(lambda line: print(line, file=sys.stderr, flush=True))
    client, playing = str(loads.program()), str(player.program())
    return Guests(backend, (sys.executable, "-m", module, client, playing), software(client, playing))


def slug(position: int, condition: str) -> str:
    """Return a shard's folder."""
    return f"{position:03}-{re.sub(r'[^a-zA-Z0-9.@+]+', '-', condition)}"


def in_drawn_order(orders: Sequence[Orders]) -> list[Orders]:
    """Return shards in an order drawn from the seed."""
    return sorted(orders, key=lambda one: digest(str(one.seed), one.condition.name))


def whole(folder: Path, orders: Orders) -> str:
    """Return the lines that a shard with these orders has written into a folder, if they are whole; else ""."""
    try:
        if (folder / ORDERS).read_text() != orders.to_json():
            return ""
        text = (folder / LINES).read_text()
        filled_of(text.splitlines(), folder.name)
    except (FileNotFoundError, BadInput, UnicodeDecodeError):
        return ""
    return text


def software_of(path: Path) -> Pairs:
    """Return the software that a shard ran on, as kept beside its lines. Errors: `BadInput`."""
    try:
        return tuple(sorted((str(name), str(value)) for name, value in json.loads(path.read_text()).items()))
    except (OSError, ValueError, AttributeError) as error:
        raise BadInput(f"{path}: cannot be read ({error}); remove its folder and resume") from error


@dataclass
class _Tail:
    """A guest's file, counted while it grows."""

    path: Path
    at: int = 0
    cells: int = 0
    loads: int = 0

    def look(self) -> None:
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self.at)
            fresh = file.read()
            kept = fresh[: fresh.rfind(b"\n") + 1]
            self.at += len(kept)
            self.loads += kept.count(b'"kind":"load"')
            # canonical JSON: the only text with this key and value
            self.cells += kept.count(b'"repeat":0,')


@dataclass
class _Booted:
    orders: Orders
    folder: Path
    guest: uml.Running
    # its core, and the lock of a guest that outlives us; none of an adopted one's
    claims: Sequence[IO[bytes]] = ()
    began: float = field(default_factory=time.monotonic)

    def close(self) -> None:
        """A guest that lives is ended. Errors: `Refused`."""
        self.guest.kill()
        self.release()

    def release(self) -> None:
        """Close our own copies of its locks."""
        for claim in self.claims:
            claim.close()


def perform(
    shards: Sequence[tuple[Orders, Path]], guests: Guests, jobs: int, report: Callable[[FillCounts], None]
) -> Iterator[ShardResult]:
    """Run shards in these folders, so many at once, and hand on each as it ends. Errors: `Missing`."""
    waiting, running = list[tuple[Orders, Path]](), list[tuple[_Booted, _Tail]]()
    try:
        for orders, folder in reversed(shards):
            if booted := _adopt(orders, folder):
                running.append((booted, _Tail(folder / LINES)))
            else:
                waiting.append((orders, folder))
        while waiting or running:
            while waiting and len(running) < jobs:
                orders, folder = waiting.pop()
                running.append((_boot(orders, folder, guests, outlives=True), _Tail(folder / LINES)))
            for one in [one for one in running if one[0].guest.poll() is not None]:
                running.remove(one)
                yield _ended(one[0])
            for _, tail in running:
                tail.look()
            report(FillCounts(sum(tail.cells for _, tail in running), sum(tail.loads for _, tail in running)))
            time.sleep(LOOK_EVERY_S)
    finally:
        with ExitStack() as stack:
            for booted, _ in running:
                stack.callback(booted.close)


def perform_one(orders: Orders, folder: Path, guests: Guests) -> ShardResult:
    """Run one shard, by a guest that ends with us, and wait for it. Errors: `Missing`."""
    booted = _boot(orders, folder, guests, outlives=False)
    try:
        booted.guest.wait()
        return _ended(booted)
    finally:
        booted.close()


def _adopt(orders: Orders, folder: Path) -> _Booted | None:
    """Return the guest of a killed owner, if it still runs these orders, or has finished them since."""
    if not folder.exists():
        return None
    guest, began = orphans.adopt(folder), time.monotonic()
    is_alive = guest.poll() is None
    if whole(folder, orders):
        return _Booted(orders, folder, guest)
    if is_alive and (folder / ORDERS).read_text() == orders.to_json():
        return _Booted(orders, folder, guest, began=began - orphans.lived_s(folder))
    if is_alive:
        guest.kill()
    return None


def _boot(orders: Orders, folder: Path, guests: Guests, *, outlives: bool) -> _Booted:
    folder.mkdir(parents=True, exist_ok=True)
    claims: list[IO[bytes]] = []
    try:
        # before anything there is touched, lest a guest be at work on it
        life = orphans.claim(folder)
        if life is None:
            raise Refused(f"{folder}: a guest is at work there")
        claims.append(life)
        (folder / LINES).unlink(missing_ok=True)
        (folder / SOFTWARE).write_text(canonical(dict(guests.software)))
        (folder / ORDERS).write_text(orders.to_json())
        servers.certify(orders.pages, folder / TLS)
        aqm.lend(orders.condition.aqms, folder)
        number, core = claimed_core()
        claims.append(core)
        keeps = tuple(claims) if outlives else ()
        job = uml.GuestJob((*guests.command, uml.GUEST_OUTPUT), folder, orders.seed, number, MEMORY_MB, keeps=keeps)
        return _Booted(orders, folder, guests.backend.boot(job), claims)
    except BaseException:
        for claim in claims:
            claim.close()
        raise


def claimed_core() -> tuple[int, IO[bytes]]:
    """Return a core that no other guest of the testbed on this machine has, while there is one; else the least claimed.

    The claim goes with the file that is returned, when all processes that hold it open are gone.
    """
    claims = cache_folder() / "cores"
    claims.mkdir(parents=True, exist_ok=True)
    cores = sorted(os.sched_getaffinity(0))
    for turn in range(MOST_ON_A_CORE):
        for core in cores:
            file = (claims / f"{core}.{turn}").open("wb")
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return core, file
            file.close()
    raise Refused(f"{MOST_ON_A_CORE} guests run on each core already; fewer --jobs")


def _ended(booted: _Booted) -> ShardResult:
    booted.release()
    took = time.monotonic() - booted.began
    code, name = booted.guest.poll(), booted.orders.condition.name
    used = software_of(booted.folder / SOFTWARE)
    if text := whole(booted.folder, booted.orders):
        return ShardResult(name, text, used, took)
    words = last_words(booted.guest)
    if code == PRIVILEGE:
        raise Missing(f"{name}: {words}")
    return ShardResult(name, "", used, took, f"its guest ended with exit code {code}: {words}; see {booted.folder}")


def last_words(guest: uml.Running) -> str:
    """Return the end of a failed guest's console, in one line."""
    lines = guest.console.read_text(errors="replace").split("\n")[-LAST_LINES:]
    return " | ".join(line for line in (*lines, *guest.last_words().split("\n")) if line)
