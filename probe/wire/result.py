# SPDX-License-Identifier: MIT
"""A finished trace as a result: its readings, its target, the place of its packets.

Live calls (`recorder.py`) and recordings played again (`replay.py`) become results here, and nowhere else.
"""

from __future__ import annotations

from configtron.fingerprint import read
from configtron.model.nouns import Observation, Target, Trace
from configtron.model.records import Result
from configtron.probe.provider import provider
from configtron.probe.wire.certificate import identity
from configtron.probe.wire.pcap import TraceLocation


def result_of(trace: Trace, place: TraceLocation, origin: Target) -> Result:
    """All that the trace says. `origin` is the target as the run knows it; the trace may have been led elsewhere."""
    return Result(
        trace.id, trace.vantage, named(trace.target, origin), trace.probe, trace.params, trace.started_at,
        trace.ending, trace.tainted, place.file, place.offset, place.end,
        place.first_frame, place.frames, (*read(trace), *_provider(trace, origin)),
    )  # fmt: skip


def named(target: Target, origin: Target) -> Target:
    """Return the probed target, under its name in the run."""
    return Target(origin.host, target.address, origin.port, target.path, target.provider, origin.tag)


def _provider(trace: Trace, origin: Target) -> tuple[Observation, ...]:
    """Return the provider of the site, from a trace with a certificate."""
    if trace.session is None or not trace.session.certificate:
        return ()
    details = identity(trace.session.certificate)
    named = str(dict(details).get("organisation", ""))
    method = "certificate organisation" if named else "registered domain"
    name = provider(origin.host, named)
    return (Observation("provider", name, None, "", method, "C", trace.id, details=details),)
