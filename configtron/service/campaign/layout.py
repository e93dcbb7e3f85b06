# SPDX-License-Identifier: MIT
"""The layout of a run: its shards, and the targets of shards that name none. A folder keeps it for `--resume`.

The list of shards is written last and renamed into place, so a folder has a whole layout or none. A run that was
killed before that has sent nothing, and its layout is made again from its options.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from shutil import move
from typing import NamedTuple

from configtron.model.errors import BadInput
from configtron.model.nouns import Target, Vantage
from configtron.probe.targets import order
from configtron.probe.wire.listing import Listing, listed, write_listing
from configtron.probe.wire.shard import TARGETS, Shard, shard_from_json
from configtron.probe.wire.vantage_address import checked_vantage
from configtron.service.campaign import lab_run
from configtron.service.campaign.inputs import targets_of, vantages_of
from configtron.service.campaign.run_options import ProbeOptions
from configtron.service.campaign.shards import shard_of

# The shards of a run, within its folder.
SHARDS = "targets.json"
# The shard of a run outside the lab; with several worker processes the first one's.
HERE = "here"


class RunLayout(NamedTuple):
    """Options without open choices, vantages, shards, and the number of targets.

    `listing` is the file of the targets of all shards, or None if the shards name theirs.
    """

    options: ProbeOptions
    vantages: tuple[Vantage, ...]
    shards: list[Shard]
    size: int
    listing: Path | None

    def targets(self) -> Iterator[Target]:
        """Yield the targets in the seed's order."""
        if self.listing is not None:
            return listed(self.listing)
        return iter(order((target for shard in self.shards for target in shard.targets), self.options.seed))


@contextmanager
def layout_of(options: ProbeOptions, place: Path) -> Iterator[RunLayout]:
    """Make the layout; its files are in a temporary folder at `place` until `save_layout`. Errors: `BadInput`."""
    if options.lab:
        targets = order(targets_of(options), options.seed)
        if len(targets) < options.sites and options.shards == 1 and not options.max_targets:
            raise BadInput(f"--sites {options.sites}: the lists have {len(targets)} names; ask for at most so many")
        shards = lab_run.shards_of(options, targets)
        yield RunLayout(options, lab_run.vantages_of(options), shards, len(targets), None)
        return
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="targets-", dir=place) as folder:
        path = Path(folder) / TARGETS
        listing = write_listing(targets_of(options), path, options.seed)
        vantages = vantages_of(options) if options.cluster else local_vantages(options, listing)
        shards = _parted(shard_of(options, HERE, (), vantages), options.jobs)
        yield RunLayout(options, vantages, shards, listing.size, path)


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


def local_vantages(options: ProbeOptions, listing: Listing) -> tuple[Vantage, ...]:
    """Return the vantages; the kernel's routes fill in interfaces and addresses that the options leave open."""
    sample = [listing.sample] if listing.sample is not None else []
    return tuple(checked_vantage(vantage, sample, options.versions) for vantage in vantages_of(options))


def save_layout(layout: RunLayout, folder: Path) -> None:
    """Write everything that a resumed run needs, or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    if layout.listing is not None:
        _deal(layout.listing, [folder / shard.name for shard in layout.shards])
    fresh = folder / f"{SHARDS}.new"
    fresh.write_text(json.dumps({"size": layout.size, "shards": [shard.to_json() for shard in layout.shards]}))
    fresh.rename(folder / SHARDS)


def _deal(listing: Path, folders: list[Path]) -> None:
    """Give each shard its targets: every n-th line of the file, in its order."""
    for folder in folders:
        folder.mkdir(exist_ok=True)
    if len(folders) == 1:
        move(listing, folders[0] / TARGETS)
        return
    with ExitStack() as stack:
        parts = [stack.enter_context((folder / TARGETS).open("wb")) for folder in folders]
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
