# SPDX-License-Identifier: MIT
"""Provoke the SYN-ACK's signature: one SYN, one answer, farewell. Read in `fingerprint/signature.py` and, for the
options agreed to, in `fingerprint/negotiated_options.py`.
"""

from __future__ import annotations

from configtron.model.nouns import CWR, ECE, SYN, Target
from configtron.probe.script import Offer, Script, Send, handshake, reset, syn_options

# Options that a SYN may offer beside MSS 1460. Servers echo only offered options, so each set shows another part.
# "paper" is the SYN of Table 2, whose receive windows are multiples of 1460 and so were offered no timestamps.
OFFERS = {
    "all": Offer(sack=True, timestamps=True),
    "paper": Offer(wscale=None),
    "sack": Offer(sack=True, wscale=None),
    "timestamps": Offer(timestamps=True, wscale=None),
    "scale": Offer(),
}


def signature(target: Target, agent: str, *, offer: str = "all", ecn: bool = False) -> Script:
    """Offer MSS 1460 and the options of that row of `OFFERS`.

    With `ecn`, ECN set-up too (RFC 3168).
    """
    flags = SYN | (ECE | CWR if ecn else 0)
    opening = yield from handshake(syn_options(**OFFERS[offer]._asdict()), flags=flags)
    if opening.reason:
        return opening.reason
    yield Send(reset(1))
    return "done"
