# SPDX-License-Identifier: MIT
"""The driver route in a namespace of its own: what it writes, reads, follows, refuses, and that nothing of it stays."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from configtron.model.errors import BadInput, Missing, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place, Rules
from configtron.tune.drivers.route import incremental_update
from configtron.tune.drivers.route.route_driver import RouteDriver
from configtron.tune.drivers.route.table import NOTES_TABLE, TABLE
from configtron.tune.rules import after, difference
from tests.support.tune.routed import BOTH, RULES, SLOW, everything, ip, several
from tests.support.tune.two_hosts import Hosts

pytestmark = pytest.mark.root

ONE = Changes(BOTH, {"10.1.0.0/16": "fast"})


def ours(hosts: Hosts, version: int = 4) -> str:
    return ip(hosts, f"-{version} route show table {TABLE}")


def test_few_changes_lead_where_reading_everything_leads(hosts: Hosts, driver: RouteDriver) -> None:
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
    routes = ours(hosts)
    RouteDriver(Place(netns=hosts.server), few=0).apply(Changes({}, dict(here.prefixes)))
    assert ours(hosts) == routes


def test_few_are_looked_up_only_where_lookups_report(hosts: Hosts, driver: RouteDriver) -> None:
    """The first address and the last of the wider prefix lie in longer ones; what is thrown there hides it, too."""
    inner = {"172.16.0.0/24": "fast", "172.31.255.0/24": "fast"}
    driver.apply(Changes(BOTH, {"172.16.0.0/12": "slow", **inner}))
    driver.apply(Changes({}, {"172.16.0.0/12": "fast"}))
    assert driver.read().prefixes == {"172.16.0.0/12": "fast", **inner}
    assert ours(hosts).count("172.16.0.0/12") == 1
    driver.revert(driver.before())
    ip(hosts, "route del default")
    driver.apply(Changes(BOTH, {**inner, "172.16.0.0/12": "slow"}))
    ip(hosts, "route add 172.0.0.0/8 via 10.9.0.2")
    for name in ("fast", "slow"):
        driver.apply(Changes({}, {"172.16.0.0/12": name}))
        assert driver.read().prefixes["172.16.0.0/12"] == name and ours(hosts).count("172.16.0.0/12") == 1
    # the two inner ones are thrown still, for no watch has followed
    ip(hosts, f"route replace throw 172.16.0.0/24 table {TABLE} proto 68 metric 1")
    driver.apply(Changes({}, {"172.16.0.0/12": "fast"}))
    assert ours(hosts).count("172.16.0.0/12") == 1


def test_the_gateway_is_followed(hosts: Hosts, applied: RouteDriver) -> None:
    mark = applied.mark()
    assert applied.follow() == 0
    ip(hosts, "route replace default via 10.9.0.77")
    ip(hosts, "-6 route replace default via fd09::77")
    assert applied.follow() > 0 == applied.follow()
    assert "10.1.0.0/16 via 10.9.0.77" in ours(hosts) and "fd01::/32 via fd09::77" in ours(hosts, 6)
    assert applied.mark() == mark and applied.read() == RULES


def test_without_a_route_it_waits_for_one_and_spells_nexthop_objects_out(hosts: Hosts, driver: RouteDriver) -> None:
    ip(hosts, "route del default")
    driver.apply(ONE)
    assert "throw 10.1.0.0/16" in ours(hosts) and driver.read().prefixes == {"10.1.0.0/16": "fast"}
    driver.follow()
    ip(hosts, "route add default via 10.9.0.2 mtu 1300")
    assert driver.follow() == 1
    assert "10.1.0.0/16 via 10.9.0.2" in ours(hosts) and "mtu 1300 initcwnd 30" in ours(hosts)
    ip(hosts, "nexthop add id 5 via 10.9.0.2 dev vs")
    ip(hosts, "route replace default nhid 5")
    assert driver.follow() == 1 and "10.1.0.0/16 via 10.9.0.2" in ours(hosts)
    assert "nhid" not in ours(hosts) and "mtu" not in ours(hosts)


def test_several_ways_and_gateways_of_the_other_family_are_repeated(hosts: Hosts, driver: RouteDriver) -> None:
    several(hosts)
    ip(hosts, "route add 203.0.113.0/24 via inet6 fd09::9 dev vs")
    ip(hosts, "route add 198.51.100.0/24 via 10.66.0.1 dev vs onlink")
    ip(hosts, "-6 route replace default nexthop via fd09::2 dev vs nexthop via fd09::3 dev vs")
    prefixes = dict.fromkeys(["10.1.0.0/16", "203.0.113.0/25", "198.51.100.0/25", "fd01::/32"], "fast")
    driver.apply(Changes(BOTH, prefixes))
    shown = ours(hosts)
    assert "nexthop via 10.9.0.2 dev vs weight 2" in shown and "203.0.113.0/25 via inet6 fd09::9" in shown
    assert "198.51.100.0/25 via 10.66.0.1 dev vs" in shown and "onlink" in shown
    assert ours(hosts, 6).count("nexthop via fd09::") == 2
    assert driver.read().prefixes == prefixes and driver.follow() == 0


def test_of_routes_of_one_metric_the_routers_preferred_one_is_covered(hosts: Hosts, driver: RouteDriver) -> None:
    ip(hosts, "link add audit9 up type veth peer name audit8")
    ip(hosts, "link set audit8 up")
    ranks = (("low", "high"), ("high", "low"), ("medium", "high"), ("low", "medium"))
    for number, pair in enumerate(ranks):
        for device, rank in zip(("audit9", "vs"), pair, strict=True):
            ip(hosts, f"-6 route append fd7{number}::/32 dev {device} pref {rank}")
    driver.apply(Changes(BOTH, {f"fd7{number}::/32": "fast" for number in range(len(ranks))}))
    for number in range(len(ranks)):
        led = ip(hosts, f"-6 route get fd7{number}::1").split(" dev ")[1].split()[0]
        assert f"fd7{number}::/32 dev {led} " in ours(hosts, 6)


@pytest.mark.parametrize(
    "words",
    [
        ["route add fd01::/32 via fd09::7", "route add fd01::/32 via fd09::8 from fd08::/64"],
        ["route add default via fd09::8 from fd08::/64", "route add default via fd09::7 from fd09::/64"],
        ["route add fd01::/16 via fd09::8 from fd08::/64", "route add fd01:0:1::/48 via fd09::7 from fd09::1/128"],
        ["route add fd01::/32 via fd09::8 from fd08::/60", "route add fd01::/32 via fd09::7 from fd08::/64"],
        ["route add fd01::/16 via fd09::8 from fd08::/64 metric 9", "route add fd01::/16 via fd09::7 from fd08::/64"],
        ["route add default from fd08::/64 nexthop via fd09::7 dev vs nexthop via fd09::8 dev vs"],
        ["route add fd01::/32 via fd09::8 from fd08::/64 src fd08::1", "route add unreachable fd01::/40 from fd08::1"],
    ],
)  # fmt: skip
def test_packets_keep_the_uplink_of_their_source(hosts: Hosts, driver: RouteDriver, words: list[str]) -> None:
    """And when such routes go, a watch leads ours after them."""

    def led(wanted: str = "") -> list[str]:
        asked = (f"ip -n {hosts.server} -o -6 route get fibmatch {client} {source}" for client in
                 ("fd01::2", "fd01:0:1::2", "fd02::2") for source in ("", "from fd08::1", "from fd09::1"))  # fmt: skip
        found = [subprocess.run(one.split(), capture_output=True, text=True).stdout for one in asked]
        assert all(wanted in one for one in found if " via " in one)
        return [one.partition(" via ")[2].partition(" ")[0] for one in found]

    ip(hosts, "-6 addr add fd08::1/64 dev vs nodad")
    bare = led()
    for one in words:
        ip(hosts, f"-6 {one}")
    before = led()
    rules = Rules({"slow": SLOW}, {"fd01::/32": "slow", "fd00::/12": "slow"}, "slow")
    driver.apply(difference(Rules(), rules))
    assert led("initcwnd 4") == before != bare
    assert driver.read() == rules and driver.ask(rules).differences == ()
    mark = driver.mark()
    driver.follow(rules)
    for one in reversed(words):
        ip(hosts, f"-6 {one.replace(' add ', ' del ')}")
    assert driver.follow(rules) and driver.ask(rules).differences == () and driver.mark() == mark
    driver.revert(driver.before())
    assert ours(hosts, 6) == ""


def test_routes_that_a_link_took_with_it_are_made_again(hosts: Hosts, applied: RouteDriver) -> None:
    mark = applied.mark()
    applied.follow(RULES)
    for words in ("link set vs down", "link set vs up", "addr replace fd09::1/64 dev vs nodad",
                  "route replace default via 10.9.0.2", "-6 route replace default via fd09::2"):  # fmt: skip
        ip(hosts, words)
    assert applied.read() != RULES and applied.follow(RULES) > 0
    assert applied.read() == RULES and applied.mark() == mark


def test_a_longer_route_of_the_main_table_wins_though_it_comes_later(hosts: Hosts, applied: RouteDriver) -> None:
    """No watch follows: its traffic goes where the operator leads it."""
    ip(hosts, "route add 10.1.0.0/28 via 10.9.0.77")
    ip(hosts, "-6 route add fd01::/64 via fd09::77")
    asked = {"route get 10.1.0.5": "via 10.9.0.77", "-6 route get fd01::5": "via fd09::77"}
    assert all(way in ip(hosts, words) for words, way in asked.items())
    assert "via 10.9.0.2" in ip(hosts, "route get 10.1.0.16") and "initcwnd 30" in ip(hosts, "route get 10.1.0.16")
    assert applied.follow(RULES) == 2
    assert all(way in ip(hosts, words) and "initcwnd 30" in ip(hosts, words) for words, way in asked.items())
    applied.revert(applied.before())
    assert "lookup main" not in "".join(line for line in ip(hosts, "rule").splitlines() if "32765" in line)


def test_another_programs_routes_stay_and_in_our_table_are_refused(hosts: Hosts, driver: RouteDriver) -> None:
    ip(hosts, "route add 198.51.100.0/24 via 10.9.0.2 proto static")
    ip(hosts, "rule add pref 32765 fwmark 7 lookup 7")
    bare = everything(hosts)
    driver.apply(difference(Rules(), RULES))
    assert set(bare[2].splitlines()) <= set(everything(hosts)[2].splitlines())
    mark, theirs = driver.mark(), f"route add 192.0.2.0/24 via 10.9.0.2 table {TABLE} proto static"
    ip(hosts, theirs)
    assert driver.mark() != mark
    for changes in (Changes(default="fast"), Changes({}, {"192.0.2.0/24": "fast"})):
        with pytest.raises(Refused, match="192.0.2.0/24 that is not ours"):
            driver.apply(changes)
    assert driver.read() == RULES
    driver.revert(driver.before())
    ip(hosts, theirs.replace("add", "del"))
    assert everything(hosts) == bare


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


@pytest.mark.parametrize(("first", "then"), [
    # it came later, and costs no route
    (ONE, Changes({}, {"10.1.0.0/16": "fast"})),
    (Changes(BOTH, {"172.16.0.0/24": "fast"}), Changes({}, {"10.1.0.0/16": "slow"})),
    # many: with the default
    (Changes(BOTH, {"172.16.0.0/24": "fast"}), Changes({}, {"10.1.0.0/16": "slow"}, default="slow")),
])  # fmt: skip
def test_a_rule_that_comes_first_is_refused_and_all_is_as_before(
    hosts: Hosts, driver: RouteDriver, first: Changes, then: Changes
) -> None:
    driver.apply(first)
    ip(hosts, "route add 10.1.0.0/16 via 10.9.0.2 table 77")
    ip(hosts, "rule add pref 100 lookup 77")
    before = everything(hosts)
    with pytest.raises(Refused, match="10.1.0.0/16: a rule leads its clients to table 77"):
        driver.apply(then)
    assert everything(hosts) == before


@pytest.mark.parametrize(("settings", "prefix", "words"), [
    ((("pacing", "fq"),), "10.0.0.0/8", "a queueing discipline is a device's"),
    ((("initcwnd", 0),), "10.0.0.0/8", "takes 1..1000"),
    ((("min_rto", 0.0205),), "10.0.0.0/8", "whole units of 1/1000"),
    ((("initcwnd", 4),), "10.0.0.1/8", "is no prefix"), ((("initcwnd", 4),), "cat", "is no prefix"),
    ((("initcwnd", 5),), "10.1.0.0/16", "a route of table 254 has encapsulation, realms; this driver cannot"),
])  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_written(
    hosts: Hosts, driver: RouteDriver, settings: tuple[tuple[str, int]], prefix: str, words: str
) -> None:
    if "realms" in words:
        tunnel = "nexthop encap ip id 5 dst 10.0.0.9 via 10.9.0.3 dev vs"
        ip(hosts, f"route add 198.51.100.0/24 nexthop via 10.9.0.2 dev vs realm 3 {tunnel}")
    bare = everything(hosts)
    with pytest.raises(Refused if "realms" in words else BadInput, match=words):
        driver.apply(Changes({"p": Profile("p", settings)}, {prefix: "p"}))
    assert everything(hosts) == bare


def test_what_the_kernel_refuses_leaves_all_as_before(hosts: Hosts, applied: RouteDriver) -> None:
    unknown = Profile("unknown", (("tcp_congestion_control", "vegas"),))
    before = everything(hosts)
    if "vegas" in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text():
        pytest.skip("this kernel has every congestion control of the papers")
    try:
        applied.apply(Changes({"unknown": unknown}, {"172.16.0.0/24": "fast", "172.16.1.0/24": "unknown"}))
    except Refused as refused:
        assert "172.16.1.0/24" in str(refused)
        assert everything(hosts) == before
    else:
        pytest.skip("the kernel has loaded it")


def test_names_of_any_length_and_script_and_a_note_cut_short(hosts: Hosts, driver: RouteDriver) -> None:
    profiles = {name: Profile(name, (("initcwnd", 4),)) for name in ("a", "x" * 300, 'für Ä\n"b"', "日本")}
    driver.apply(Changes(profiles))
    assert driver.read().profiles == profiles
    driver.revert(driver.before())
    driver.apply(ONE)
    piece = next(line for line in ip(hosts, f"route show table {NOTES_TABLE}").splitlines() if line.endswith("4099 "))
    ip(hosts, f"route del {piece} table {NOTES_TABLE}")
    assert driver.read() == Rules({"slow": SLOW})
    driver.revert(driver.before())
    assert ours(hosts) == ""


def test_places_that_are_not_there_or_no_routes(hosts: Hosts) -> None:
    assert "no network namespace is called 'absent'" in RouteDriver(Place(netns="absent")).missing()
    for netns, words in (("absent", "'absent'"), ("../../etc/passwd", "'../../etc/passwd': that file is none")):
        with pytest.raises(BadInput, match=words):
            RouteDriver(Place(netns=netns)).read()
    with pytest.raises(BadInput, match="no interface is called 'absent'"):
        RouteDriver(Place(netns=hosts.server, interface="absent")).apply(Changes(BOTH))
    with pytest.raises(Missing, match="the same for every cgroup"):
        RouteDriver(Place(netns=hosts.server, cgroup="/web")).apply(Changes(BOTH))


def test_only_clients_reached_through_the_named_interface(hosts: Hosts) -> None:
    for words in ("link add other type veth peer name rehto", "link set other up", "link set rehto up",
                  "route add 10.2.0.0/16 dev other"):  # fmt: skip
        ip(hosts, words)
    driver = RouteDriver(Place(netns=hosts.server, interface="vs"))
    driver.apply(Changes(BOTH, {"10.1.0.0/16": "fast"}, default="slow"))
    assert "throw 10.2.0.0/16" in ours(hosts)
    with pytest.raises(Refused, match="10.2.1.0/24: its clients are not reached through the interface"):
        driver.apply(Changes({}, {"10.2.1.0/24": "fast"}))
