# SPDX-License-Identifier: MIT
"""The driver route asks the kernel: whatever leads clients elsewhere is a difference, however whole our table is.

And hears it: what the kernel reports of a few prefixes gives what reading all gives.
"""

from __future__ import annotations

import socket
import subprocess

import pytest

from configtron.linux.netlink import attribute
from configtron.linux.netns import inside
from configtron.model.errors import Refused
from configtron.model.nouns import Profile
from configtron.model.protocols import Listener
from configtron.model.tuning import Changes, Difference, Place, Rules
from configtron.tune.drivers.route import answers, rule, tcp_metrics_cache
from configtron.tune.drivers.route.dry_connection import begun
from configtron.tune.drivers.route.route_driver import IN_VRF, RouteDriver
from configtron.tune.drivers.route.table import NOTES_TABLE, RULE, TABLE, RouteTable
from configtron.tune.rules import difference
from tests.support.tune.routed import BOTH, RULES, everything, ip
from tests.support.tune.two_hosts import SERVER, Hosts

pytestmark = pytest.mark.root


def asked(driver: RouteDriver) -> dict[tuple[str, str], str]:
    """(scope, knob) -> what was found."""
    return {(one.scope, one.knob): one.found for one in driver.ask(RULES).differences}


def test_what_was_applied_is_what_the_kernel_answers(applied: RouteDriver) -> None:
    found = applied.ask(RULES)
    assert found.differences == found.unasked == ()
    # five prefixes, both ends but of the single address, and the default of both versions
    assert (found.prefixes, found.asked) == (7, 11)


def test_a_listener_that_is_bound_to_a_device_looks_up_its_routes_alone(hosts: Hosts, applied: RouteDriver) -> None:
    ip(hosts, "link add aside type veth peer name other")
    for bound in ("vs", "aside"):
        with inside(hosts.server), socket.create_server(("", 0)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, bound.encode())
            ip(hosts, "link set aside up")
            lines = applied.ask(RULES).unasked
        (control, window), other = begun(hosts.server, "10.0.0.1", device=bound), begun(hosts.server, "10.0.0.1")
        here = f"10.0.0.0/8: clients of a listener that is bound to {bound} get {control}, window {window}; others "
        assert [line[: len(here)] for line in lines] == ([] if bound == "vs" else [here])
        assert (bound == "vs") == ((control, window) == other)


@pytest.mark.parametrize(
    ("words", "scope"),
    [
        ("route add 10.1.0.0/28 via 10.9.0.77", "10.1.0.0/28"),
        ("-6 route add fd01::/64 via fd09::77", "fd01::/64"),
        ("route replace default via 10.9.0.77", "10.1.0.0/16"),
        ("-6 route replace default via fd09::77", "fd01::/32"),
        ("route add 10.0.0.0/12 via 10.9.0.77", "10.1.0.0/16"),
    ],
)
def test_routes_that_the_main_table_changed(hosts: Hosts, applied: RouteDriver, words: str, scope: str) -> None:
    ip(hosts, words)
    assert (scope, "route") in asked(applied)
    applied.follow(RULES)
    assert asked(applied) == {}


def test_addresses_of_this_host_and_of_everybody_on_a_link_are_no_difference(hosts: Hosts, driver: RouteDriver) -> None:
    """The prefix ends in the broadcast address of the server's own link and begins with the server's address."""
    ip(hosts, "addr add 10.77.0.128/24 dev " + ip(hosts, "-o route get 10.9.0.2").split(" dev ")[1].split()[0])
    rules = Rules({"wide": Profile("wide", (("initcwnd", 20),))}, {"10.77.0.128/25": "wide"})
    driver.apply(difference(Rules(), rules))
    assert driver.ask(rules).differences == ()


def test_a_prefix_that_the_kernel_cannot_route_is_not_in_force(hosts: Hosts, driver: RouteDriver) -> None:
    """No default; unreachable; prohibited. A part of 10.0.0.0/8 and of fd00::/8 is on the link."""
    for words in ("route del default", "-6 route replace prohibit default", "-6 route add unreachable fd01::/31"):
        ip(hosts, words)
    driver.apply(difference(Rules(), RULES))
    unrouted = {(prefix, "lookup"): "no route" for prefix in ("10.1.0.0/16", "192.0.2.7/32", "fd01::/32")}
    assert asked(driver) == unrouted
    ip(hosts, "route add default via 10.9.0.66 table 100")
    ip(hosts, "rule add to 10.1.0.0/16 lookup 100")
    assert asked(driver) == unrouted | {("10.1.0.0/16", "lookup"): "table 100, via 10.9.0.66"}, (
        "routed without a profile"
    )


