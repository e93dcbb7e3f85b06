# SPDX-License-Identifier: MIT
"""What the kernel reports to the driver route: reading the written prefixes gives what reading all gives."""

from __future__ import annotations

import socket
import subprocess

import pytest

from configtron.model.nouns import Profile
from configtron.model.protocols import Listener
from configtron.model.tuning import Changes, Place, Rules
from configtron.tune.drivers.route.route_driver import RouteDriver
from configtron.tune.drivers.route.table import NOTES_TABLE, TABLE, RouteTable
from configtron.tune.rules import difference
from tests.support.tune.routed import RULES, hosts, ip
from tests.support.tune.two_hosts import Hosts

__all__ = ["hosts"]

pytestmark = pytest.mark.root


@pytest.fixture
def driver(hosts: Hosts) -> RouteDriver:
    return looked_at(RouteDriver(Place(netns=hosts.server)))


def looked_at(made: RouteDriver) -> RouteDriver:
    """In force, and looked at whole once."""
    made.apply(difference(Rules(), RULES))
    assert isinstance(made, Listener) and made.news() is None, "before all was looked at once, no look at a few will do"
    made.mark()
    assert made.news() == (frozenset(), Rules())
    return made


NEWS = [
    (f"route del 10.1.0.0/16 table {TABLE}", {"10.1.0.0/16"}),
    (f"-6 route del fd01::/32 table {TABLE}", {"fd01::/32"}),
    (f"route replace 10.1.0.0/16 via 10.9.0.2 table {TABLE} metric 1 proto 67 initcwnd 5", {"10.1.0.0/16"}),
    (f"route add 10.7.0.0/16 via 10.9.0.2 table {TABLE} metric 1 proto 67 initcwnd 4", {"10.7.0.0/16"}),
    ("route add 10.7.0.0/16 via 10.9.0.2 table 77", set()),
]


@pytest.mark.parametrize(("words", "prefixes"), NEWS)
def test_a_few_are_looked_at_and_nothing_else(
    hosts: Hosts, driver: RouteDriver, words: str, prefixes: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = driver.mark()
    ip(hosts, words)
    with monkeypatch.context() as alone:
        alone.setattr(RouteTable, "seen", lambda _: pytest.fail("the whole table was read"))
        news = driver.news()
        assert driver.news() == (frozenset(), Rules()), "reported once"
    assert news is not None and news[0] == prefixes
    whole = RouteDriver(Place(netns=hosts.server)).read()
    assert news[1].prefixes == {prefix: name for prefix, name in whole.prefixes.items() if prefix in prefixes}
    assert not prefixes or news[1].profiles == whole.profiles
    assert (driver.mark() != mark) == bool(prefixes), "who asks for the mark afterwards sees it too"


@pytest.mark.parametrize(
    "words",
    [
        f"rule del pref 32765 lookup {TABLE}",
        f"route add 192.0.2.0/24 via 10.9.0.2 table {TABLE} proto static",
        f"route flush table {NOTES_TABLE}",
        f"route del default table {TABLE}",
        "link set vs down",
    ],
)
def test_what_a_few_do_not_report_is_for_the_whole(hosts: Hosts, driver: RouteDriver, words: str) -> None:
    mark = driver.mark()
    ip(hosts, words)
    assert driver.news() is None and driver.news() is None
    assert driver.mark() != mark
    assert driver.news() == (frozenset(), Rules())


def test_many_are_for_the_whole(hosts: Hosts) -> None:
    driver = looked_at(RouteDriver(Place(netns=hosts.server), few=1))
    ip(hosts, f"route del 10.1.0.0/16 table {TABLE}")
    ip(hosts, f"route del 192.0.2.7/32 table {TABLE}")
    assert driver.news() is None


def test_more_than_could_be_kept_is_for_the_whole(hosts: Hosts, driver: RouteDriver) -> None:
    """The kernel drops what a full socket has no room for, and says so (ENOBUFS)."""
    driver._monitor._net.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    mark = driver.mark()
    elsewhere = [f"route add 172.16.{n}.0/24 dev lo table 77" for n in range(100)]
    lines = "\n".join([*elsewhere, f"route del 10.1.0.0/16 table {TABLE}", ""])
    subprocess.run(["ip", "-n", hosts.server, "-batch", "-"], input=lines, text=True, check=True)
    assert driver.news() is None and driver.mark() != mark
    assert driver.news() == (frozenset(), Rules())


def test_what_hides_behind_longer_prefixes_is_for_the_whole(hosts: Hosts, driver: RouteDriver) -> None:
    """Both ends of 10.0.0.0/8 are led by longer ones: no look-up reaches it."""
    slow = Profile("slow", (("initcwnd", 4),))
    driver.apply(Changes({"slow": slow}, {"10.0.0.0/16": "slow", "10.255.0.0/16": "slow"}))
    driver.mark()
    ip(hosts, f"route del 10.0.0.0/8 table {TABLE}")
    assert driver.news() is None
    mark = driver.mark()
    assert "10.0.0.0/8" not in driver.read().prefixes and mark == RouteDriver(Place(netns=hosts.server)).mark()
