"""The driver route in a namespace of its own: what it writes, reads, follows, refuses, and that nothing of it stays."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from configtron.errors import BadInput, Refused
from configtron.nouns import Profile
from configtron.tune.drivers import few
from configtron.tune.drivers.route import RouteDriver
from configtron.tune.drivers.rtnetlink import Netlink
from configtron.tune.drivers.table import NOTES_TABLE, TABLE
from configtron.tune.rules import after, difference
from configtron.tuning import Changes, Place, Rules
from tests.tune.two_hosts import Hosts, two_hosts

pytestmark = pytest.mark.root

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


@pytest.fixture
def driver(hosts: Hosts) -> RouteDriver:
    return RouteDriver(Place(netns=hosts.server))


def ip(hosts: Hosts, words: str) -> str:
    done = subprocess.run(["ip", "-netns", hosts.server, *words.split()], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout


def everything(hosts: Hosts) -> tuple[str, ...]:
    """Every route and rule of the server but what the kernel counts by itself."""
    return tuple(ip(hosts, words) for words in ("rule", "-6 rule", "route show table all", "-6 route show table all"))


def test_what_is_applied_reads_back_in_another_process(hosts: Hosts, driver: RouteDriver) -> None:
    assert driver.apply(difference(Rules(), RULES)) == RULES
    assert RouteDriver(Place(netns=hosts.server)).read() == RULES


def test_revert_leaves_nothing_however_often(hosts: Hosts, driver: RouteDriver) -> None:
    bare = everything(hosts)
    before = driver.before()
    driver.apply(difference(Rules(), RULES))
    assert everything(hosts) != bare
    for _ in range(2):
        driver.revert(before)
        assert everything(hosts) == bare
    assert driver.read() == Rules()


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
    monkeypatch.setattr(few, "suffices", lambda *_: False)
    driver.apply(Changes({}, dict(here.prefixes)))
    assert ip(hosts, f"route show table {TABLE}") == routes


def test_few_are_looked_up_only_where_lookups_tell(hosts: Hosts, driver: RouteDriver) -> None:
    """The first address and the last of the wider prefix lie in longer ones."""
    inner = {"172.16.0.0/24": "fast", "172.31.255.0/24": "fast"}
    driver.apply(Changes(BOTH, {"172.16.0.0/12": "slow", **inner}))
    driver.apply(Changes({}, {"172.16.0.0/12": "fast"}))
    assert driver.read().prefixes == {"172.16.0.0/12": "fast", **inner}
    assert ip(hosts, f"route show table {TABLE}").count("172.16.0.0/12") == 1


def test_a_profile_changed_is_changed_for_all_its_prefixes(driver: RouteDriver) -> None:
    driver.apply(difference(Rules(), RULES))
    other = Profile("fast", (("initcwnd", 17),))
    assert driver.apply(Changes({"fast": other})).profiles == {"fast": other}
    assert driver.read() == replace(RULES, profiles={"fast": other, "slow": SLOW})


def test_dropped_are_gone_and_names_in_use_cannot_be(driver: RouteDriver) -> None:
    driver.apply(difference(Rules(), RULES))
    with pytest.raises(BadInput, match="no profile is called 'fast'"):
        driver.apply(Changes(dropped_profiles=frozenset({"fast"})))
    assert driver.read() == RULES
    want = Rules({"slow": SLOW}, {"10.0.0.0/8": "slow"})
    driver.apply(difference(RULES, want))
    assert driver.read() == want


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
    ip(hosts, "route replace default nexthop via 10.9.0.2 dev vs weight 2 nexthop via 10.9.0.3 dev vs")
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


@pytest.mark.parametrize(
    "words",
    [
        f"route del 10.1.0.0/16 table {TABLE}",
        f"route replace 10.1.0.0/16 via 10.9.0.2 table {TABLE} metric 1 proto 67 initcwnd 5",
        f"rule del pref 32765 lookup {TABLE}",
    ],
)
def test_a_foreign_hand_is_seen_and_let_be(hosts: Hosts, driver: RouteDriver, words: str) -> None:
    driver.apply(difference(Rules(), RULES))
    driver.follow(RULES)
    mark = driver.mark()
    ip(hosts, words)
    assert driver.follow(RULES) == 0
    assert driver.mark() != mark
    assert "10.1.0.0/16" not in driver.read().prefixes
    assert RouteDriver(Place(netns=hosts.server)).mark() == driver.mark()


def test_somebody_elses_route_in_our_table_is_refused(hosts: Hosts, driver: RouteDriver) -> None:
    driver.apply(difference(Rules(), RULES))
    mark = driver.mark()
    ip(hosts, f"route add 192.0.2.0/24 via 10.9.0.2 table {TABLE} proto static")
    assert driver.mark() != mark
    with pytest.raises(Refused, match="192.0.2.0/24 that is not ours"):
        driver.apply(Changes({}, {}, default="fast"))
    driver.revert(driver.before())
    assert "192.0.2.0/24" in ip(hosts, f"route show table {TABLE}")


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
    if "vegas" in open("/proc/sys/net/ipv4/tcp_available_congestion_control").read():
        pytest.skip("this kernel has every congestion control of the papers")
    try:
        driver.apply(Changes({"unknown": unknown}, {"172.16.0.0/24": "fast", "172.16.1.0/24": "unknown"}))
    except Refused as refused:
        assert "172.16.1.0/24" in str(refused)
        assert everything(hosts) == before
    else:
        pytest.skip("the kernel has loaded it")


def test_names_of_any_length_and_script(driver: RouteDriver) -> None:
    profiles = {name: Profile(name, (("initcwnd", 4),)) for name in ("a", "x" * 300, "für Ä\n\"b\"", "日本")}
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


def test_killed_at_any_write_it_can_be_reverted(hosts: Hosts, driver: RouteDriver) -> None:
    bare = everything(hosts)
    for survived in range(100):
        child = os.fork()
        if not child:
            _apply_until(hosts, survived)
        _, status = os.waitpid(child, 0)
        driver.read()
        driver.revert(driver.before())
        assert everything(hosts) == bare
        if os.waitstatus_to_exitcode(status) == 0:
            assert survived > 5
            return
    raise AssertionError("it never came to its end")


def _apply_until(hosts: Hosts, writes: int) -> None:
    """Apply, in a process that is killed before its next write to the kernel but so many."""
    left = iter(range(writes))
    send = Netlink._send

    def killed(net: Netlink, batch: list[tuple[int, int, bytes]], first: int, forgiven: Sequence[int]) -> None:
        # one request at a time: a batch is as many writes as it has requests
        for request in batch:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            send(net, [request], first, forgiven)

    Netlink._send = killed  # type: ignore[method-assign]
    try:
        RouteDriver(Place(netns=hosts.server)).apply(difference(Rules(), RULES))
        os._exit(0)
    finally:
        os._exit(1)
