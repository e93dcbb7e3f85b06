# SPDX-License-Identifier: MIT
"""The driver route among others: foreign hands, what it refuses, and being killed at any write."""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.model.errors import BadInput, Missing, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place, Rules
from configtron.tune.drivers.route import incremental_update
from configtron.tune.drivers.route.route_driver import RouteDriver
from configtron.tune.drivers.route.table import NOTES_TABLE, TABLE
from configtron.tune.rules import difference
from tests.support.tune.routed import BOTH, RULES, SLOW, driver, everything, hosts, ip
from tests.support.tune.two_hosts import Hosts

__all__ = ["driver", "hosts"]

pytestmark = pytest.mark.root


@pytest.mark.parametrize(
    ("words", "prefix"),
    [
        (f"route del 10.1.0.0/16 table {TABLE}", "10.1.0.0/16"),
        (f"route replace 10.1.0.0/16 via 10.9.0.2 table {TABLE} metric 1 proto 67 initcwnd 5", "10.1.0.0/16"),
        (f"rule del pref 32765 lookup {TABLE}", "192.0.2.7/32"),
        (f"rule del pref 32765 lookup {TABLE} suppress_prefixlength 15", "10.1.0.0/16"),
        ("rule del pref 32765 lookup main suppress_prefixlength 16", "10.1.0.0/16"),
        ("-6 rule del pref 32765 lookup main suppress_prefixlength 32", "fd01::/32"),
    ],
)
def test_a_foreign_hand_is_seen_and_let_be(hosts: Hosts, driver: RouteDriver, words: str, prefix: str) -> None:
    driver.apply(difference(Rules(), RULES))
    driver.follow(RULES)
    mark = driver.mark()
    ip(hosts, words)
    assert driver.follow(RULES) == 0
    assert driver.mark() != mark
    assert prefix not in driver.read().prefixes
    assert RouteDriver(Place(netns=hosts.server)).mark() == driver.mark()


def test_a_file_that_is_no_namespace_is_reported() -> None:
    with pytest.raises(BadInput, match="'../../etc/passwd': that file is none"):
        RouteDriver(Place(netns="../../etc/passwd")).read()


def test_another_programs_route_in_our_table_is_refused(hosts: Hosts, driver: RouteDriver) -> None:
    driver.apply(difference(Rules(), RULES))
    mark = driver.mark()
    ip(hosts, f"route add 192.0.2.0/24 via 10.9.0.2 table {TABLE} proto static")
    assert driver.mark() != mark
    for changes in (Changes(default="fast"), Changes({}, {"192.0.2.0/24": "fast"})):
        with pytest.raises(Refused, match="192.0.2.0/24 that is not ours"):
            driver.apply(changes)
    assert driver.read() == RULES
    driver.revert(driver.before())
    assert "192.0.2.0/24" in ip(hosts, f"route show table {TABLE}")


