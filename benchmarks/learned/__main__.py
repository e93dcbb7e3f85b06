# SPDX-License-Identifier: MIT
"""Learning end to end: captures and an access log become rules of `tune`, checked in first flights on the wire.

    python -m benchmarks.learned [CLIENTS ROUNDS LOADS]      as root; make demo-learn

In the lab's kernel and its virtual time: nginx serves clients in prefixes of their own. Profiles are drawn for
prefixes, round by round, and put in force by `configtron tune`; `fingerprint live` keeps contexts, nginx an access log.
Then `learn import`, `learn run`, `learn export --to-tune`, `tune plan`, `apply`, `verify` and `rollback`, with a visit
of all clients captured before, in between and after: initial windows are read from the first flights. Exit code 1: a
step failed, nothing was learned, or a client got another window than the rules say.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.guest_play import play
from benchmarks.learned.inside import EXPLORED
from benchmarks.tuned.judged import aligned
from benchmarks.tuned.place import UNTOUCHED, Client
from benchmarks.tuned.reading import Flight, flights
from configtron.model.errors import ConfigtronError

# Clients, rounds, loads of each client and round.
USUAL = (16, 12, 8)
LIMIT_S = 3000
VISITS = ("untouched", "in force", "rolled back")


def played(folder: Path, numbers: Sequence[int]) -> dict[str, Any]:
    """Run the tour in a guest, return the contents of its found.json; captures stay in the folder."""
    words = tuple(map(str, numbers))
    return play(folder, "benchmarks.learned.inside", words, columns=120, limit_s=LIMIT_S, memory_mb=1024)


def wanted(found: dict[str, Any]) -> dict[str, int]:
    """By client: the initial window that the exported rules give it."""
    windows = {row["profile"]: row["settings"].get("initcwnd", UNTOUCHED[1]) for row in found["profile"]}
    rules = {row["prefix"]: windows[row["profile"]] for row in found["prefix"]}
    return {client.name: rules.get(client.prefix, UNTOUCHED[1]) for client in _clients(found)}


def _clients(found: dict[str, Any]) -> list[Client]:
    return [Client(*row) for row in found["clients"]]


def wrong(found: dict[str, Any], seen: dict[str, dict[str, Flight]]) -> list[str]:
    """Every failed step and wrong window, a line each."""
    bad = [f"exit code {code} of: {command}\n{output}" for command, output, code in found["steps"] if code]
    rules = wanted(found)
    if all(window == UNTOUCHED[1] for window in rules.values()):
        bad.append("nothing was learned: no prefix is to get another initial window")
    for client in _clients(found):
        for visit in VISITS:
            want = rules[client.name] if visit == "in force" else UNTOUCHED[1]
            reading = seen[visit][client.address].reading
            if reading.value != want:
                bad.append(f"{visit}: {client.name} got {reading.text} segments instead of {want}")
    return bad


def table(found: dict[str, Any], seen: dict[str, dict[str, Flight]]) -> str:
    """Initial windows on the wire, client by client."""
    rules, rows = wanted(found), [["client", "prefix", "rtt", "rules", *VISITS]]
    for client in _clients(found):
        read = [seen[visit][client.address].reading.text for visit in VISITS]
        rows.append([client.name, client.prefix, f"{client.rtt_ms} ms", str(rules[client.name]), *read])
    return aligned(rows)


def main(arguments: Sequence[str]) -> int:
    """Play, print, judge."""
    numbers = [int(word) for word in arguments] or USUAL
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        found = played(Path(folder), numbers)
        seen = {visit: flights(Path(folder) / f"{visit}.pcap") for visit in VISITS}
    print(f"\ninitial windows by the first flight on the wire, segments (explored: 10, {', '.join(EXPLORED.values())})")
    print(table(found, seen))
    bad = wrong(found, seen)
    print("\n".join(["", *bad]) if bad else "\nevery step ended well, and the wire shows what was learned")
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ConfigtronError as error:
        print(f"benchmarks.learned: {error}", file=sys.stderr)
        sys.exit(error.code)
