# SPDX-License-Identifier: MIT
"""Targets, vantages, the blocklist and the shard of a run: files are opened here and parsed by `configtron.probe`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_address
from itertools import chain
from pathlib import Path

from configtron import __version__
from configtron.model.bounds import check_text
from configtron.model.errors import BadInput
from configtron.model.nouns import Target, Vantage
from configtron.probe import profiles, targets
from configtron.probe.blocklist import Blocklist
from configtron.probe.target_session import CRAFTED_RUNS
from configtron.probe.targets import Source
from configtron.probe.vantages import HERE, choose, read_vantages
from configtron.probe.wire import packet_template
from configtron.probe.wire.shard import Shard
from configtron.probe.wire.sourceports import PORTS
from configtron.service.campaign.run_options import ProbeOptions
from configtron.service.lists import bundled, list_source

# RFC 9110 10.1.5: the software that sends the request; the contact follows.
AGENT = f"configtron/{__version__}"
# Characters of a file of targets that are read at once.
PART = 1 << 20


def source_of(path: Path) -> Source:
    """Return the text of a file; "-" is stdin. Errors: `BadInput`."""
    check_text("file", path)
    with _readable(path):
        return Source("stdin", sys.stdin.read()) if str(path) == "-" else Source(str(path), path.read_text("utf-8"))


def read_template(path: Path) -> str:
    """Return the packets of a template file (`probe/craft.py`) as options take them. Errors: `BadInput`."""
    return packet_template.read_template(source_of(path).text, str(path))


def targets_of(options: ProbeOptions) -> Iterator[Target]:
    """Yield the targets of this shard in the order of the lists, cut to `max_targets` and, in the lab, `sites`."""
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
    """Yield a file in parts of whole lines; "-" is stdin."""
    name, line = "stdin" if str(path) == "-" else str(path), 1
    with _readable(path), sys.stdin if str(path) == "-" else path.open(encoding="utf-8") as file:
        while lines := file.readlines(PART):
            yield Source(name, "".join(lines), line)
            line += len(lines)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 text, at byte {error.start}") from error


def calls_each(options: ProbeOptions) -> int:
    """Return about how many connections a run makes to each target."""
    if options.crafted:
        return CRAFTED_RUNS
    rows = profiles.plan(options.profile, frozenset(options.tests or profiles.TESTS))
    return 1 + len(rows.held) + len(rows.clear) + len(rows.secure)


def allowed_of(options: ProbeOptions) -> list[Source]:
    """Return the allowlists: nothing else may be probed, special-purpose ranges in them may; empty without one."""
    named = [Source("--allow", "\n".join(options.allow))] if options.allow else []
    return [*(source_of(path) for path in options.allowlist_files), *named]


def blocklist_of(options: ProbeOptions) -> Blocklist:
    """Return the addresses not to probe. The lab's servers have special-purpose addresses, so a lab run allows them."""
    allowed = allowed_of(options) or None
    blocked = [source_of(path) for path in (*options.blocklist_files, *options.opt_out_files)]
    return Blocklist(blocked, allowed=allowed, special=not options.lab)


def vantages_of(options: ProbeOptions) -> tuple[Vantage, ...]:
    """Return the vantages of a run outside the lab, the baseline first. Errors: `BadInput`."""
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


def shard_of(options: ProbeOptions, name: str, targets: tuple[Target, ...], vantages: tuple[Vantage, ...]) -> Shard:
    """Return the shard of that name with these targets and vantages."""
    blocked = tuple(source_of(path) for path in (*options.blocklist_files, *options.opt_out_files))
    return Shard(
        name=name,
        targets=targets,
        vantages=vantages,
        tests=tuple(sorted(options.tests or profiles.TESTS)),
        profile=options.profile,
        rate=options.rate_per_s,
        host_rate=options.host_rate_per_s,
        network_rate=options.network_rate_per_s,
        concurrency=options.concurrency,
        seed=options.seed,
        agent=f"{AGENT} (+{options.contact})" if options.contact else AGENT,
        first_port=PORTS.start,
        last_port=PORTS.stop - 1,
        versions=options.versions,
        special=not options.lab,
        blocked=blocked,
        allowed=tuple(allowed_of(options)) or None,
        crafted=options.crafted,
    )