def test_few_changes_are_read_back(hosts: Hosts, driver: RouteDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.apply(Changes(BOTH, {"10.2.0.0/16": "fast", "10.3.0.0/16": "slow"}))
    before = everything(hosts)
    # As a program that undoes each write at once.
    monkeypatch.setattr(incremental_update, "_take", lambda *_: None)
    for changes, says in (
        (Changes({}, {"10.1.0.0/16": "fast"}), "10.1.0.0/16: a rule leads its clients to table 254"),
        (Changes({}, {"10.3.0.0/16": "fast"}), "10.3.0.0/16: reads back as"),
        (Changes(dropped_prefixes=frozenset({"10.2.0.0/16"})), "10.2.0.0/16: the route is still there"),
    ):
        with pytest.raises(Refused, match=says):
            driver.apply(changes)
    assert everything(hosts) == before


def test_a_rule_that_came_later_costs_no_route(hosts: Hosts, driver: RouteDriver) -> None:
    driver.apply(Changes(BOTH, {"10.1.0.0/16": "fast"}))
    ip(hosts, "route add 10.1.0.0/16 via 10.9.0.2 table 77")
    ip(hosts, "rule add pref 100 lookup 77")
    before = everything(hosts)
    with pytest.raises(Refused, match="a rule leads its clients to table 77"):
        driver.apply(Changes({}, {"10.1.0.0/16": "fast"}))
    assert everything(hosts) == before


@pytest.mark.parametrize("many", [True, False])
def test_a_rule_that_comes_first_is_refused_and_all_is_as_before(hosts: Hosts, driver: RouteDriver, many: bool) -> None:
    driver.apply(Changes(BOTH, {"172.16.0.0/24": "fast"}))
    ip(hosts, "route add 10.1.0.0/16 via 10.9.0.2 table 77")
    ip(hosts, "rule add pref 100 lookup 77")
    before = everything(hosts)
    with pytest.raises(Refused, match="10.1.0.0/16: a rule leads its clients to table 77"):
        driver.apply(Changes({}, {"10.1.0.0/16": "slow"}, default="slow" if many else None))
    assert everything(hosts) == before


@pytest.mark.parametrize(
    ("settings", "prefix", "words"),
    [
        ((("pacing", "fq"),), "10.0.0.0/8", "a queueing discipline is a device's"),
        ((("initcwnd", 0),), "10.0.0.0/8", "takes from 1 to 1000"),
        ((("min_rto", 0.0205),), "10.0.0.0/8", "whole units of 1/1000"),
        ((("nonsense", 1),), "10.0.0.0/8", "no knob is called 'nonsense'"),
        ((("initcwnd", 4),), "10.0.0.1/8", "is no prefix"),
        ((("initcwnd", 4),), "cat", "is no prefix"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    hosts: Hosts, driver: RouteDriver, settings: tuple[tuple[str, int]], prefix: str, words: str
) -> None:
    bare = everything(hosts)
    with pytest.raises(BadInput, match=words):
        driver.apply(Changes({"p": Profile("p", settings)}, {prefix: "p"}))
    assert everything(hosts) == bare


def test_what_the_kernel_refuses_leaves_all_as_before(hosts: Hosts, driver: RouteDriver) -> None:
    unknown = Profile("unknown", (("tcp_congestion_control", "vegas"),))
    driver.apply(difference(Rules(), RULES))
    before = everything(hosts)
    if "vegas" in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text():
        pytest.skip("this kernel has every congestion control of the papers")
    try:
        driver.apply(Changes({"unknown": unknown}, {"172.16.0.0/24": "fast", "172.16.1.0/24": "unknown"}))
    except Refused as refused:
        assert "172.16.1.0/24" in str(refused)
        assert everything(hosts) == before
    else:
        pytest.skip("the kernel has loaded it")


def test_names_of_any_length_and_script(driver: RouteDriver) -> None:
    profiles = {name: Profile(name, (("initcwnd", 4),)) for name in ("a", "x" * 300, 'für Ä\n"b"', "日本")}
    driver.apply(Changes(profiles))
    assert driver.read().profiles == profiles


def test_a_note_cut_short_is_no_note(hosts: Hosts, driver: RouteDriver) -> None:
    driver.apply(Changes(BOTH, {"10.1.0.0/16": "fast"}))
    piece = next(line for line in ip(hosts, f"route show table {NOTES_TABLE}").splitlines() if line.endswith("4099 "))
    ip(hosts, f"route del {piece} table {NOTES_TABLE}")
    assert driver.read() == Rules({"slow": SLOW})
    driver.revert(driver.before())
    assert ip(hosts, f"route show table {TABLE}") == ""


def test_missing_says_what() -> None:
    assert "no network namespace is called 'absent'" in RouteDriver(Place(netns="absent")).missing()
    with pytest.raises(BadInput, match="'absent'"):
        RouteDriver(Place(netns="absent")).read()


def test_a_profile_that_is_not_there(hosts: Hosts, driver: RouteDriver) -> None:
    driver.apply(difference(Rules(), RULES))
    before = everything(hosts)
    with pytest.raises(BadInput, match="no profile is called 'absent'"):
        driver.apply(Changes({}, {"172.16.0.0/24": "absent"}))
    assert everything(hosts) == before


def test_a_cgroup_is_not_a_routes(hosts: Hosts) -> None:
    with pytest.raises(Missing, match="the same for every cgroup"):
        RouteDriver(Place(netns=hosts.server, cgroup="/web")).apply(Changes(BOTH))


def test_only_clients_reached_through_the_named_interface(hosts: Hosts) -> None:
    ip(hosts, "link add other type veth peer name rehto")
    ip(hosts, "link set other up")
    ip(hosts, "link set rehto up")
    ip(hosts, "route add 10.2.0.0/16 dev other")
    driver = RouteDriver(Place(netns=hosts.server, interface="vs"))
    driver.apply(Changes(BOTH, {"10.1.0.0/16": "fast"}, default="slow"))
    assert "throw 10.2.0.0/16" in ip(hosts, f"route show table {TABLE}")
    with pytest.raises(Refused, match="10.2.1.0/24: its clients are not reached through the interface"):
        driver.apply(Changes({}, {"10.2.1.0/24": "fast"}))
    with pytest.raises(BadInput, match="no interface is called 'absent'"):
        RouteDriver(Place(netns=hosts.server, interface="absent")).apply(Changes(BOTH))
