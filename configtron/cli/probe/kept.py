# SPDX-License-Identifier: MIT
"""What a run is made from, kept in its folder: its shards, and the targets of those that name none themselves.

All of it or nothing: the list of shards comes last, under a name of its own until it is whole. A run that was killed
before that has asked nobody, and is laid out again from its options.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import move
from typing import NamedTuple

from configtron.cli.probe import plan
from configtron.cli.probe.options import ProbeOptions
from configtron.cli.probe.shards import shard_of
from configtron.model.errors import BadInput
from configtron.model.nouns import Target, Vantage
from configtron.probe.targets import order
from configtron.probe.wire.listing import Listing, listed, write_listing
from configtron.probe.wire.shard import TARGETS, Shard, shard_from_json
from configtron.probe.wire.standing import standing

# The shards of a run, within its folder.
SHARDS = "targets.json"
# The one shard of a run outside the lab.
HERE = "here"


class Laid(NamedTuple):
    """A run laid out: its options with what was left open settled, its vantages, its shards, and how many targets.

    `listing` is the file of the targets of the first shard, or None if the shards name theirs.
    """

    options: ProbeOptions
    vantages: tuple[Vantage, ...]
    shards: list[Shard]
    size: int
    listing: Path | None

    def targets(self) -> Iterator[Target]:
        """The targets in the seed's order."""
        if self.listing is not None:
            return listed(self.listing)
        return iter(order((target for shard in self.shards for target in shard.targets), self.options.seed))


@contextmanager
def laid_out(options: ProbeOptions, place: Path) -> Iterator[Laid]:
    """The run that the options ask for; its files are in a folder of their own at `place` until it is kept."""
    if options.lab:
        from configtron.cli.probe import lab

        targets = order(plan.targets_of(options), options.seed)
        if len(targets) < options.sites and options.shards == 1 and not options.max_targets:
            raise BadInput(f"--sites {options.sites}: the lists have {len(targets)} names; ask for at most so many")
        shards = lab.shards_of(options, targets)
        yield Laid(options, lab.vantages_of(options), shards, len(targets), None)
        return
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="targets-", dir=place) as folder:
        path = Path(folder) / TARGETS
        listing = write_listing(plan.targets_of(options), path, options.seed)
        vantages = standing_of(options, listing)
        yield Laid(options, vantages, [shard_of(options, HERE, (), vantages)], listing.size, path)


def standing_of(options: ProbeOptions, listing: Listing) -> tuple[Vantage, ...]:
    """The vantages, with what the kernel's routes say where the options say nothing."""
    sample = [listing.sample] if listing.sample is not None else []
    return tuple(standing(vantage, sample, options.versions) for vantage in plan.vantages_of(options))


def keep(laid: Laid, folder: Path) -> None:
    """What a resumed run will need, all of it or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    if laid.listing is not None:
        (folder / HERE).mkdir(exist_ok=True)
        move(laid.listing, folder / HERE / TARGETS)
    fresh = folder / f"{SHARDS}.new"
    fresh.write_text(json.dumps({"size": laid.size, "shards": [shard.to_json() for shard in laid.shards]}))
    fresh.rename(folder / SHARDS)


def kept(folder: Path, number: int) -> tuple[list[Shard], int]:
    """The shards of a run and how many targets they have; none if it was killed before it had any."""
    try:
        form = json.loads((folder / SHARDS).read_text())
        return [shard_from_json(text) for text in form["shards"]], int(form["size"])
    except FileNotFoundError:
        return [], 0
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"run {number}: {folder / SHARDS} cannot be read ({error}); begin a new run") from error