def test_a_route_that_the_main_table_no_longer_has(hosts: Hosts, driver: RouteDriver) -> None:
    ip(hosts, "route add 10.1.0.0/28 via 10.9.0.77")
    driver.apply(difference(Rules(), RULES))
    assert asked(driver) == {}
    ip(hosts, "route del 10.1.0.0/28")
    found = asked(driver)
    assert found["10.1.0.0/28", "route"] == "via 10.9.0.77, which the main table no longer has"
    assert found["10.1.0.0/16", "lookup"] == "table 49393, via 10.9.0.77", "the kernel's answer for its first address"


@pytest.mark.parametrize(
    ("words", "scope", "found"),
    [
        (f"rule add from {SERVER} lookup 100 pref 1000", "10.1.0.0/16", "table 100, via 10.9.0.66 from 10.9.0.1"),
        ("rule add iif lo lookup 100 pref 1000", "10.1.0.0/16", "table 100, via 10.9.0.66"),
        ("rule add not from 10.9.0.0/25 lookup 100 pref 1000", "10.1.0.0/16", "table 100, via 10.9.0.66"),
        ("rule add to 10.1.3.0/24 lookup 100 pref 1000", "10.1.0.0/16", "table 100, via 10.9.0.66"),
        ("rule add to 10.1.3.0/24 unreachable pref 1000", "10.1.0.0/16", "no route"),
        (f"route replace 10.0.0.0/8 via 10.9.0.66 table {TABLE}", "10.0.0.0/8",
         "via 10.9.0.66 in table 49393, protocol 3"),
        (f"route add 10.1.3.0/24 via 10.9.0.66 table {TABLE}", "10.1.3.0/24",
         "via 10.9.0.66 in table 49393, protocol 3"),
    ],
)  # fmt: skip
def test_who_leads_clients_elsewhere(hosts: Hosts, applied: RouteDriver, words: str, scope: str, found: str) -> None:
    ip(hosts, "route add default via 10.9.0.66 table 100")
    mark = applied.mark()
    ip(hosts, words)
    assert asked(applied)[scope, "lookup"] == found
    assert applied.mark() != mark, "a watch sees it"


def test_a_route_in_front_of_ours_is_not_ours_in_force(hosts: Hosts, applied: RouteDriver) -> None:
    ip(hosts, f"route replace 10.0.0.0/8 via 10.9.0.66 table {TABLE}")
    assert applied.read().prefixes == {p: name for p, name in RULES.prefixes.items() if p != "10.0.0.0/8"}
    assert applied.others() == (f"a route of protocol 3: ip route del 10.0.0.0/8 table {TABLE} metric 0",)
    applied.revert(applied.before())
    assert "10.0.0.0/8 via 10.9.0.66" in ip(hosts, f"route show table {TABLE}"), "other people's stay"
    assert applied.ours() == "" and len(applied.others()) == 1


def test_conditions_that_no_lookup_meets_are_named(
    hosts: Hosts, applied: RouteDriver, caplog: pytest.LogCaptureFixture
) -> None:
    """But for what is forwarded: that is nobody's of ours."""
    ip(hosts, "rule add iif vs lookup 100 pref 1000")
    assert applied.ask(RULES).differences == applied.ask(RULES).unasked == ()
    ip(hosts, "rule add fwmark 7 lookup 100 pref 1001")
    (line,) = applied.ask(RULES).unasked
    assert line.startswith("rule 1001: from all fwmark lookup 100 comes before ours") and "fwmark was not asked" in line
    assert applied.ask(RULES).differences == ()
    applied.apply(Changes({}, {"10.1.0.0/16": "fast"}))
    assert caplog.messages == []
    ip(hosts, "rule add l3mdev pref 1000")
    assert "from all l3mdev lookup comes before ours" in "".join(applied.ask(RULES).unasked)
    applied.apply(Changes({}, {"10.1.0.0/16": "fast"}))
    assert caplog.messages == [IN_VRF]
    # as a newer kernel writes it: a condition that this program does not know
    newer = RULE.pack(socket.AF_INET, 0, 0, 0, 0, 0, 0, 1, 0) + b"".join(
        attribute(kind, bytes([value])) for kind, value in ((25, 10), (28, 255), (30, 63), (31, 1), (32, 0))
    )
    assert rule.parse(4, newer).conditions == ("dscp", "attribute 31")


