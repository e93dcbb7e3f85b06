# SPDX-License-Identifier: MIT
"""Two clocks of one path: how far the receiver's is ahead, out of the packets of both directions. Pure.

Question   What is a one-way delay, when the two ends stamp with clocks of their own?
Method     A receiver that is ahead by t makes every packet to it late by t more, every packet from it by t less. The
           least delay of each direction is the one that met no queue; half the difference of the two is t.
Fails as   `Mismatch` where a direction has no packet that arrived.
Differs    where propagation is not the same both ways: then the estimate is off by half the difference, which no
           exchange of packets can show. Pantheon asks NTP servers, which has the same limit.
Source     Mills, RFC 5905, section 8; Pantheon (Yan and others 2018), section 3.2
"""

from __future__ import annotations

import numpy as np

from configtron.lab.testbed.transits import Transits
from configtron.model.errors import Mismatch


def ahead_ns(forward: Transits, back: Transits) -> int:
    """Return by how much the clock that `forward` arrives on, and `back` is sent on, is ahead. Errors: `Mismatch`."""
    return round((_least(forward) - _least(back)) / 2)


def corrected(forward: Transits, ahead: int) -> Transits:
    """Return a flow's packets with their arrivals on the sender's clock."""
    return forward._replace(arrived_ns=np.where(forward.arrived, forward.arrived_ns - ahead, -1))


def _least(found: Transits) -> int:
    if not found.arrived.any():
        raise Mismatch("no packet arrived in one direction: the clocks' difference cannot be known")
    return int((found.arrived_ns - found.sent_ns)[found.arrived].min())
