# SPDX-License-Identifier: MIT
"""`probe run --dry-run`: show the targets of a run; nothing is sent, and nothing stored."""

from __future__ import annotations

import sys

from configtron.cli.probe.run_report import RunDisplay
from configtron.model.errors import DONE
from configtron.model.records import Json, canonical
from configtron.report.lines import opened
from configtron.service import campaign
from configtron.service.campaign import ProbeOptions


def dry_run(options: ProbeOptions) -> int:
    """Write a JSON line a target, and the sum of them on stderr."""
    with campaign.planned(options, RunDisplay(None)) as layout, opened(options.output_file) as out:
        options = layout.options
        blocklist = campaign.blocklist_of(options)
        blocked = 0
        for target in layout.targets():
            why = blocklist.host(target.host) or (blocklist.address(target.address) if target.address else "")
            blocked += bool(why)
            form: dict[str, Json] = {"host": target.host, "port": target.port, "path": target.path}
            out.write(canonical({**form, "blocked": why} if why else form) + "\n")
        names = ", ".join(vantage.name for vantage in layout.vantages)
        pace = f"at most {options.rate_per_s:g} starts per second" if options.rate_per_s else "no rate limit"
        print(
            f"{layout.size - blocked} of {layout.size} targets would be probed ({blocked} blocked), from {names};"
            f" about {campaign.calls_each(options)} connections each, {pace}; nothing was sent",
            file=sys.stderr,
        )
    return DONE