def test_of_many_prefixes_a_sample_is_asked(driver: RouteDriver) -> None:
    prefixes = [f"172.{net}.{n}.0/24" for net in (16, 17) for n in range(255)]
    many = Rules({"slow": BOTH["slow"]}, dict.fromkeys(prefixes, "slow"))
    driver.apply(difference(Rules(), many))
    found = driver.ask(many)
    assert (answers.SAMPLE, found.prefixes, found.asked, found.differences) == (256, 256, 512, ())


def test_the_dry_connection_is_what_a_client_would_get_and_sends_nothing(hosts: Hosts, driver: RouteDriver) -> None:
    driver.apply(Changes(BOTH, {"10.1.0.0/16": "fast", "fd01::/32": "fast"}))
    with hosts.captured() as wire:
        assert begun(hosts.server, "10.1.0.2") == begun(hosts.server, "fd01::2") == ("reno", 30)
        assert begun(hosts.server, "10.1.0.2", SERVER) == ("reno", 30)
        wire.settimeout(0.3)
        with pytest.raises(TimeoutError):
            while True:
                frame = wire.recv(2048)
                assert frame[23:24] != b"\x06" and frame[20:21] != b"\x06", "a TCP packet was sent"
    assert begun(hosts.server, "203.0.113.1") not in (None, ("reno", 30))


