"""Where we stand when nobody says: the source address and the device that the kernel's routes would use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address

from configtron.errors import BadInput, Missing
from configtron.nouns import Target, Vantage
from configtron.probe.wire.namespaces import ip

# Addresses for documentation (RFC 5737, RFC 3849): asked of the routing table, never of the network.
ELSEWHERE = {4: "192.0.2.1", 6: "2001:db8::1"}


def standing(vantage: Vantage, targets: Sequence[Target]) -> Vantage:
    """The vantage with a source address and an interface; those that it names stay as they are.

    Where all targets are given as addresses, the first of them decides (so that a server on this host is met on its
    own device); else the default route does.
    """
    if vantage.source_address or vantage.source_address6:
        return vantage
    literal = [target.address for target in targets]
    towards = literal[0] if literal and all(literal) else ELSEWHERE[4]
    version = ip_address(towards).version
    try:
        (route,) = json.loads(ip("-j", "route", "get", towards, netns=vantage.netns))
    except (Missing, BadInput, ValueError) as error:
        raise Missing(f"vantage {vantage.name!r}: no route to {towards}; name --source-ip and --interface") from error
    field = "source_address" if version == 4 else "source_address6"
    return replace(vantage, **{field: route["prefsrc"], "interface": vantage.interface or route["dev"]})
