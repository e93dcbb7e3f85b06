# SPDX-License-Identifier: MIT
"""`probe run --dry-run`: what would be asked, of whom, from where; nothing is sent and nothing kept."""

from __future__ import annotations

import sys
from typing import TextIO

from configtron.cli.probe import plan
from configtron.cli.probe.kept import Laid
from configtron.model.errors import DONE
from configtron.model.records import Json, canonical


def dry_run(laid: Laid, out: TextIO) -> int:
    """A JSON line a target, the sum of it on stderr."""
    options = laid.options
    blocklist = plan.blocklist_of(options)
    blocked = 0
    for target in laid.targets():
        why = blocklist.host(target.host) or (blocklist.address(target.address) if target.address else "")
        blocked += bool(why)
        form: dict[str, Json] = {"host": target.host, "port": target.port, "path": target.path}
        out.write(canonical({**form, "blocked": why} if why else form) + "\n")
    names = ", ".join(vantage.name for vantage in laid.vantages)
    pace = f"at most {options.rate_per_s:g} starts per second" if options.rate_per_s else "no rate limit"
    print(
        f"{laid.size - blocked} of {laid.size} targets would be probed ({blocked} blocked), from {names};"
        f" about {plan.calls_each(options)} connections each, {pace}; nothing was sent",
        file=sys.stderr,
    )
    return DONE
