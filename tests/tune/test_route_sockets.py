# SPDX-License-Identifier: MIT
"""Every knob of the driver route, read from a real connection whose client is in the prefix, beside one that is not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Changes, Place
from configtron.tune.drivers.route.route_driver import REACHES, RouteDriver
from tests.support.tune.routed import hosts_of_module
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
    window_clamp,
)

__all__ = ["hosts_of_module"]

pytestmark = pytest.mark.root
BOTH = pytest.mark.parametrize("clients", [CLIENTS, CLIENTS6], ids=["ipv4", "ipv6"])


@pytest.fixture
def driver(hosts: Hosts) -> Iterator[RouteDriver]:
    subprocess.run(["ip", "-n", hosts.server, "tcp_metrics", "flush", "all"], check=False, capture_output=True)
    made = RouteDriver(Place(netns=hosts.server))
    yield made
    made.revert(made.before())


def assign(driver: RouteDriver, name: str = "assigned", **settings: Value) -> None:
    """The second client's prefixes get a profile; the first's get none."""
    changes = Changes({name: Profile(name, tuple(settings.items()))}, dict.fromkeys(("10.2.0.0/16", "fd02::/32"), name))
    driver.apply(changes)


def control(hosts: Hosts, client: str, chosen: str = "") -> str:
    with hosts.connection(client, chosen) as (theirs, _):
        return congestion_control(theirs)


def rto_us(hosts: Hosts, client: str) -> int:
    with hosts.connection(client) as (theirs, _):
        return info(theirs).rto_us


def clamp(hosts: Hosts, client: str) -> int:
    with hosts.connection(client) as (theirs, _):
        return window_clamp(theirs)


def grown(hosts: Hosts, client: str) -> int:
    """The window of a second connection, for the kernel keeps a route's clamp among its metrics of a client."""
    for _ in range(2):
        with hosts.connection(client) as (theirs, ours):
            send_all(theirs, ours, 1_000_000)
            cwnd = info(theirs).cwnd
            ours.close()
            assert theirs.recv(1) == b""
    return cwnd


# Segments of a 1500-byte link with timestamps.
def segment(client: str) -> int:
    return 1428 if ":" in client else 1448


PROVED = pytest.param("initcwnd", marks=pytest.mark.proof)
# Each knob: what a connection shows of it, the value that is set, whether what the two clients have is right.
SEEN: dict[str, tuple[Callable[[Hosts, str], object], Value, Callable[..., bool]]] = {
    "initcwnd": (first_flight, 23, lambda plain, ours, _: (plain, ours) == (10, 23)),
    "tcp_congestion_control": (control, "reno", lambda plain, ours, _: plain != "reno" == ours),
    "min_rto": (rto_us, 1.5, lambda plain, ours, _: plain < 1_000_000 and ours >= 1_500_000),
    "initrwnd": (synack_window, 12, lambda plain, ours, client: plain != ours == 12 * segment(client)),
    "window_clamp": (clamp, 20_000, lambda plain, ours, _: ours == 20_000 < plain),
    "quickack": (delayed_acks, 1, lambda plain, ours, _: plain > 0 == ours),
    "cwnd_clamp": (grown, 7, lambda plain, ours, _: ours <= 7 < plain),
}


@BOTH
@pytest.mark.parametrize("knob", [PROVED, *(knob for knob in REACHES if knob not in PROVED.values)])
def test_a_connection_shows_the_knob(hosts: Hosts, driver: RouteDriver, clients: tuple[str, ...], knob: str) -> None:
    seen, value, right = SEEN[knob]
    if knob == "tcp_congestion_control" and control(hosts, clients[0]) == "reno":
        pytest.skip("every connection has it")
    assign(driver, **{knob: value})
    assert right(*map(partial(seen, hosts), clients[:2]), clients[1])


@BOTH
def test_a_route_s_congestion_control_goes_before_a_listener_s_own(
    hosts: Hosts, driver: RouteDriver, clients: tuple[str, ...]
) -> None:
    """As `docs/tune.md` says; the kernel asks the route first (tcp_ca_openreq_child)."""
    assign(driver, tcp_congestion_control="cubic")
    assert [control(hosts, client, "reno") for client in clients[:2]] == ["reno", "cubic"]


@BOTH
@pytest.mark.parametrize("goes", ["reverted", "dropped", "moved"])
def test_a_clamp_is_not_remembered_of_a_client_when_its_route_has_lost_it(
    hosts: Hosts, driver: RouteDriver, clients: tuple[str, ...], goes: str
) -> None:
    """The kernel keeps it for an hour (tcp_metrics), whatever the route says by then."""
    assign(driver, cwnd_clamp=3)
    for _ in range(2):
        with hosts.connection(clients[1]) as (end, _):
            window = info(end).cwnd
    assert window == 3, "from the second connection on"
    if goes == "reverted":
        driver.revert(driver.before())
    else:
        assign(driver, "assigned" if goes == "dropped" else "other", initcwnd=12)
    with hosts.connection(clients[1]) as (end, _):
        assert info(end).cwnd == (10 if goes == "reverted" else 12)
