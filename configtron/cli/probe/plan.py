# SPDX-License-Identifier: MIT
"""From options to what is probed: texts are read here, and understood by the pure readers of `configtron.probe`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from importlib.resources import files
from ipaddress import ip_address
from itertools import chain
from pathlib import Path
from typing import Any

from configtron import __version__
from configtron.cli.probe.options import ProbeOptions
from configtron.model.errors import BadInput
from configtron.model.nouns import Target, Vantage
from configtron.model.records import Json, canonical
from configtron.probe import profiles, targets
from configtron.probe.blocklist import Blocklist
from configtron.probe.journey import CRAFTED_RUNS
from configtron.probe.targets import Source
from configtron.probe.vantages import HERE, choose, read_vantages


def bundled() -> dict[str, str]:
    """Names of the bundled lists and what each says of itself in its first comment."""
    folder = files("configtron") / "lists"
    found = {entry.name.removesuffix(".txt"): entry.read_text() for entry in folder.iterdir()}
    return {name: found[name].partition("\n")[0].removeprefix("# ") for name in sorted(found)}


def list_source(name: str) -> Source:
    """The text of a bundled list."""
    entry = files("configtron") / "lists" / f"{name}.txt"
    if "/" in name or not entry.is_file():
        raise BadInput(f"@{name}: no such list; bundled are {', '.join(bundled())}; --input-file reads your own")
    return Source(f"@{name}", entry.read_text())


# Characters of a file of targets that are read at once.
PART = 1 << 20


def source_of(path: Path) -> Source:
    """The text of a file; "-" is stdin."""
    with _clear(path):
        return Source("stdin", sys.stdin.read()) if str(path) == "-" else Source(str(path), path.read_text("utf-8"))


def targets_of(options: ProbeOptions) -> Iterator[Target]:
    """The targets of this shard, in their own order. `--max-targets`, and `--sites` in the lab, cut the list first."""
    most = min((n for n in (options.max_targets, options.sites) if n), default=None)
    found = targets.read(_sources(options), most=most, path=options.path)
    first = next(found, None)
    if first is None:
        raise BadInput("no targets: the lists are empty")
    return targets.shard(chain([first], found), options.shard, options.shards, options.seed)


def _sources(options: ProbeOptions) -> Iterator[Source]:
    known = bundled()
    for word in options.words:
        yield list_source(word.removeprefix("@")) if word.startswith("@") or word in known else Source("", word)
    for path in options.input_files:
        yield from _parts(path)


def _parts(path: Path) -> Iterator[Source]:
    """A file part by part, whole lines each; "-" is stdin."""
    name, line = "stdin" if str(path) == "-" else str(path), 1
    with _clear(path), sys.stdin if str(path) == "-" else path.open(encoding="utf-8") as file:
        while lines := file.readlines(PART):
            yield Source(name, "".join(lines), line)
            line += len(lines)


@contextmanager
def _clear(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 text, at byte {error.start}") from error


def calls_each(options: ProbeOptions) -> int:
    """About how many connections a target will see."""
    if options.crafted:
        return CRAFTED_RUNS
    rows = profiles.plan(options.profile, frozenset(options.tests or profiles.TESTS))
    return 1 + len(rows.held) + len(rows.clear) + len(rows.secure)


def allowed_of(options: ProbeOptions) -> list[Source]:
    """What may be probed and nothing else, special-purpose ranges among it; none if nobody named any."""
    named = [Source("--allow", "\n".join(options.allow))] if options.allow else []
    return [*(source_of(path) for path in options.allowlist_files), *named]


def blocklist_of(options: ProbeOptions) -> Blocklist:
    """What must not be probed. In the lab, addresses for special purposes are all there is."""
    allowed = allowed_of(options) or None
    blocked = [source_of(path) for path in (*options.blocklist_files, *options.opt_out_files)]
    return Blocklist(blocked, allowed=allowed, special=not options.lab)


def vantages_of(options: ProbeOptions) -> tuple[Vantage, ...]:
    """Where to look from."""
    found = read_vantages(source_of(options.vantages)) if options.vantages else (HERE,)
    chosen = choose(found, options.region)
    if options.interface:
        chosen = tuple(replace(vantage, interface=options.interface) for vantage in chosen)
    if options.source_ip:
        try:
            field = "source_address" if ip_address(options.source_ip).version == 4 else "source_address6"
        except ValueError as error:
            raise BadInput(f"--source-ip: {error}") from error
        chosen = tuple(replace(vantage, **{field: options.source_ip}) for vantage in chosen)
    return chosen


def run_config(options: ProbeOptions, vantages: tuple[Vantage, ...], **more: str) -> str:
    """The whole configuration of a run, as the store keeps it. `more` is what else is worth knowing, as text."""
    given = {name: _plain(value) for name, value in asdict(options).items()}
    places: list[Json] = [dict(asdict(vantage)) for vantage in vantages]
    return canonical({"version": __version__, "options": given, "vantages": places, **more})


def options_of(config: str) -> ProbeOptions:
    """The options that `run_config` wrote."""
    given = json.loads(config)["options"]
    kinds = {field.name: str(field.type) for field in fields(ProbeOptions)}
    return ProbeOptions(**{name: _typed(value, kinds[name]) for name, value in given.items() if name in kinds})


def _typed(value: Json, kind: str) -> Any:
    if isinstance(value, list):
        return tuple(Path(str(item)) if "Path" in kind else item for item in value)
    return Path(value) if "Path" in kind and isinstance(value, str) else value


def _plain(value: object) -> Json:
    if isinstance(value, tuple):
        return [item if isinstance(item, int | float) else str(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
