# SPDX-License-Identifier: MIT
"""The layout of a run: its shards, and the targets of shards that name none. A folder keeps it for `--resume`.

The list of shards is written last and renamed into place, so a folder has a whole layout or none. A run that was
killed before that has sent nothing, and its layout is made again from its options.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from shutil import move
from typing import NamedTuple

from configtron.model.errors import BadInput
from configtron.model.nouns import Target, Vantage
from configtron.probe.targets import order
from configtron.probe.wire.listing import listed, write_listing
from configtron.probe.wire.shard import TARGETS, Shard, shard_from_json
from configtron.probe.wire.vantage_address import checked_vantage
from configtron.service.campaign.inputs import shard_of, targets_of, vantages_of
from configtron.service.campaign.run_options import ProbeOptions

# The shards of a run, within its folder.
SHARDS = "targets.json"
# The shard of a run outside the lab; with several worker processes the first one's.
HERE = "here"


class RunLayout(NamedTuple):
    """Vantages, shards, the number of targets, the targets in the seed's order, and what writes the shards' inputs."""

    vantages: tuple[Vantage, ...]
    shards: list[Shard]
    size: int
    targets: Callable[[], Iterator[Target]]
    write_inputs: Callable[[Path], None]

    def save(self, folder: Path) -> None:
        """Write everything that a resumed run needs, or nothing."""
        folder.mkdir(parents=True, exist_ok=True)
        self.write_inputs(folder)
        fresh = folder / f"{SHARDS}.new"
        fresh.write_text(json.dumps({"size": self.size, "shards": [shard.to_json() for shard in self.shards]}))
        fresh.rename(folder / SHARDS)


@contextmanager
def layout_of(options: ProbeOptions, place: Path) -> Iterator[RunLayout]:
    """Make the layout; its files are in a temporary folder at `place` until it is saved. Errors: `BadInput`."""
    if options.lab:
        from configtron.service.campaign import lab_run

        targets = order(targets_of(options), options.seed)
        if len(targets) < options.sites and options.shards == 1 and not options.max_targets:
            raise BadInput(f"--sites {options.sites}: the lists have {len(targets)} names; ask for at most so many")
        vantages, shards, write_inputs = lab_run.shards_of(options, targets)
        yield RunLayout(vantages, shards, len(targets), lambda: iter(targets), write_inputs)
        return
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="targets-", dir=place) as temporary:
        path = Path(temporary) / TARGETS
        listing = write_listing(targets_of(options), path, options.seed)
        vantages = vantages_of(options)
        if not options.cluster:
            # The kernel's routes fill in interfaces and addresses that the options leave open.
            sample = [listing.sample] if listing.sample is not None else []
            vantages = tuple(checked_vantage(vantage, sample, options.versions) for vantage in vantages)
        shards = _parted(shard_of(options, HERE, (), vantages), options.jobs)
        names = [shard.name for shard in shards]
        yield RunLayout(vantages, shards, listing.size, lambda: listed(path), lambda folder: _deal(path, folder, names))


def _parted(shard: Shard, jobs: int) -> list[Shard]:
    """Return the shard of each worker process: its name, its source ports, its part of the concurrency."""
    each = (shard.last_port + 1 - shard.first_port) // jobs
    return [
        replace(
            shard,
            name=f"{HERE}-{n + 1}" if n else HERE,
            first_port=shard.first_port + n * each,
            last_port=shard.first_port + (n + 1) * each - 1,
            concurrency=-(-shard.concurrency // jobs),
        )
        for n in range(jobs)
    ]


def _deal(listing: Path, folder: Path, names: Sequence[str]) -> None:
    """Give each shard its targets: every n-th line of the file, in its order."""
    for name in names:
        (folder / name).mkdir(exist_ok=True)
    if len(names) == 1:
        move(listing, folder / names[0] / TARGETS)
        return
    with ExitStack() as stack:
        parts = [stack.enter_context((folder / name / TARGETS).open("wb")) for name in names]
        for part, line in zip(cycle(parts), stack.enter_context(listing.open("rb")), strict=False):
            part.write(line)


def load_layout(folder: Path, number: int) -> tuple[list[Shard], int]:
    """Return the shards of a run and its number of targets; ([], 0) where none were saved. Errors: `BadInput`."""
    try:
        form = json.loads((folder / SHARDS).read_text())
        return [shard_from_json(text) for text in form["shards"]], int(form["size"])
    except FileNotFoundError:
        return [], 0
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"run {number}: {folder / SHARDS} cannot be read ({error}); begin a new run") from error
