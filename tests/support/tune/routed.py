# SPDX-License-Identifier: MIT
"""What the tests of the driver route share: a server in a namespace, its driver, two profiles, rules with both."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from configtron.model.nouns import Profile
from configtron.model.tuning import Place, Rules
from configtron.tune.drivers.route.route_driver import RouteDriver
from configtron.tune.rules import difference
from tests.support.tune.two_hosts import Hosts, two_hosts

FAST = Profile("fast", (("initcwnd", 30), ("min_rto", 0.02), ("tcp_congestion_control", "reno"), ("quickack", 0)))
SLOW = Profile("slow", (("initcwnd", 4),))
BOTH = {"fast": FAST, "slow": SLOW}
RULES = Rules(
    BOTH,
    {"10.0.0.0/8": "slow", "10.1.0.0/16": "fast", "192.0.2.7/32": "fast", "fd00::/8": "slow", "fd01::/32": "fast"},
    "slow",
)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with two_hosts() as raised:
        yield raised


@pytest.fixture(scope="module", name="hosts")
def hosts_of_module() -> Iterator[Hosts]:
    """The same hosts for all tests of a module."""
    with two_hosts() as raised:
        yield raised


@pytest.fixture
def driver(hosts: Hosts) -> RouteDriver:
    return RouteDriver(Place(netns=hosts.server))


def ip(hosts: Hosts, words: str) -> str:
    """An ip command inside the server."""
    done = subprocess.run(["ip", "-netns", hosts.server, *words.split()], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout


def everything(hosts: Hosts) -> tuple[str, ...]:
    """Every route and rule of the server."""
    return tuple(ip(hosts, words) for words in ("rule", "-6 rule", "route show table all", "-6 route show table all"))


def several(hosts: Hosts, words: str = "") -> None:
    """The default route by two gateways, where the kernel can."""
    ways = "nexthop via 10.9.0.2 dev vs weight 2 nexthop via 10.9.0.3 dev vs"
    try:
        ip(hosts, f"route replace default {words} {ways}")
    except AssertionError as refused:
        if "Multipath support not enabled" not in str(refused):
            raise
        pytest.skip("this kernel knows one gateway a route (CONFIG_IP_ROUTE_MULTIPATH)")


@pytest.fixture
def applied(driver: RouteDriver) -> RouteDriver:
    driver.apply(difference(Rules(), RULES))
    return driver
