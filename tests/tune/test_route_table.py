# SPDX-License-Identifier: MIT
"""Rules as routes: whatever main table and rules, packets go where they went, with the metrics of their prefix."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.errors import Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.tune.drivers.route.table import SeenRoutes
from configtron.tune.metrics import holds, numbers
from configtron.tune.route_table import (
    COPY,
    DEFAULT,
    THROW,
    Hop,
    MainTable,
    Numbered,
    Overlay,
    RouteArguments,
    RouteKey,
    RouteLookup,
    RouteWay,
    bits,
    lengths_of,
    lookups,
    merged,
    overlaid,
    source_bits,
)
from configtron.tune.rules import lookup

PROFILES = {
    "slow": Profile("slow", (("initcwnd", 4),)),
    "fast": Profile("fast", (("initcwnd", 40), ("min_rto", 0.05))),
}
NUMBERED = {name: Numbered(at, numbers(profile)) for at, (name, profile) in enumerate(PROFILES.items(), start=1)}
OWN_METRICS = ((2, 1400), (15, 1))


def parsed(prefix: str) -> tuple[int, bytes, int]:
    network = ip_network(prefix)
    return network.version, network.network_address.packed, network.prefixlen


def route(prefix: str, interface: int, metric: int = 0, tos: int = 0, source: str = "") -> RouteArguments:
    way = RouteWay(hops=(Hop(interface, "10.0.0.1"),), metrics=OWN_METRICS)
    return RouteArguments(*parsed(prefix), metric, way, tos, source if ":" in prefix else "")


# Few bits, so that prefixes nest and meet; of IPv4 and of IPv6.
prefixes = st.builds(
    lambda shift, high, length: str(ip_network((high << shift, length), strict=False)),
    st.sampled_from([28, 124]), st.integers(0, 15), st.integers(0, 4),
)  # fmt: skip
sources = st.sampled_from(["", "", "4000::/2", "6000::/3", "8000::/1"])
grounds = st.lists(st.builds(route, prefixes, st.integers(1, 3), st.integers(0, 2), st.just(0), sources), max_size=8)
rules = st.builds(
    Rules, st.just(PROFILES), st.dictionaries(prefixes, st.sampled_from(list(PROFILES)), max_size=6),
    st.sampled_from(["", *PROFILES]),
)  # fmt: skip
origins = st.sampled_from(["::", "2000::1", "4000::1", "6000::1", "9000::1"]).map(lambda text: ip_address(text).packed)
addresses = st.one_of(
    st.integers(0, 15).map(lambda high: ip_address(high << 28)), st.integers(0, 13).map(lambda b: ip_address(b << 124))
)


def kernel(
    routes: dict[RouteKey, RouteWay], version: int, packed: bytes, origin: bytes
) -> tuple[RouteKey, RouteWay] | None:
    """The longest prefix, of these the longest source, then the lowest metric, as fib_trie.c and ip6_fib.c look up."""
    width, number = len(packed) * 8, int.from_bytes(packed, "big")

    def within(key: RouteKey) -> bool:
        shift = width - key.length
        if key.source and ip_address(origin) not in ip_network(key.source):
            return False
        return key.version == version and number >> shift == int.from_bytes(key.address, "big") >> shift

    hidden = {key[:3] for key in routes if key.source and key.length}
    holding = [item for item in routes.items() if within(item[0]) and (item[0].source or item[0][:3] not in hidden)]
    return min(holding, key=lambda item: (-item[0].length, -source_bits(item[0].source), item[0].metric), default=None)


def as_key(one: RouteArguments) -> RouteKey:
    return RouteKey(*one[:4], one.source)


def made(given: list[RouteArguments], wanted: Rules) -> dict[RouteKey, RouteWay]:
    return Overlay(MainTable(given), NUMBERED).all(wanted, {prefix: parsed(prefix) for prefix in wanted.prefixes})


@pytest.mark.slow
@given(grounds, rules, addresses, origins)
def test_packets_go_where_they_went_with_their_profile(
    given_routes: list[RouteArguments], wanted: Rules, address: IPv4Address | IPv6Address, origin: bytes
) -> None:
    before = kernel({as_key(r): r.way for r in reversed(given_routes)}, address.version, address.packed, origin)
    found = kernel(made(given_routes, wanted), address.version, address.packed, origin)
    profile = lookup(wanted, str(address))
    if found is None or found[1] is THROW:
        assert profile is None or before is None
        assert not found or found[0][:3] not in map(parsed, wanted.prefixes) or found[0].metric < COPY
        return
    assert before is not None and found[1].hops == before[1].hops
    assert profile is not None and holds(found[1].metrics, numbers(profile))
    assert found[0].metric % COPY == NUMBERED[profile.name].number
    if found[0][:3] in map(parsed, wanted.prefixes):
        assert found[0].metric < COPY, "rules come first"


def by_rules(
    main: dict[RouteKey, RouteWay], ours: dict[RouteKey, RouteWay], version: int, packed: bytes, origin: bytes
) -> RouteWay | None:
    """The way by our rules and then the main table's own, as fib_rules.c goes through them."""
    for one in (*lookups(version, lengths_of(ours).get(version, ())), RouteLookup(main=True, longest_rejected=-1)):
        found = kernel(main if one.main else ours, version, packed, origin)
        if found and found[0].length > one.longest_rejected and found[1].kind != "throw":
            return found[1]
    return None


