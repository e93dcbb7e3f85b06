# SPDX-License-Identifier: MIT
"""Rules as other tools' configuration: what those tools make of it is read back as our own, or reported as left out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.db.tuning import Tuning
from configtron.linux.netns import inside
from configtron.model.nouns import Profile
from configtron.model.tuning import Place, Rules
from configtron.tune.drivers.route.route_driver import RouteDriver
from configtron.tune.drivers.sysctl import FOLDER
from configtron.tune.export import Draft, iproute2, networkd
from configtron.tune.route_table import THROW, Hop, RouteKey, RouteWay
from configtron.tune.rules import difference
from tests.support.tune.routed import everything, ip, several
from tests.support.tune.two_hosts import Hosts

Spoken = pytest.CaptureFixture[str]

WHOLE = Profile(
    "whole", (("cwnd_clamp", 90), ("initcwnd", 30), ("initrwnd", 20), ("min_rto", 0.02), ("quickack", 1),
              ("tcp_congestion_control", "reno"), ("window_clamp", 60_000)),
)  # fmt: skip
RULES = Rules(
    {"whole": WHOLE, "slow": Profile("slow", (("initcwnd", 4),))},
    {"10.0.0.0/8": "slow", "10.1.0.0/16": "whole", "203.0.113.0/24": "slow", "fd01::/32": "whole"},
    "slow",
)


def database(path: Path, rules: Rules) -> str:
    with Tuning(path) as book:
        book.set_profiles(rules.profiles.values())
        book.set_prefixes(rules.prefixes)
        book.set_default(rules.default)
    return str(path)


@pytest.mark.root
def test_iproute2_makes_what_the_driver_reads_as_its_own(hosts: Hosts, tmp_path: Path, capsys: Spoken) -> None:
    several(hosts, "mtu lock 1400")
    ip(hosts, "route add 203.0.113.0/24 via inet6 fd09::9 dev vs")
    ip(hosts, "route add 10.7.0.0/16 via 10.66.0.1 dev vs onlink")
    bare, db = everything(hosts), database(tmp_path / "x.db", RULES)
    for form in ("networkd", "sysctl", "iproute2"):
        assert run(["--db", db, "tune", "export", "--as", form, "--netns", hosts.server]) == 0
    assert everything(hosts) == bare, "an export changes nothing"
    capsys.readouterr()
    for words in ((), ("-6",)):
        assert run(["--db", db, "tune", "export", "--as", "iproute2", "--netns", hosts.server, *words]) == 0
        command = ["ip", *words, "-netns", hosts.server, "-batch", "-"]
        done = subprocess.run(command, input=capsys.readouterr().out, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    driver = RouteDriver(Place(netns=hosts.server))
    assert driver.read() == RULES
    theirs = everything(hosts)
    assert driver.follow(RULES) == 0, "every route is as the driver would have made it"
    driver.revert(driver.before())
    assert everything(hosts) == bare
    driver.apply(difference(Rules(), RULES))
    assert everything(hosts) == theirs


@pytest.mark.root
def test_sysctl_takes_it(hosts: Hosts, tmp_path: Path, capsys: Spoken) -> None:
    if not shutil.which("sysctl"):
        pytest.skip("needs procps")
    profile = Profile("all", (("initcwnd", 4), ("notsent_lowat", 20_000), ("tcp_slow_start_after_idle", 0)))
    db = database(tmp_path / "x.db", Rules({"all": profile}, {"192.0.2.0/24": "all"}, "all"))
    assert run(["--db", db, "tune", "export", "--as", "sysctl", "-o", str(tmp_path / "s.conf")]) == 0
    written = (tmp_path / "s.conf").read_text()
    assert "# left out: initcwnd=4 of profile all: no sysctl for it" in written and "1 prefixes" in written
    with inside(hosts.server):
        subprocess.run(["sysctl", "-q", "-p", str(tmp_path / "s.conf")], check=True)
        assert (FOLDER / "tcp_notsent_lowat").read_text() == "20000\n"
        assert (FOLDER / "tcp_slow_start_after_idle").read_text() == "0\n"


def test_nothing_wanted_is_nothing_stated(tmp_path: Path, capsys: Spoken) -> None:
    assert run(["--db", database(tmp_path / "x.db", Rules()), "tune", "export", "--as", "sysctl"]) == 0
    assert capsys.readouterr().out == ""


DRAFT = Draft(
    {
        RouteKey(4, bytes((10, 1, 0, 0)), 16, 1): RouteWay(
            hops=(Hop(2, "10.9.0.2"),), metrics=((1, 1 << 13), (3, 9000), (11, 30), (13, 20), (15, 1), (16, "bbr"))),
        RouteKey(4, bytes((10, 2, 0, 0)), 16, 1): THROW,
        RouteKey(6, bytes(16), 0, 20001): RouteWay(
            hops=(Hop(2, "fd09::2", 1), Hop(3, "fd08::2", 5)), metrics=((11, 4),)),
    },
    (), table=7, notes_table=8, preference=9, interfaces={2: "eth0", 3: "eth1"},
)  # fmt: skip


def test_iproute2_in_words() -> None:
    metrics = "window 9000 initcwnd 30 rto_min 20ms quickack 1 congctl bbr"
    assert list(iproute2(DRAFT, 4)) == [
        "route replace throw 10.2.0.0/16 table 7 proto 68 metric 1",
        f"route replace 10.1.0.0/16 table 7 proto 67 metric 1 via inet 10.9.0.2 dev eth0 {metrics}",
        "rule add pref 9 lookup main suppress_prefixlength 16 proto 67",
        "rule add pref 9 lookup 7 suppress_prefixlength 15 proto 67",
    ]
    assert list(iproute2(DRAFT, 6))[0] == (
        "route replace ::/0 table 7 proto 68 metric 20001 initcwnd 4 "
        "nexthop via inet6 fd09::2 dev eth0 weight 1 nexthop via inet6 fd08::2 dev eth1 weight 5"
    )


def test_networkd_in_words() -> None:
    written = "\n".join(networkd(DRAFT))
    assert (
        "[RoutingPolicyRule]\nTable=main\nPriority=8\nFamily=ipv4\nSuppressPrefixLength=16\n\n"
        "[RoutingPolicyRule]\nTable=7\nPriority=9\nFamily=ipv4\nSuppressPrefixLength=15\n\n"
        "[RoutingPolicyRule]\nTable=main\nPriority=8\nFamily=ipv6\nSuppressPrefixLength=0\n\n"
        "[RoutingPolicyRule]\nTable=7\nPriority=9\nFamily=ipv6\n\n"
    ) in written
    assert (
        "[Route]\nDestination=10.1.0.0/16\nTable=7\nMetric=1\nProtocol=67\nGateway=10.9.0.2\n"
        "# left out: networkd has no word for window_clamp=9000\nInitialCongestionWindow=30\n"
        "TCPRetransmissionTimeoutSec=20ms\nQuickAck=yes\nTCPCongestionControlAlgorithm=bbr\n"
    ) in written
    assert "[Route]\nDestination=10.2.0.0/16\nTable=7\nMetric=1\nProtocol=68\nType=throw\n" in written
    assert "MultiPathRoute=fd09::2@eth0 1\nMultiPathRoute=fd08::2@eth1 5\nInitialCongestionWindow=4\n" in written
