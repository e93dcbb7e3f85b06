# SPDX-License-Identifier: MIT
"""A recording played again: the production script and the production readers on recorded packets.

The script runs in the same player; a carried stream keeps its own TCP, over the recorded wire, and TLS comes from tape
(`tape.py`). A script that says another word than was recorded raises `Diverged`. Nothing here needs a socket, a clock
or a privilege.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from configtron.model.errors import Diverged
from configtron.model.nouns import Target, Trace
from configtron.model.records import Result
from configtron.probe import PROBES
from configtron.probe.play import Recorded, Unsendable, play
from configtron.probe.script import Script, StreamScript
from configtron.probe.wire.pcap import TraceLocation
from configtron.probe.wire.result import result_of
from configtron.probe.wire.stream import StreamLog, carry
from configtron.probe.wire.tape import Tape

# How a trace ends whose packet the kernel refused to send (`flow.py`).
UNSENDABLE = "send-failed:"


def replayed(trace: Trace) -> Trace:
    """Return the trace that the script makes of the recorded packets; equal to the recorded one, or `Diverged` is
    raised."""
    row = PROBES.get(trace.probe)
    if row is None:
        raise Diverged(f"{trace.id}: there is no probe {trace.probe!r} (any more)")
    if not trace.agent:
        raise Diverged(f"{trace.id}: recorded without its User-Agent, by an older configtron; probe again")
    try:
        made = row.script(trace.target, trace.agent, **dict(trace.params))
    except TypeError as error:
        raise Diverged(f"{trace.id}: the script does not take these parameters (any more): {error}") from error
    wire = Recorded(trace.packets, unsendable=trace.ending.startswith(UNSENDABLE))
    log: StreamLog | None = None
    script = cast(Script, made)
    if row.stream:
        script, log = carry(cast(StreamScript, made), trace.target, lambda host, alpn: Tape(trace, wire, host, alpn))
    try:
        packets, ending = play(script, wire)
        wire.finish()
    except Unsendable:
        packets, ending = trace.packets, trace.ending
    except Diverged as parted:
        raise Diverged(f"{trace.id}: {parted}") from None
    again = replace(
        trace,
        packets=packets,
        messages=tuple(log.messages) if log else (),
        session=log.session if log else None,
        ending=ending,
    )
    for name in ("ending", "session", "messages"):
        recorded, made = getattr(trace, name), getattr(again, name)
        if recorded != made:
            raise Diverged(f"{trace.id}: {name}\n  the recording: {recorded!r}\n  the script:    {made!r}")
    return again


def reread(trace: Trace, place: TraceLocation, origin: Target, file: str) -> Result:
    """Return the result of a trace played again. `origin` is the target that the run knew, `file` as results name
    it."""
    again = replayed(trace)
    return result_of(again, replace(place, file=file), origin)