@pytest.mark.slow
@given(grounds, grounds, rules, addresses, origins)
def test_a_longer_route_wins_that_came_after_ours(
    given_routes: list[RouteArguments],
    later: list[RouteArguments],
    wanted: Rules,
    address: IPv4Address | IPv6Address,
    origin: bytes,
) -> None:
    ours = made(given_routes, wanted)
    main = {as_key(r): r.way for r in reversed([*given_routes, *later])}
    version, packed = address.version, address.packed
    alone, own = (kernel(table, version, packed, origin) for table in (main, ours))
    way = by_rules(main, ours, version, packed, origin)
    if own is None or own[1].kind == "throw" or (alone is not None and alone[0].length > own[0].length):
        assert way == (alone[1] if alone else None)
    else:
        assert way == own[1]


def test_metrics_of_the_main_route_stay_unless_the_profile_says_otherwise() -> None:
    assert merged(OWN_METRICS, ((11, 30),)) == ((2, 1400), (11, 30), (15, 1))
    assert merged(OWN_METRICS, ((15, 0),)) == ((2, 1400),)
    locked = ((1, 1 << 2 | 1 << 13), (2, 1400), (11, 40), (13, 50))
    assert merged(((1, 1 << 2), (2, 1400)), numbers(PROFILES["fast"])) == locked


def test_the_default_has_one_route_for_all_that_no_other_holds() -> None:
    """Link-local and multicast addresses stay with the main table."""
    main = [route("0.0.0.0/0", 1), route("::/0", 1), route("fe80::/64", 2), route("ff00::/8", 2)]
    routes = made(main, Rules(PROFILES, {}, "slow"))
    assert [key.metric for key in routes if key.length == 0] == [DEFAULT + 1, DEFAULT + 1]
    v6 = {key.length: (key.metric, way.kind) for key, way in routes.items() if key.version == 6}
    assert v6 == {0: (DEFAULT + 1, "unicast"), 10: (COPY + 1, "throw"), 8: (COPY + 1, "throw")}


def test_of_two_routes_to_a_prefix_the_kernels_is_read() -> None:
    """A run that was killed after it made the new route, before it took the old one away."""
    profiles = {numbered.number: PROFILES[name] for name, numbered in NUMBERED.items()}
    ways = {RouteKey(4, bytes(4), 8, n): RouteWay(metrics=numbers(profile)) for n, profile in profiles.items()}
    for order in (ways.items(), reversed(ways.items())):
        seen = SeenRoutes(dict(order), profiles, {4: frozenset({8})}, frozenset({4, 6}))
        assert seen.rules().prefixes == {"0.0.0.0/8": "slow"}


def test_what_is_not_ours() -> None:
    """No route leads there, or by another interface, or by the type of service."""
    assert list(made([], Rules(PROFILES, {"10.0.0.0/8": "fast"})).values()) == [THROW]
    main = MainTable([route("0.0.0.0/0", 1), route("10.0.0.0/8", 2)], interface=1)
    overlay = Overlay(main, NUMBERED)
    assert overlay.of("192.0.2.0/24", parsed("192.0.2.0/24"), "fast")[1].hops[0].interface == 1
    with pytest.raises(Refused, match="not reached through the interface"):
        overlay.of("10.1.0.0/16", parsed("10.1.0.0/16"), "fast")
    with pytest.raises(Refused, match="type of service"):
        MainTable([route("0.0.0.0/0", 1, tos=8)])


@given(grounds, st.lists(prefixes, max_size=4))
def test_overlaid_shows_whether_other_routes_change(given_routes: list[RouteArguments], changed: list[str]) -> None:
    main = MainTable(given_routes)
    inside = any(
        ip_network((number.to_bytes(bits(version) // 8, "big"), length)).subnet_of(ip_network(prefix))  # type: ignore
        for (version, length, number, _), _ in main.routes
        for prefix in changed
        if ip_network(prefix).version == version
    )
    assert overlaid(main, map(parsed, changed)) == inside
