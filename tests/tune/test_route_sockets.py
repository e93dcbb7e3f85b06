# SPDX-License-Identifier: MIT
"""Every knob of the driver route, read from a real connection whose client is in the prefix, beside one that is not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial

import pytest

from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Changes, Place
from configtron.tune.drivers.route.route_driver import REACHES, RouteDriver
from tests.support.tune.two_hosts import (
    CLIENTS,
    CLIENTS6,
    Hosts,
    congestion_control,
    delayed_acks,
    first_flight,
    info,
    send_all,
    synack_window,
    two_hosts,
    window_clamp,
)

pytestmark = pytest.mark.root

# IPv4 and IPv6 segments of a 1500-byte link with timestamps.
SEGMENT_BYTES = {4: 1448, 6: 1428}


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with two_hosts() as raised:
        yield raised


@pytest.fixture
def driver(hosts: Hosts) -> Iterator[RouteDriver]:
    made = RouteDriver(Place(netns=hosts.server))
    yield made
    made.revert(made.before())


def assign(driver: RouteDriver, **settings: Value) -> None:
    """The second client's prefixes get a profile; the first's get none."""
    profile = Profile("assigned", tuple(settings.items()))
    driver.apply(Changes({"assigned": profile}, {"10.2.0.0/16": "assigned", "fd02::/32": "assigned"}))


BOTH = pytest.mark.parametrize("clients", [CLIENTS, CLIENTS6], ids=["ipv4", "ipv6"])


@pytest.mark.proof
@BOTH
def test_initcwnd(hosts: Hosts, driver: RouteDriver, clients: tuple[str, ...]) -> None:
    assign(driver, initcwnd=23)
    assert [first_flight(hosts, client) for client in clients[:2]] == [10, 23]


@BOTH
def test_tcp_congestion_control(hosts: Hosts, driver: RouteDriver, clients: tuple[str, ...]) -> None:
    def chosen(client: str) -> str:
        with hosts.connection(client) as (theirs, _):
            return congestion_control(theirs)

    untouched = chosen(clients[0])
    other = "reno" if untouched != "reno" else "cubic"
    assign(driver, tcp_congestion_control=other)
    assert [chosen(client) for client in clients[:2]] == [untouched, other]


@BOTH
def test_a_route_s_congestion_control_goes_before_a_listener_s_own(
    hosts: Hosts, driver: RouteDriver, clients: tuple[str, ...]
) -> None:
    """As `docs/tune.md` says; the kernel asks the route first (tcp_ca_openreq_child)."""
    assign(driver, tcp_congestion_control="cubic")
    found = []
    for client in clients[:2]:
        with hosts.connection(client, chosen="reno") as (theirs, _):
            found.append(congestion_control(theirs))
    assert found == ["reno", "cubic"]


@BOTH
def test_min_rto(hosts: Hosts, driver: RouteDriver, clients: tuple[str, ...]) -> None:
    def rto_us(client: str) -> int:
        with hosts.connection(client) as (theirs, _):
            return info(theirs).rto_us

    assign(driver, min_rto=1.5)
    untouched, assigned = (rto_us(client) for client in clients[:2])
    assert untouched < 1_000_000
    assert assigned >= 1_500_000


@BOTH
def test_initrwnd(hosts: Hosts, driver: RouteDriver, clients: tuple[str, ...]) -> None:
    assign(driver, initrwnd=12)
    untouched, assigned = (synack_window(hosts, client) for client in clients[:2])
    assert untouched != assigned == 12 * SEGMENT_BYTES[6 if ":" in clients[0] else 4]


@BOTH
def test_window_clamp(hosts: Hosts, driver: RouteDriver, clients: tuple[str, ...]) -> None:
    def clamp(client: str) -> int:
        with hosts.connection(client) as (theirs, _):
            return window_clamp(theirs)

    assign(driver, window_clamp=20_000)
    untouched, assigned = (clamp(client) for client in clients[:2])
    assert assigned == 20_000 < untouched


@BOTH
def test_quickack(hosts: Hosts, driver: RouteDriver, clients: tuple[str, ...]) -> None:
    assign(driver, quickack=1)
    untouched, assigned = (delayed_acks(hosts, client) for client in clients[:2])
    assert untouched > 0 == assigned


@BOTH
def test_cwnd_clamp_from_the_second_connection_on(hosts: Hosts, driver: RouteDriver, clients: tuple[str, ...]) -> None:
    def grown(client: str) -> int:
        with hosts.connection(client) as (theirs, ours):
            send_all(theirs, ours, 1_000_000)
            cwnd = info(theirs).cwnd
            ours.close()
            assert theirs.recv(1) == b""
            return cwnd

    subprocess.run(["ip", "-netns", hosts.server, "tcp_metrics", "flush", "all"], check=False, capture_output=True)
    assign(driver, cwnd_clamp=7)
    first, second = grown(clients[1]), grown(clients[1])
    assert first > 7 >= second
    assert min(map(partial(grown), (clients[0], clients[0]))) > 7


def test_every_knob_has_its_test() -> None:
    assert {name for name in globals() if name.startswith("test_")} >= {
        f"test_{knob}" + ("_from_the_second_connection_on" if knob == "cwnd_clamp" else "") for knob in REACHES
    }


@BOTH
@pytest.mark.parametrize("goes", ["reverted", "dropped", "moved"])
def test_a_clamp_is_not_remembered_of_a_client_when_its_route_has_lost_it(
    hosts: Hosts, driver: RouteDriver, clients: tuple[str, ...], goes: str
) -> None:
    """The kernel keeps it for an hour (tcp_metrics), whatever the route says by then."""
    subprocess.run(["ip", "-n", hosts.server, "tcp_metrics", "flush"], check=True, capture_output=True)
    assign(driver, cwnd_clamp=3)
    for _ in range(2):
        with hosts.connection(clients[1]) as (end, _):
            window = info(end).cwnd
    assert window == 3, "from the second connection on"
    if goes == "reverted":
        driver.revert(driver.before())
    elif goes == "dropped":
        assign(driver, initcwnd=12)
    else:
        other = Profile("other", (("initcwnd", 12),))
        driver.apply(Changes({"other": other}, {"10.2.0.0/16": "other", "fd02::/32": "other"}))
    with hosts.connection(clients[1]) as (end, _):
        assert info(end).cwnd == (10 if goes == "reverted" else 12)