def test_the_dry_connection_sees_what_the_table_does_not_say(
    hosts: Hosts, driver: RouteDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clamp that the kernel remembers of a client: its table is whole, its connections are not as applied."""
    monkeypatch.setattr(tcp_metrics_cache, "forget", lambda *_: 0)
    clamped, other = (Profile("fast", settings) for settings in ((("cwnd_clamp", 3), ("initcwnd", 30)),
                                                                 (("initcwnd", 30),)))  # fmt: skip
    rules = Rules({"fast": other}, {"10.1.0.2/32": "fast"})
    driver.apply(Changes({"fast": clamped}, rules.prefixes))
    with hosts.connection("10.1.0.2"):
        pass
    driver.apply(Changes({"fast": other}, rules.prefixes))
    assert driver.ask(rules).differences == (Difference("10.1.0.2/32", "initcwnd", "30", "3"),)


@pytest.mark.parametrize(("metric", "found"), [("cwnd lock 5", ["5"]), ("cwnd 5", []), ("cwnd lock 40", [])])
def test_a_clamp_of_the_main_table_bounds_our_window(
    hosts: Hosts, driver: RouteDriver, metric: str, found: list[str]
) -> None:
    ip(hosts, f"route add 10.1.0.0/16 via 10.9.0.2 {metric}")
    rules = Rules({"wide": Profile("wide", (("initcwnd", 20),))}, {"10.1.0.0/16": "wide"})
    driver.apply(difference(Rules(), rules))
    assert [(one.applied, one.found.partition(",")[0]) for one in driver.ask(rules).differences] == [
        ("20", window) for window in found
    ]


def test_apply_refuses_where_every_source_is_led_elsewhere(hosts: Hosts, driver: RouteDriver) -> None:
    ip(hosts, "route add default via 10.9.0.66 table 100")
    ip(hosts, f"rule add from {SERVER} lookup 100 pref 1000")
    before = everything(hosts)
    for changes in (Changes(BOTH, {"10.1.0.0/16": "fast"}), Changes(BOTH, {}, default="slow")):
        with pytest.raises(Refused, match="a rule leads its clients to table 100 before"):
            driver.apply(changes)
        assert everything(hosts) == before
    # one address of several is the operator's business: it is applied, and reported
    ip(hosts, "addr add 10.9.0.9/24 dev vs")
    driver.apply(difference(Rules(), RULES))
    assert asked(driver)["10.1.0.0/16", "lookup"] == "table 100, via 10.9.0.66 from 10.9.0.1"


# What the kernel reports.
NOTHING = (frozenset[str](), Rules())


def heard(hosts: Hosts, few: int | None = None) -> RouteDriver:
    """A driver whose rules are in force, and that has looked at all of them once."""
    made = RouteDriver(Place(netns=hosts.server), **({} if few is None else {"few": few}))
    made.apply(difference(Rules(), RULES))
    assert isinstance(made, Listener) and made.news() is None, "before all was looked at once, no look at a few will do"
    made.mark()
    assert made.news() == NOTHING
    return made


OURS = f"table {TABLE} metric 1 proto 67"


@pytest.mark.parametrize(
    ("words", "lost", "prefixes"),
    [
        (f"route del 10.1.0.0/16 table {TABLE}", "10.1.0.0/16", {"10.1.0.0/16"}),
        (f"-6 route del fd01::/32 table {TABLE}", "fd01::/32", {"fd01::/32"}),
        (f"route replace 10.1.0.0/16 via 10.9.0.2 {OURS} initcwnd 5", "10.1.0.0/16", {"10.1.0.0/16"}),
        (f"route add 10.7.0.0/16 via 10.9.0.2 {OURS} initcwnd 4", "", {"10.7.0.0/16"}),
        ("route add 10.7.0.0/16 via 10.9.0.2 table 77", "", set()),
        # what a look at a few does not show is for the whole
        (f"rule del pref 32765 lookup {TABLE}", "192.0.2.7/32", None),
        (f"rule del pref 32765 lookup {TABLE} suppress_prefixlength 15", "10.1.0.0/16", None),
        ("rule del pref 32765 lookup main suppress_prefixlength 16", "10.1.0.0/16", None),
        ("-6 rule del pref 32765 lookup main suppress_prefixlength 32", "fd01::/32", None),
        (f"route add 192.0.2.0/24 via 10.9.0.2 table {TABLE} proto static", "", None),
        (f"route flush table {NOTES_TABLE}", "", None),
        (f"route del default table {TABLE}", "", None),
        ("link set vs down", "", None),
    ],
)
def test_a_foreign_hand_is_heard_seen_and_let_be(
    hosts: Hosts, words: str, lost: str, prefixes: set[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = heard(hosts)
    driver.follow(RULES)
    mark = driver.mark()
    ip(hosts, words)
    if prefixes is None:
        assert driver.news() is None and driver.news() is None
    else:
        with monkeypatch.context() as alone:
            alone.setattr(RouteTable, "seen", lambda _: pytest.fail("the whole table was read"))
            news = driver.news()
            assert driver.news() == NOTHING, "reported once"
        assert news is not None and news[0] == prefixes
        whole = RouteDriver(Place(netns=hosts.server)).read()
        assert news[1].prefixes == {prefix: name for prefix, name in whole.prefixes.items() if prefix in prefixes}
        assert not prefixes or news[1].profiles == whole.profiles
    assert (driver.mark() != mark) == (prefixes != set()), "who asks for the mark afterwards sees it too"
    assert driver.news() == NOTHING and driver.mark() == RouteDriver(Place(netns=hosts.server)).mark()
    if lost:
        assert driver.follow(RULES) == 0 and lost not in driver.read().prefixes


def test_many_are_for_the_whole(hosts: Hosts) -> None:
    driver = heard(hosts, few=1)
    ip(hosts, f"route del 10.1.0.0/16 table {TABLE}")
    ip(hosts, f"route del 192.0.2.7/32 table {TABLE}")
    assert driver.news() is None


def test_more_than_could_be_kept_is_for_the_whole(hosts: Hosts) -> None:
    """The kernel drops what a full socket has no room for, and says so (ENOBUFS)."""
    driver = heard(hosts)
    driver._monitor._net.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    mark = driver.mark()
    elsewhere = [f"route add 172.16.{n}.0/24 dev lo table 77" for n in range(100)]
    lines = "\n".join([*elsewhere, f"route del 10.1.0.0/16 table {TABLE}", ""])
    subprocess.run(["ip", "-n", hosts.server, "-batch", "-"], input=lines, text=True, check=True)
    assert driver.news() is None and driver.mark() != mark and driver.news() == NOTHING


def test_what_hides_behind_longer_prefixes_is_for_the_whole(hosts: Hosts) -> None:
    """Both ends of 10.0.0.0/8 are led by longer ones: no look-up reaches it."""
    driver = heard(hosts)
    driver.apply(Changes({"slow": BOTH["slow"]}, {"10.0.0.0/16": "slow", "10.255.0.0/16": "slow"}))
    driver.mark()
    ip(hosts, f"route del 10.0.0.0/8 table {TABLE}")
    assert driver.news() is None
    mark = driver.mark()
    assert "10.0.0.0/8" not in driver.read().prefixes and mark == RouteDriver(Place(netns=hosts.server)).mark()
