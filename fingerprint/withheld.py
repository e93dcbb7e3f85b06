# SPDX-License-Identifier: MIT
"""The flight that a server sends while its client withholds every ACK, and the packet that ended it.

Rules for this file: pure, total; it finds the packets of the flight, `window_proofs.py` judges its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from configtron.fingerprint.stream import Flight, Handshake
from configtron.model.nouns import OPT_SACK_PERMITTED, SYN, Packet


class WithheldFlight(NamedTuple):
    """The flight that came while every ACK was withheld, why it ended, and the packet (index) that ended it."""

    flight: Flight
    stop: str
    at: int


def hold(packets: Sequence[Packet], opening: Handshake, start: int = 0, base: int = 1) -> WithheldFlight:
    """Return the flight that answers our packets from `start` on; its first byte is `base`."""
    flight = Flight(opening.rtt_s, base)
    sack = sack_agreed(packets, opening)
    for i in range(start, len(packets)):
        packet = packets[i]
        if packet.at > flight.probed_at:
            return WithheldFlight(flight, "edge", i)
        if packet.way == "out":
            if packet.segment.ack > base and flight.pieces:
                return WithheldFlight(flight, "edge" if flight.lone is not None else "quiet", i)
            if packet.segment.length:
                flight.ask(packet)
            continue
        if packet.segment.flags & SYN:
            continue
        kind = flight.hear(packet)
        if kind in ("rto", "last", "rst"):
            return WithheldFlight(flight, kind, i)
        if kind == "late" and sack:
            flight.suspect(packet)
        elif kind == "late":
            flight.extend(packet)
    return WithheldFlight(flight, "edge" if flight.lone is not None else "silence", len(packets))


def sack_offered(packets: Sequence[Packet], opening: Handshake) -> bool:
    """Return whether we offered SACK."""
    return bool(opening.syns) and packets[opening.syns[0]].segment.option(OPT_SACK_PERMITTED) is not None


def sack_agreed(packets: Sequence[Packet], opening: Handshake) -> bool:
    """Return whether both sides offered SACK."""
    theirs = bool(opening.synacks) and packets[opening.synacks[0]].segment.option(OPT_SACK_PERMITTED) is not None
    return theirs and sack_offered(packets, opening)
