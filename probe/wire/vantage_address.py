# SPDX-License-Identifier: MIT
"""The place of a vantage: check the address and device that it names; choose the rest for each target, by the
routes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address

from configtron.linux.netns import is_absent
from configtron.model.errors import BadInput, Missing, Refused
from configtron.model.nouns import Target, Vantage
from configtron.probe.wire.namespaces import ip, is_own
from configtron.probe.wire.routes import is_local, route_to

# Addresses for documentation (RFC 5737, RFC 3849): asked of the routing table, never of the network.
ELSEWHERE = {4: "192.0.2.1", 6: "2001:db8::1"}


def checked_vantage(vantage: Vantage, targets: Sequence[Target], versions: Sequence[int] = (4,)) -> Vantage:
    """Return the vantage, checked. Without an interface it stays without: each target is met by its own (`routes.py`).

    With an interface and no source address, the address is the one that the kernel would send from there.

    Errors: `BadInput` where a namespace or device does not exist, `Refused` where a source address is not this host's,
    `Missing` where no route leads anywhere.
    """
    if is_absent(vantage.netns):
        raise BadInput(f"vantage {vantage.name!r}: no network namespace {vantage.netns!r}; `ip netns` lists them")
    _check_source(vantage)
    sources = {4: vantage.source_address, 6: vantage.source_address6}
    towards = [(target.address, sources[ip_address(target.address).version]) for target in targets if target.address]
    towards += [(ELSEWHERE[version], sources[version]) for version in versions]
    if vantage.interface:
        return _by_interface(_checked(vantage), [address for address, _ in towards])
    if not any(route_to(address, netns=vantage.netns, source=source) for address, source in towards):
        raise Missing(_no_route_text(vantage, towards[0][0]))
    return vantage


def _no_route_text(vantage: Vantage, address: str) -> str:
    place = f"network namespace {vantage.netns!r}" if vantage.netns else "this host"
    what = "default route" if address in ELSEWHERE.values() else f"route to {address}"
    remedy = "`ip route add default via GATEWAY` adds one; without the Internet, probe the lab: --lab"
    return f"vantage {vantage.name!r}: {place} has no {what}; {remedy}"


def _by_interface(vantage: Vantage, towards: Sequence[str]) -> Vantage:
    """With the addresses that the kernel would send from by that interface, where the vantage names none."""
    if vantage.source_address or vantage.source_address6:
        return vantage
    for address in towards:
        route = route_to(address, netns=vantage.netns, interface=vantage.interface)
        name = "source_address" if ip_address(address).version == 4 else "source_address6"
        if route is not None and route.source and not getattr(vantage, name):
            vantage = replace(vantage, **{name: route.source})
    if not (vantage.source_address or vantage.source_address6):
        raise Missing(
            f"vantage {vantage.name!r}: no route to {towards[0]} by {vantage.interface}; name another interface"
        )
    return vantage


def _check_source(vantage: Vantage) -> None:
    """Answers to an address that is not ours would go to another host. In a namespace that configtron made, no kernel
    owns the source address."""
    for address in (vantage.source_address, vantage.source_address6):
        if address and not is_own(vantage.netns) and not is_local(address, vantage.netns):
            where = f"in network namespace {vantage.netns!r}" if vantage.netns else "on this host"
            raise Refused(
                f"vantage {vantage.name!r}: source address {address} is not configured {where}, so another host would"
                " get the answers; nothing was sent; `ip address` lists those that are"
            )


def _checked(vantage: Vantage) -> Vantage:
    """Return the vantage, if its device exists."""
    try:
        ip("link", "show", "dev", vantage.interface, netns=vantage.netns)
    except Missing as error:
        raise BadInput(f"vantage {vantage.name!r}: no device {vantage.interface!r}; `ip link` lists them") from error
    return vantage
