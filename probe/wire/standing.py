"""Where we stand when nobody says: the source address and the device that the kernel's routes would use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address

from configtron.errors import BadInput, Missing
from configtron.netns import is_absent
from configtron.nouns import Target, Vantage
from configtron.probe.wire.namespaces import ip

# Addresses for documentation (RFC 5737, RFC 3849): asked of the routing table, never of the network.
ELSEWHERE = {4: "192.0.2.1", 6: "2001:db8::1"}


def standing(vantage: Vantage, targets: Sequence[Target], versions: Sequence[int] = (4,)) -> Vantage:
    """The vantage with a source address and an interface; those that it names stay as they are, but are checked.

    Where all targets are given as addresses, the first of them decides (so that a server on this host is met on its
    own device); else the default route does, for each IP version that is asked for.
    """
    if is_absent(vantage.netns):
        raise BadInput(f"vantage {vantage.name!r}: no network namespace {vantage.netns!r}; `ip netns` lists them")
    source = vantage.source_address or vantage.source_address6
    if source and vantage.interface:
        return _checked(vantage)
    literal = [target.address for target in targets]
    version = ip_address(source).version if source else versions[0]
    towards = literal[0] if literal and all(literal) else ELSEWHERE[version]
    if source and ip_address(towards).version != version:
        towards = ELSEWHERE[version]
    route = _route(towards, source, vantage.netns)
    if route is None:
        raise Missing(f"vantage {vantage.name!r}: no route to {towards}; name source_address and interface")
    field = "source_address" if ip_address(towards).version == 4 else "source_address6"
    found = vantage if source else replace(vantage, **{field: route["prefsrc"]})
    for other in (v for v in versions if v != version and not all(literal)):
        # A host without that version has no route, and its targets are told so one by one.
        route_of = _route(ELSEWHERE[other], "", vantage.netns)
        name = "source_address" if other == 4 else "source_address6"
        if route_of is not None and not getattr(found, name):
            found = replace(found, **{name: route_of["prefsrc"]})
    return _checked(replace(found, interface=vantage.interface or route["dev"]))


def _route(towards: str, source: str, netns: str) -> dict[str, str] | None:
    """What the kernel would do from that source; if the source is not the kernel's, from any."""
    for origin in (("from", source), ()) if source else ((),):
        try:
            (route,) = json.loads(ip("-j", "route", "get", towards, *origin, netns=netns))
            return {"dev": route["dev"], "prefsrc": route.get("prefsrc", "")}
        except (Missing, ValueError):
            continue
    return None


def _checked(vantage: Vantage) -> Vantage:
    """The vantage, if its device exists."""
    try:
        ip("link", "show", "dev", vantage.interface, netns=vantage.netns)
    except Missing as error:
        raise BadInput(f"vantage {vantage.name!r}: no device {vantage.interface!r}; `ip link` lists them") from error
    return vantage
