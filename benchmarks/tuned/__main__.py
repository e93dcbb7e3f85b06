# SPDX-License-Identifier: MIT
"""Claim: each driver gives every client what the rules say, and its rollback leaves nothing of it.

    python -m benchmarks.tuned [PAGE.html] [DRIVER...]      as root; make demo-tune, with a page and all drivers

In the lab's kernel and its virtual time, nginx serves clients of five prefixes behind one gateway. Each driver in turn:
`configtron tune plan`, `apply`, a visit of all clients captured at the server, `verify`, `rollback`, another visit. The
first flights are read from the captures, the congestion control from `ss -ti`; what is left behind is the difference of
two snapshots of routes, rules, queues, sysctls, BPF objects, pins, groups, modules, devices and processes. Beside them
stands a choice by gateway. Exit code 1: anything differs from what was wanted.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.guest_play import play
from benchmarks.tuned.inside import AFTER, UNTOUCHED
from benchmarks.tuned.judged import aligned, by_gateway, by_prefix, scenes, sights, subjects, table, wrong
from benchmarks.tuned.page import Sights, TunedPage, page
from configtron.model.errors import INTERRUPTED, USAGE, ConfigtronError
from configtron.tune.drivers import DRIVERS as KNOWN
from tests.support import guest_module

# Those that distinguish prefixes, best first.
DRIVERS = tuple(name for name in ("kmod", "ebpf", "route") if name in KNOWN)
# Of real time; a minute of virtual time takes some ten seconds of it.
LIMIT_S = 600


def played(folder: Path, drivers: Sequence[str]) -> dict[str, Any]:
    """Play all scenes in a guest, come back with what was written down; captures stay in the folder."""
    if "kmod" in drivers:
        guest_module.build(folder)
    return play(folder, "benchmarks.tuned.inside", drivers, columns=100, limit_s=LIMIT_S)


def main(arguments: Sequence[str]) -> int:
    """Play, print, draw, judge."""
    pages = [word for word in arguments if word.endswith(".html")]
    drivers = [word for word in arguments if word not in pages] or list(DRIVERS)
    if unknown := sorted(set(drivers) - set(DRIVERS)):
        print(f"no driver {unknown[0]!r} here; there is: {', '.join(DRIVERS)}", file=sys.stderr)
        return USAGE
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        found = played(Path(folder), drivers)
        seen = sights(found, Path(folder))
    bad = report(found, seen)
    for path in pages:
        Path(path).write_text(drawn(found, seen, bad), encoding="utf-8")
        print(f"\npage: {path}")
    print("\n".join(["", *bad]) if bad else "\neverything as wanted, nothing left behind")
    return 1 if bad else 0


def report(found: dict[str, Any], seen: Sights) -> list[str]:
    """Print what was seen and left; what is wrong with it."""
    for scene in found["scenes"]:
        print(f"{scene['name']}: " + ("; ".join(scene["left"]) or "nothing left behind"))
    print("\ncongestion control (ss -ti) and initial window (first flight on the wire), segments")
    print(table(seen))
    print("\ntwo clients behind one gateway: by prefix, and by a choice for the gateway")
    print(aligned(by_gateway(found, seen)))
    return wrong(found, seen)


def drawn(found: dict[str, Any], seen: Sights, bad: Sequence[str]) -> str:
    """The page."""
    drivers = [scene["name"] for scene in found["scenes"]]
    watches = [UNTOUCHED, *drivers, AFTER.format(drivers[-1])]
    lead = f"A server tuned by {', '.join(drivers)}: " + (f"{len(bad)} differences" if bad else "all as wanted")
    return page(TunedPage(lead, subjects(), watches, by_prefix(seen), scenes(found), by_gateway(found, seen)))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("benchmarks.tuned: interrupted; the guest is ended, nothing is left behind", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except ConfigtronError as error:
        print(f"benchmarks.tuned: {error}", file=sys.stderr)
        sys.exit(error.code)
