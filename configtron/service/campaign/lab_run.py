# SPDX-License-Identifier: MIT
"""A lab run: an internet drawn by seed, raised in guests, probed by the same code as any other.

    run folder/truth.json           what every server is; guests see the folder of all runs empty
    run folder/lab-N/               guest N's only writable folder: its shard, results and packets
    run folder/lab-N/world/         what guest N raises; hidden from the prober once the servers have it

Inside, all of it lies at one path for every run: what a guest can see is part of its bytes. The internet is parted
into a fixed number of guests, whatever this machine has: the same seed gives the same bytes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from math import inf
from pathlib import Path

from configtron.lab.internet import draw as internet
from configtron.lab.internet import truth
from configtron.lab.internet import world as worlds
from configtron.lab.uml import user_mode_linux as uml
from configtron.lab.uml.kernel import ensure_kernel
from configtron.model.errors import DONE, INTERRUPTED, UNWRITTEN, BadInput, ConfigtronError, Unwritten
from configtron.model.nouns import Target, Vantage
from configtron.model.packages import missing
from configtron.probe.vantages import choose
from configtron.probe.wire.shard import SHARD, Shard
from configtron.service.campaign.inputs import shard_of
from configtron.service.campaign.run_options import ProbeOptions
from configtron.service.campaign.shard_pool import run_shards
from configtron.service.campaign.tally import RunTally
from configtron.service.progress import Event, Progress

# Two guests, one core each: what the smallest machines that we know of have.
GUESTS = 2
# 500 sites with five servers' worth of sockets each fit in 700 MB; UML takes host memory only as it is touched.
MEMORY_MB = 1024
# Within a guest's folder; the folder it is in is what gets hidden.
WORLD = Path("world") / "world.json"
# Lines of a failed guest's console in its error.
LAST_LINES = 4
# Target sessions of a guest at once: in virtual time waiting is free, so that few at once take no longer than all
# (137 s of 200 sites, with 100 as with 4000), and the first targets end early.
CONCURRENCY = 250
# Starts per virtual second and guest: as many as one core can answer while the servers' queues stay short.
RATE_PER_S = 500.0
# In real time the machine's own slowness would be measured: a fifth of what it can.
REAL_RATE_PER_S = 100.0


def resolved(options: ProbeOptions, progress: Progress) -> ProbeOptions:
    """Return the options with the backend that will be used; a notice names it and says why.

    Errors: `BadInput`; `Missing` where the servers lack a package, before a kernel is built for them.
    """
    try:
        import_module("h2")
    except ModuleNotFoundError as error:
        raise missing(error) from error
    backend, why = uml.pick(options.backend)
    progress(Event(0, 0, f"lab: {backend.name} ({why})"))
    return replace(options, backend=backend.name)


def shards_of(
    options: ProbeOptions, targets: list[Target]
) -> tuple[tuple[Vantage, ...], list[Shard], Callable[[Path], None]]:
    """Return the vantages, the shards, one a guest, and what writes truth, worlds and shards into a run's folder.

    Errors: `BadInput`.
    """
    if options.vantages:
        raise BadInput("--lab has its own vantages; leave --vantages out, choose by --region")
    backend = next(backend for backend in uml.BACKENDS if backend.name == options.backend)
    net = _drawn(options, targets, backend)
    vantages = choose(worlds.vantages(net), options.region)
    parts = worlds.shards(net, GUESTS)
    by_host = {target.host: target for target in targets}
    # This internet has no other users: only the servers' queues set the pace.
    pace = RATE_PER_S if backend.virtual_time else REAL_RATE_PER_S
    shards = []
    for n, hosts in enumerate(parts):
        if hosts:
            shard = shard_of(options, f"lab-{n}", tuple(by_host[host] for host in hosts), vantages)
            # A rate that was asked for is that of the whole run.
            rate = shard.rate / sum(map(bool, parts)) or pace
            shards.append(replace(shard, rate=rate, concurrency=CONCURRENCY))
    return vantages, shards, partial(_write_inputs, net, shards)


def _drawn(options: ProbeOptions, targets: list[Target], backend: uml.Backend) -> internet.Internet:
    """Return the internet of that seed, a site a target name; without distances where the backend has no delays."""
    if any(target.address or target.port != 80 or target.path != "/" for target in targets):
        raise BadInput("--lab probes names only, without ports, paths or addresses: it makes a site of each")
    impaired = options.lab_loss or options.lab_reorder or options.lab_duplicate
    if (options.lab_troubles or impaired) and not backend.delays:
        raise BadInput(
            f"troubles, loss, reordering and duplicates need queues that {options.backend} has not; choose uml-virtual"
        )
    regions = internet.REGIONS
    return internet.draw(
        options.seed,
        sorted({target.host for target in targets}),
        regions if backend.delays else tuple(replace(region, rtt_ms=0) for region in regions),
        impairments=options.lab_troubles,
        loss_percent=options.lab_loss,
        reorder_percent=options.lab_reorder,
        duplicate_percent=options.lab_duplicate,
        versions=options.versions,
    )


def _write_inputs(net: internet.Internet, shards: list[Shard], folder: Path) -> None:
    (folder / "truth.json").write_text(truth.to_json(net))
    for shard in shards:
        world = folder / shard.name / WORLD
        world.parent.mkdir(parents=True, exist_ok=True)
        worlds.world(net, [target.host for target in shard.targets]).write(world)
        (folder / shard.name / SHARD).write_text(shard.to_json())


def perform_lab(options: ProbeOptions, shards: list[Shard], folder: Path, tally: RunTally, progress: Progress) -> None:
    """Raise the internet, have it probed, and store the results as they come."""
    backend, _ = uml.pick(options.backend)
    if isinstance(backend, uml.UmlVirtual):
        ensure_kernel(lambda text: progress(Event(0, 0, text)))
    folders = [folder / shard.name for shard in shards]
    run_shards(
        folders,
        lambda number: backend.boot(job_of(folders[number], number, options.seed)),
        uml.Running.kill,
        lambda number, guest: _check(guest, folders[number]),
        tally,
        time.monotonic() + options.max_runtime_s if options.max_runtime_s else inf,
    )


def job_of(folder: Path, number: int, seed: int) -> uml.GuestJob:
    """Return the job of a guest for the shard whose world and orders lie in that folder of the run's."""
    command = (
        sys.executable, "-m", "configtron.lab.internet.guest", f"{uml.GUEST_OUTPUT}/{WORLD}", "--",
        sys.executable, "-m", "configtron.probe.wire.worker", uml.GUEST_OUTPUT,
    )  # fmt: skip
    cores = sorted(os.sched_getaffinity(0))
    core = cores[number % len(cores)]
    return uml.GuestJob(command, folder, seed, core, MEMORY_MB, hidden=folder.parents[1])


def _check(guest: uml.Running, folder: Path) -> None:
    """Raise an error with a failed guest's last lines."""
    code = guest.poll()
    if code == DONE:
        return
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code == UNWRITTEN:
        raise Unwritten(f"{folder}: no space left for the lab's packets; make room, then go on by --resume")
    lines = guest.console.read_text(errors="replace").split("\n")[-LAST_LINES:]
    words = " | ".join(line for line in (*lines, *guest.last_words().split("\n")) if line)
    raise ConfigtronError(f"lab guest {folder.name} ended with exit code {code}: {words}; see {folder}")
