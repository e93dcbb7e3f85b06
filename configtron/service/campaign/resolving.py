# SPDX-License-Identifier: MIT
"""`probe resolve`: the names of a list as addresses, in a file that `probe run` reads.

    192.0.2.7,a.example,,80               an address: IP, DOMAIN, TAG, PORT
    # ,b.example,,80 dns:nxdomain         why there is none; a comment to every reader but this one
    http://c.example/path                 a page, which has no place in a row: asked for when it is probed

Many questions are under way at once, a name is asked for once however many targets have it, and each answer is a line
as it comes. Begun again with the same file, it asks for what is missing: names without a line, and those that got no
answer (a timeout, a refusal).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TextIO

from configtron.model.bounds import check_number, check_texts
from configtron.model.errors import DONE, NOTHING, cannot_write
from configtron.model.nouns import Target, Vantage
from configtron.probe.hash_set import HashSet
from configtron.probe.target_session import Answer
from configtron.probe.wire.journal import cut_torn_line
from configtron.probe.wire.resolve import AT_ONCE, resolve_stream
from configtron.service.campaign.inputs import blocklist_of, targets_of
from configtron.service.campaign.run_options import ProbeOptions
from configtron.service.progress import Cancelled, Event, Progress, never, unheard

# Reasons that another question would not change.
LASTING = ("dns:nxdomain", "dns:no-address", "blocked")
# Names whose answers are remembered: lists have the ports and pages of a site near each other.
REMEMBERED = 65536
# More would need more open files than a process has.
MOST_AT_ONCE = 500
# Answers that wait this long are written.
WRITE_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class ResolveOptions:
    """targets: words, files, maximum, blocklists and IP versions as of a run; output: the file that grows; resolver:
    "address", "address:port" or "" for the host's own; at_once: questions under way.
    """

    targets: ProbeOptions
    output: Path
    resolver: str = ""
    at_once: int = AT_ONCE

    def __post_init__(self) -> None:
        """Check texts and the number. Errors: `BadInput`."""
        check_texts(self)
        check_number("at_once", self.at_once, 1, MOST_AT_ONCE, whole=True)


class ResolvedNames(NamedTuple):
    """Targets with an address, without one, and with a line from an earlier time."""

    found: int
    missing: int
    known: int

    @property
    def exit_code(self) -> int:
        """Return `NOTHING` where no name has an address."""
        return NOTHING if self.missing and not self.found + self.known else DONE


def resolve_targets(
    options: ResolveOptions, *, progress: Progress = unheard, cancelled: Cancelled = never
) -> ResolvedNames:
    """Add a line for each target that has none. Errors: `BadInput`, `Unwritten`."""
    try:
        cut_torn_line(options.output)
        known = _known(options.output)
        with options.output.open("a", encoding="utf-8") as out:
            lines = _ResolvedLines(options, known, out)
            vantage = Vantage("here", "here", resolver=options.resolver)
            answers = resolve_stream(lines.names(), vantage, versions=options.targets.versions, at_once=options.at_once)
            for name, answer in answers:
                if lines.answered(name, answer):
                    progress(Event(lines.done, 0, f"names into {options.output}"))
                if cancelled():
                    break
            return ResolvedNames(lines.found, lines.missing, lines.known)
    except OSError as error:
        raise cannot_write(options.output, error) from error


class _ResolvedLines:
    """Targets that wait for their names' answers, and the file of their lines."""

    def __init__(self, options: ResolveOptions, known: HashSet, out: TextIO) -> None:
        self._targets, self._blocklist = targets_of(options.targets), blocklist_of(options.targets)
        self._before, self._out = known, out
        self._waiting: dict[str, list[Target]] = {}
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._written_at = time.monotonic()
        self.found = self.missing = self.known = 0

    @property
    def done(self) -> int:
        """Return the targets that have a line now."""
        return self.found + self.missing + self.known

    def names(self) -> Iterator[str]:
        """Yield the names to ask for, each once; write the lines that need no question."""
        for target in self._targets:
            if _digest(_row(target)) in self._before:
                self.known += 1
            elif target.address or target.path != "/":
                self._write(target, Answer((target.address,)))
            elif self._blocklist.host(target.host):
                self._write(target, Answer((), "blocked"))
            elif target.host in self._answers:
                self._write(target, self._answers[target.host])
            elif target.host in self._waiting:
                self._waiting[target.host].append(target)
            else:
                self._waiting[target.host] = [target]
                yield target.host

    def answered(self, name: str, answer: Answer) -> bool:
        """Write the lines of a name; return whether the file was brought up to date."""
        blocked = any(map(self._blocklist.host, answer.aliases))
        self._answers[name] = answer = Answer((), "blocked") if blocked else answer
        if len(self._answers) > REMEMBERED:
            self._answers.popitem(last=False)
        for target in self._waiting.pop(name):
            self._write(target, answer)
        if time.monotonic() < self._written_at + WRITE_EVERY_S:
            return False
        self._out.flush()
        self._written_at = time.monotonic()
        return True

    def _write(self, target: Target, answer: Answer) -> None:
        row = _row(target)
        if answer.addresses:
            self._out.write(f"{answer.addresses[0]}{row}\n" if row.startswith(",") else f"{row}\n")
            self.found += 1
        else:
            self._out.write(f"# {row} {answer.reason or 'dns:no-address'}\n")
            self.missing += 1


def _row(target: Target) -> str:
    """Return a target's line without its address; the whole line of a page or an address."""
    host = "" if target.host == target.address else target.host
    if target.path == "/":
        return f",{host},{target.tag},{target.port}" if host else f"{target.address},,{target.tag},{target.port}"
    name = f"[{target.host}]" if ":" in target.host else target.host
    return f"http://{name}:{target.port}{target.path}"


def _known(path: Path) -> HashSet:
    """Return digests of the targets that need no further question."""
    found = HashSet()
    if not path.exists():
        return found
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            text = line.rstrip("\n")
            if text.startswith("# "):
                row, _, reason = text[2:].rpartition(" ")
                if reason in LASTING:
                    found.add(_digest(row))
                continue
            # a line with an address, and the same target as a list names it
            found.add(_digest(text))
            found.add(_digest("," + text.partition(",")[2]))
    return found


def _digest(row: str) -> int:
    return int.from_bytes(blake2b(row.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
