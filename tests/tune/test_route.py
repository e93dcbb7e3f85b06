# SPDX-License-Identifier: MIT
"""The driver route in a namespace of its own: what it writes, reads, follows, refuses, and that nothing of it stays."""

from __future__ import annotations

import random

import pytest

from configtron.model.tuning import Changes, Place, Rules
from configtron.tune.drivers.route.route_driver import RouteDriver
from configtron.tune.drivers.route.table import TABLE
from configtron.tune.rules import after, difference
from tests.support.tune.routed import BOTH, RULES, driver, everything, hosts, ip, several
from tests.support.tune.two_hosts import Hosts

__all__ = ["driver", "hosts"]

pytestmark = pytest.mark.root


def test_only_routes_that_it_made_are_touched(hosts: Hosts, driver: RouteDriver) -> None:
    ip(hosts, "route add 198.51.100.0/24 via 10.9.0.2 proto static")
    ip(hosts, "rule add pref 32765 fwmark 7 lookup 7")
    bare = everything(hosts)
    driver.apply(difference(Rules(), RULES))
    assert set(bare[2].splitlines()) <= set(everything(hosts)[2].splitlines())
    driver.revert(driver.before())
    assert everything(hosts) == bare


def test_few_changes_lead_where_reading_everything_leads(
    hosts: Hosts, driver: RouteDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(7)
    inner = {f"172.{16 + i}.{j}.0/24": "fast" for i in range(4) for j in range(8)}
    here = Rules(BOTH, inner | {"172.16.0.0/12": "slow"})
    driver.apply(difference(Rules(), here))
    for _ in range(20):
        changed = {prefix: chance.choice(["fast", "slow"]) for prefix in chance.sample(sorted(here.prefixes), 4)}
        fresh = {f"192.0.{chance.randrange(8)}.0/24": "slow", f"fd{chance.randrange(10, 99)}::/32": "fast"}
        dropped = frozenset(chance.sample(sorted(here.prefixes), 1)) - {*changed, *fresh}
        changes = Changes({}, changed | fresh, frozenset(), dropped)
        assert driver.apply(changes) == Rules({}, changes.prefixes, "")
        here = after(here, changes)
        assert driver.read() == here
    routes = ip(hosts, f"route show table {TABLE}")
    RouteDriver(Place(netns=hosts.server), few=0).apply(Changes({}, dict(here.prefixes)))
    assert ip(hosts, f"route show table {TABLE}") == routes


def test_few_are_looked_up_only_where_lookups_report(hosts: Hosts, driver: RouteDriver) -> None:
    """The first address and the last of the wider prefix lie in longer ones."""
    inner = {"172.16.0.0/24": "fast", "172.31.255.0/24": "fast"}
    driver.apply(Changes(BOTH, {"172.16.0.0/12": "slow", **inner}))
    driver.apply(Changes({}, {"172.16.0.0/12": "fast"}))
    assert driver.read().prefixes == {"172.16.0.0/12": "fast", **inner}
    assert ip(hosts, f"route show table {TABLE}").count("172.16.0.0/12") == 1


def test_what_is_thrown_within_a_prefix_hides_it_from_lookups(hosts: Hosts, driver: RouteDriver) -> None:
    ip(hosts, "route del default")
    driver.apply(Changes(BOTH, {"172.16.0.0/24": "fast", "172.31.255.0/24": "fast", "172.16.0.0/12": "slow"}))
    ip(hosts, "route add 172.0.0.0/8 via 10.9.0.2")
    for name in ("fast", "slow"):
        driver.apply(Changes({}, {"172.16.0.0/12": name}))
        assert driver.read().prefixes["172.16.0.0/12"] == name
        assert ip(hosts, f"route show table {TABLE}").count("172.16.0.0/12") == 1
    # the two inner ones are thrown still, for no watch has followed
    ip(hosts, f"route replace throw 172.16.0.0/24 table {TABLE} proto 68 metric 1")
    driver.apply(Changes({}, {"172.16.0.0/12": "fast"}))
    assert ip(hosts, f"route show table {TABLE}").count("172.16.0.0/12") == 1


def test_the_gateway_is_followed(hosts: Hosts, driver: RouteDriver) -> None:
    driver.apply(difference(Rules(), RULES))
    mark = driver.mark()
    assert driver.follow() == 0
    ip(hosts, "route replace default via 10.9.0.77")
    ip(hosts, "-6 route replace default via fd09::77")
    assert driver.follow() > 0 == driver.follow()
    assert "10.1.0.0/16 via 10.9.0.77" in ip(hosts, f"route show table {TABLE}")
    assert "fd01::/32 via fd09::77" in ip(hosts, f"-6 route show table {TABLE}")
    assert driver.mark() == mark and driver.read() == RULES


def test_without_a_route_it_waits_for_one(hosts: Hosts, driver: RouteDriver) -> None:
    ip(hosts, "route del default")
    driver.apply(Changes(BOTH, {"10.1.0.0/16": "fast"}))
    assert "throw 10.1.0.0/16" in ip(hosts, f"route show table {TABLE}")
    assert driver.read().prefixes == {"10.1.0.0/16": "fast"}
    driver.follow()
    ip(hosts, "route add default via 10.9.0.2 mtu 1300")
    assert driver.follow() == 1
    assert "10.1.0.0/16 via 10.9.0.2" in ip(hosts, f"route show table {TABLE}")
    assert "mtu 1300 initcwnd 30" in ip(hosts, f"route show table {TABLE}")


def test_several_ways_and_gateways_of_the_other_family_are_repeated(hosts: Hosts, driver: RouteDriver) -> None:
    several(hosts)
    ip(hosts, "route add 203.0.113.0/24 via inet6 fd09::9 dev vs")
    ip(hosts, "route add 198.51.100.0/24 via 10.66.0.1 dev vs onlink")
    ip(hosts, "-6 route replace default nexthop via fd09::2 dev vs nexthop via fd09::3 dev vs")
    prefixes = dict.fromkeys(["10.1.0.0/16", "203.0.113.0/25", "198.51.100.0/25", "fd01::/32"], "fast")
    driver.apply(Changes(BOTH, prefixes))
    shown = ip(hosts, f"route show table {TABLE}")
    assert "nexthop via 10.9.0.2 dev vs weight 2" in shown and "203.0.113.0/25 via inet6 fd09::9" in shown
    assert "198.51.100.0/25 via 10.66.0.1 dev vs" in shown and "onlink" in shown
    assert ip(hosts, f"-6 route show table {TABLE}").count("nexthop via fd09::") == 2
    assert driver.read().prefixes == prefixes and driver.follow() == 0


def test_nexthop_objects_are_spelt_out(hosts: Hosts, driver: RouteDriver) -> None:
    ip(hosts, "nexthop add id 5 via 10.9.0.2 dev vs")
    ip(hosts, "route replace default nhid 5")
    driver.apply(Changes(BOTH, {"10.1.0.0/16": "fast"}))
    assert "nhid" not in ip(hosts, f"route show table {TABLE}")
    assert "10.1.0.0/16 via 10.9.0.2" in ip(hosts, f"route show table {TABLE}")


def test_routes_that_a_link_took_with_it_are_made_again(hosts: Hosts, driver: RouteDriver) -> None:
    driver.apply(difference(Rules(), RULES))
    mark = driver.mark()
    driver.follow(RULES)
    ip(hosts, "link set vs down")
    ip(hosts, "link set vs up")
    ip(hosts, "addr replace fd09::1/64 dev vs nodad")
    ip(hosts, "route replace default via 10.9.0.2")
    ip(hosts, "-6 route replace default via fd09::2")
    assert driver.read() != RULES
    assert driver.follow(RULES) > 0
    assert driver.read() == RULES and driver.mark() == mark


def test_a_longer_route_of_the_main_table_wins_though_it_comes_later(hosts: Hosts, driver: RouteDriver) -> None:
    """No watch follows: its traffic goes where the operator leads it."""
    driver.apply(difference(Rules(), RULES))
    ip(hosts, "route add 10.1.0.0/28 via 10.9.0.77")
    ip(hosts, "-6 route add fd01::/64 via fd09::77")
    assert "via 10.9.0.77" in ip(hosts, "route get 10.1.0.5") and "via fd09::77" in ip(hosts, "-6 route get fd01::5")
    assert "via 10.9.0.2" in ip(hosts, "route get 10.1.0.16") and "initcwnd 30" in ip(hosts, "route get 10.1.0.16")
    assert driver.follow(RULES) == 2
    assert "via 10.9.0.77" in (reported := ip(hosts, "route get 10.1.0.5")) and "initcwnd 30" in reported
    assert "via fd09::77" in (reported := ip(hosts, "-6 route get fd01::5")) and "initcwnd 30" in reported
    driver.revert(driver.before())
    assert "lookup main" not in "".join(line for line in ip(hosts, "rule").splitlines() if "32765" in line)
