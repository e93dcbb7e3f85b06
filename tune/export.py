# SPDX-License-Identifier: MIT
"""Rules as other tools' configuration: batches of iproute2, networkd's sections, sysctl lines.

Question   How are these rules applied where configtron does not run, or after a reboot?
Method     The routes that the driver route would make, and the sysctls that the driver sysctl would write, in the
           syntax of the tool that makes them. A comment names each setting that the tool cannot express.
Differs    from the drivers: the routes do not follow the main table; gateways are those at the time of the export.
Source     ip-route(8), ip-rule(8), systemd.network(5) (systemd 255 for TCPRetransmissionTimeoutSec), sysctl.d(5)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from configtron.model.nouns import Profile
from configtron.tune.metrics import BY_NUMBER, LOCK
from configtron.tune.route_table import COPY, PROTOCOL, Hop, RouteKey, RouteWay, hand, lengths_of, lookups

# A route's own metrics that iproute2 can express, by RTAX number; those of profiles are in `metrics.py`.
WORDS = {2: "mtu", 6: "ssthresh", 8: "advmss", 9: "reordering", 10: "hoplimit", 17: "fastopen_no_cookie"}
# Metrics that iproute2 writes in milliseconds.
IN_MS = {13}
FLAGS = {15: ("no", "yes")}


@dataclass(frozen=True, slots=True)
class Draft:
    """The routes and notes that the driver route would write here.

    routes, notes   of our table, and of the one for names; `table` and `notes_table` are their numbers
    interfaces      index -> name
    """

    routes: Mapping[RouteKey, RouteWay]
    notes: Sequence[RouteKey]
    table: int
    notes_table: int
    preference: int
    interfaces: Mapping[int, str] = field(default_factory=dict)


def iproute2(draft: Draft, version: int) -> Iterator[str]:
    """Yield lines for `ip -batch -`, or `ip -6 -batch -`: one IP version, for a batch has one. Names go with IPv4."""
    routes = {key: way for key, way in draft.routes.items() if key.version == version}
    # on the link first: a gateway is looked up among them
    for key in sorted(routes, key=lambda key: (bool(_gateway(routes[key])), key)):
        way = routes[key]
        place = f"table {draft.table} proto {hand(key, way)} metric {key.metric}"
        head = ["route replace", _kind(way), _prefix(key), f"from {key.source}" if key.source else "", place]
        yield " ".join(filter(None, [*head, *_way(way, draft), *_metrics(way), *_hops(way, draft)]))
    if version == 4:
        for key in draft.notes:
            place = f"table {draft.notes_table} proto {PROTOCOL} metric {key.metric}"
            yield f"route replace blackhole {_prefix(key)} {place}"
    for one in lookups(version, lengths_of(routes).get(version, ())):
        rejected = f" suppress_prefixlength {one.longest_rejected}" if one.longest_rejected >= 0 else ""
        table = "main" if one.main else draft.table
        yield f"rule add pref {draft.preference} lookup {table}{rejected} proto {PROTOCOL}"


def _kind(way: RouteWay) -> str:
    return "" if way.kind == "unicast" else way.kind


def _prefix(key: RouteKey) -> str:
    return f"{ip_address(key.address)}/{key.length}"


def _gateway(way: RouteWay) -> str:
    return way.hops[0].gateway if way.hops else ""


def _way(way: RouteWay, draft: Draft) -> Iterator[str]:
    if way.source:
        yield f"src {way.source}"
    if way.scope and not _gateway(way):
        yield f"scope {way.scope}"
    if len(way.hops) == 1:
        yield _hop(way.hops[0], draft)


def _hops(way: RouteWay, draft: Draft) -> Iterator[str]:
    if len(way.hops) > 1:
        yield from (f"nexthop {_hop(hop, draft)} weight {hop.weight}" for hop in way.hops)


def _hop(hop: Hop, draft: Draft) -> str:
    via = f"via {_family(hop.gateway)} {hop.gateway} " if hop.gateway else ""
    return f"{via}dev {draft.interfaces[hop.interface]}{' onlink' if hop.onlink else ''}"


def _family(address: str) -> str:
    return "inet6" if ":" in address else "inet"


def _metrics(way: RouteWay) -> Iterator[str]:
    locks = int(dict(way.metrics).get(LOCK, 0))
    for number, value in way.metrics:
        word = BY_NUMBER[number].word if number in BY_NUMBER else WORDS.get(number, "")
        if word and number in IN_MS:
            yield f"{word} {value}ms"  # iproute2 locks it by itself
        elif word:
            yield f"{word} {'lock ' if locks >> number & 1 else ''}{value}"


def networkd(draft: Draft) -> Iterator[str]:
    """Yield sections of .network files, one file an interface; any one of the files takes those before the first."""
    yield "# of any one interface: its .network file, or a drop-in beside it"
    for version, lengths in sorted(lengths_of(draft.routes).items()):
        yield from _rules(draft, version, lengths)
    files: dict[str, list[str]] = {}
    for key, way in sorted(draft.routes.items()):
        name = draft.interfaces[way.hops[0].interface] if way.hops else ""
        files.setdefault(name, []).extend([*_section(key, way, draft), ""])
    for name, lines in sorted(files.items()):
        yield f"# of the interface {name}" if name else "# of any one interface"
        yield from lines


def _rules(draft: Draft, version: int, lengths: Iterable[int]) -> Iterator[str]:
    """Yield rules with one priority each, the last that of the driver: networkd does not keep the order of equals."""
    sequence = lookups(version, lengths)
    for place, one in enumerate(sequence):
        yield from ("[RoutingPolicyRule]", f"Table={'main' if one.main else draft.table}")
        yield from (f"Priority={draft.preference - len(sequence) + 1 + place}", f"Family=ipv{version}")
        if one.longest_rejected >= 0:
            yield f"SuppressPrefixLength={one.longest_rejected}"
        yield ""


def _section(key: RouteKey, way: RouteWay, draft: Draft) -> Iterator[str]:
    yield from ("[Route]", f"Destination={_prefix(key)}", f"Table={draft.table}", f"Metric={key.metric}")
    yield f"Protocol={hand(key, way)}"
    if key.source:
        yield f"Source={key.source}"
    if way.kind != "unicast":
        yield f"Type={way.kind}"
    if way.source:
        yield f"PreferredSource={way.source}"
    if len(way.hops) > 1:
        yield from (f"MultiPathRoute={h.gateway}@{draft.interfaces[h.interface]} {h.weight}" for h in way.hops)
    elif _gateway(way):
        yield f"Gateway={_gateway(way)}"
        if way.hops[0].onlink:
            yield "GatewayOnLink=yes"
    for number, value in way.metrics:
        if number in BY_NUMBER and BY_NUMBER[number].networkd:
            text = FLAGS[number][int(value)] if number in FLAGS else f"{value}ms" if number in IN_MS else value
            yield f"{BY_NUMBER[number].networkd}={text}"
        elif number == 2:
            yield f"MTUBytes={value}"
        elif number in BY_NUMBER and key.metric < COPY:
            yield f"# left out: networkd has no word for {BY_NUMBER[number].reach.knob}={value}"


def sysctl(profile: Profile | None, files: Mapping[str, str]) -> Iterator[str]:
    """Yield lines for sysctl.d; `files` has each knob's text by its file's name. Nothing where there is no default."""
    if profile is not None:
        yield f"# profile {profile.name}"
    yield from (f"net.ipv4.{name} = {text}" for name, text in files.items())


def left_out(
    profiles: Mapping[str, Profile], reached: Mapping[str, object], refused: Mapping[str, str]
) -> Iterator[str]:
    """Yield a comment for each setting that a form cannot express."""
    for name, profile in sorted(profiles.items()):
        for knob, value in profile.settings:
            if knob not in reached:
                yield f"# left out: {knob}={value} of profile {name}: {refused.get(knob, 'there is no such setting')}"


def within(profile: Profile, reached: Mapping[str, object]) -> Profile:
    """Return a profile without the settings that a form cannot express."""
    return Profile(profile.name, tuple((knob, value) for knob, value in profile.settings if knob in reached))
