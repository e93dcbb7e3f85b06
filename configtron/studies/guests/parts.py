# SPDX-License-Identifier: MIT
"""Parts of a study in guests: each a boot, each in a folder of its own, done again only if it is not whole.

    done = parts.performed(arguments, [Part("cubic-4", "configtron.studies.flows.flows", canonical({"path": 4}))])

In the guest the worker (`arguments.worker`, a module that knows the drivers) imports the part's module and calls

    perform(orders: str, folder: Path, means: Means) -> str

whose text becomes the part's result, written whole or not at all; large things (captures) it writes into `folder`
itself. The same part under the same seed gives the same text. A killed study loses the parts that were under way, one
a job: a guest ends with its owner, and a result is renamed into place when it is complete. What a part ran on lies
beside it and is reported (`arguments.used`), since a study that was resumed may have parts of several kernels.

Fails as   a part's own words in `PartResult.why`; what every part needs and is not there (root, a program) ends the
           study.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from configtron.lab.testbed import measure
from configtron.lab.testbed.shard import Programs
from configtron.lab.testbed.stack import Loader
from configtron.model.errors import BadInput, cannot_write
from configtron.model.records import canonical
from configtron.studies.guests.part_boot import ORDERS_FILE, RESULT_FILE, BootedPart, boot
from configtron.studies.registry.kinds import Arguments, PartsProgress

# Names that modules had when parts were stored by version 0.1.0: those parts are still complete.
EARLIER_MODULES = {
    "configtron.studies.flows.throttle": "configtron.lab.bed.throttle",
    "configtron.studies.guests.captured": "configtron.lab.bed.evaluate.captured",
}
# How often guests are looked after; a part takes seconds.
LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class Part:
    """One boot. name: a word, its folder is called after it; module: whose `perform` the guest calls; orders: JSON.

    as_good  another module whose text is the same, beside which it leaves more
    lists    the orders are a list with a line of text for each: a longer stored list that begins so is as good
    """

    name: str
    module: str
    orders: str
    as_good: str = ""
    lists: bool = False

    def to_json(self, seed: int) -> str:
        """Return the orders for the guest, JSON."""
        return canonical({"module": self.module, "orders": self.orders, "seed": seed})


class Means(NamedTuple):
    """What a part has in its guest: the drivers, built programs, the study's seed."""

    load: Loader
    programs: Programs
    seed: int


class PartResult(NamedTuple):
    """A part that ended: its text and its folder, or why there is no text."""

    part: Part
    folder: Path
    text: str
    why: str = ""


def performed(arguments: Arguments, wanted: Sequence[Part]) -> list[PartResult]:
    """All of these, in their order. Errors: `Missing` for what no part can do without; else it is a part's `why`."""
    if len({part.name for part in wanted}) < len(wanted):
        raise BadInput("two parts of a study have one name")
    found = {part.name: PartResult(part, arguments.folder / part.name, kept(arguments, part)) for part in wanted}
    waiting = [part for part in wanted if not found[part.name].text]
    arguments.progress(PartsProgress(len(wanted) - len(waiting), len(wanted)))
    run = _run_on_cluster if arguments.cluster else _run_here
    for ended in run(arguments, waiting) if waiting else ():
        found[ended.part.name] = ended
        left = sum(not (one.text or one.why) for one in found.values())
        arguments.progress(PartsProgress(len(wanted) - left, len(wanted), ended.part.name))
    for one in found.values():
        if one.text:
            arguments.used(measure.software_of(one.folder / measure.SOFTWARE))
    return [found[part.name] for part in wanted]


def kept(arguments: Arguments, part: Part) -> str:
    """What this part found in an earlier run with the same orders and seed; "" if that is not there whole."""
    folder = arguments.folder / part.name
    try:
        if not _answers((folder / ORDERS_FILE).read_text(), arguments.seed, part):
            return ""
        text = (folder / RESULT_FILE).read_text()
    except (OSError, UnicodeDecodeError):
        return ""
    return "".join(text.splitlines(keepends=True)[: len(json.loads(part.orders))]) if part.lists else text


def _answers(stored: str, seed: int, part: Part) -> bool:
    """Whether a part that was stored with these orders answers this one."""
    try:
        form = json.loads(stored)
        module, orders, other = str(form["module"]), str(form["orders"]), form["seed"]
    except (ValueError, KeyError, TypeError):
        return False
    modules = {part.module, part.as_good, EARLIER_MODULES.get(part.module)}
    begins = part.lists and orders.startswith(f"{part.orders[:-1]},")
    return other == seed and module in modules and (orders == part.orders or begins)


def _run_here(arguments: Arguments, parts: Sequence[Part]) -> Iterator[PartResult]:
    guests = measure.guests(arguments.worker)
    waiting, running = list(reversed(parts)), list[tuple[Part, BootedPart]]()
    try:
        while waiting or running:
            while waiting and len(running) < arguments.jobs:
                part = waiting.pop()
                booted = boot(arguments.folder / part.name, part.to_json(arguments.seed), arguments.seed, guests)
                running.append((part, booted))
            for one in [one for one in running if one[1].running.poll() is not None]:
                running.remove(one)
                yield _result(one[0], one[1].folder, *one[1].result())
            time.sleep(LOOK_EVERY_S)
    finally:
        for _, booted in running:
            booted.close()


def _run_on_cluster(arguments: Arguments, parts: Sequence[Part]) -> Iterator[PartResult]:
    # a guest imports this module too, and needs no cluster
    from configtron.studies.guests.on_cluster import run_on_cluster, write_folder

    by_name = {part.name: part for part in parts}
    orders = {part.name: part.to_json(arguments.seed) for part in parts}
    for name, done in run_on_cluster(arguments.cluster, orders, arguments.seed, arguments.worker):
        folder = arguments.folder / name
        try:
            write_folder(folder, done.files)
        except OSError as error:
            raise cannot_write(folder, error) from error
        yield _result(by_name[name], folder, "" if done.why else (folder / RESULT_FILE).read_text(), done.why)


def _result(part: Part, folder: Path, text: str, why: str) -> PartResult:
    return PartResult(part, folder, text, f"{why}; see {folder}" if why and folder.exists() else why)


def perform(folder: Path, load: Loader, programs: Programs) -> None:
    """In the guest: do the part that this folder has orders for. Errors: `BadInput`, those of the part."""
    try:
        form = json.loads((folder / ORDERS_FILE).read_text())
        module, orders, seed = str(form["module"]), str(form["orders"]), int(form["seed"])
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(f"{folder / ORDERS_FILE}: not a part's orders: {error}") from error
    perform_part: Callable[[str, Path, Means], str] = import_module(module).perform
    text = perform_part(orders, folder, Means(load, programs, seed))
    begun = folder / f"{RESULT_FILE}.begun"
    begun.write_text(text)
    begun.rename(folder / RESULT_FILE)
