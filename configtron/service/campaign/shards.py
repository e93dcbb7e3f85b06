# SPDX-License-Identifier: MIT
"""The options of a run as the shards that workers probe."""

from __future__ import annotations

from configtron import __version__
from configtron.model.nouns import Target, Vantage
from configtron.probe.profiles import TESTS
from configtron.probe.targets import Source
from configtron.probe.wire.shard import Shard
from configtron.service.campaign.inputs import allowed_of, source_of
from configtron.service.campaign.run_options import ProbeOptions

# RFC 9110 10.1.5: the software that sends the request; the contact follows.
AGENT = f"configtron/{__version__}"
# Our source ports: above Linux's ephemeral range (32768-60999), so that no other connection of this host is met.
FIRST_PORT, LAST_PORT = 61000, 64999


def shard_of(options: ProbeOptions, name: str, targets: tuple[Target, ...], vantages: tuple[Vantage, ...]) -> Shard:
    """Return the shard of that name with these targets and vantages."""
    blocked = tuple(source_of(path) for path in (*options.blocklist_files, *options.opt_out_files))
    allowed = allowed_of(options)
    return Shard(
        name=name,
        targets=targets,
        vantages=vantages,
        tests=tuple(sorted(options.tests or TESTS)),
        profile=options.profile,
        rate=options.rate_per_s,
        host_rate=options.host_rate_per_s,
        network_rate=options.network_rate_per_s,
        concurrency=options.concurrency,
        seed=options.seed,
        agent=f"{AGENT} (+{options.contact})" if options.contact else AGENT,
        first_port=FIRST_PORT,
        last_port=LAST_PORT,
        versions=options.versions,
        special=not options.lab,
        blocked=tuple(Source(*source) for source in blocked),
        allowed=tuple(Source(*source) for source in allowed) or None,
        crafted=options.crafted,
    )
