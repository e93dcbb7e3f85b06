# SPDX-License-Identifier: MIT
"""Rules go, connections stay: they are put back to what they would have without, or counted."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from configtron.model.errors import Missing
from configtron.model.nouns import Profile, Value
from configtron.model.protocols import Driver
from configtron.model.tuning import Place, Rules
from configtron.tune.drivers.bpf.pins import group
from configtron.tune.drivers.open_connections import Leaving, Restored
from configtron.tune.drivers.route.route_driver import RouteDriver
from configtron.tune.drivers.sysctl import SysctlDriver
from configtron.tune.rules import difference
from tests.support.tune.aside import aside
from tests.support.tune.two_hosts import SERVER, TCP_CONGESTION, Hosts, congestion_control, window_clamp

pytestmark = pytest.mark.root


def web(**settings: Value) -> Rules:
    return Rules({"web": Profile("web", tuple(settings.items()))}, dict.fromkeys(("10.1.0.0/16", "fd01::/32"), "web"))


RENO = web(tcp_congestion_control="reno")


def left(driver: Driver, rules: Rules, now: Rules | None = None) -> Restored:
    """The rules go, as `undo` lets them."""
    leaving = Leaving(driver, driver.place, rules)
    leaving.before()
    driver.revert(driver.before())
    if now is not None:
        driver.apply(difference(Rules(), now))
    return leaving.after(now or Rules())


def counts(place: Place, netns: str, rules: Rules = RENO) -> tuple[int, int]:
    """Of a place's connections, those that may have had the rules, and those that were put back."""
    restored = Leaving(RouteDriver(Place(netns=netns)), place, rules).after(Rules())
    return restored.connections, restored.restored


def set_reno(end: socket.socket) -> None:
    end.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b"reno")


def test_by_the_route_driver(hosts: Hosts, driver: RouteDriver) -> None:
    rules = web(initcwnd=20, tcp_congestion_control="reno", window_clamp=20_000)
    with hosts.connection("10.2.0.2") as (bare, _):
        untouched = congestion_control(bare)
    assert untouched != "reno"
    driver.apply(difference(Rules(), rules))
    with (
        hosts.connection("10.1.0.2") as (four, _), hosts.connection("fd01::2") as (six, _),
        hosts.connection("10.2.0.2") as (other, _), hosts.connection("10.1.0.2", "reno") as (own, _),
        hosts.connection("10.1.0.2") as (since, _),
    ):  # fmt: skip
        assert (congestion_control(four), window_clamp(four)) == ("reno", 20_000)
        since.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b"cubic")
        # each connection is held by this process at both ends' namespaces; only the server's is ours
        assert left(driver, rules) == Restored(4, 4)
        assert (congestion_control(four), congestion_control(six)) == (untouched, untouched)
        assert window_clamp(four) > 1_000_000 and window_clamp(six) > 1_000_000
        assert congestion_control(own) == "reno", "its listener chose it"
        assert congestion_control(since) == "cubic", "the program chose it since"
        assert congestion_control(other) == untouched


@pytest.mark.parametrize(("address", "client"), [("", "10.1.0.2"), ("", "fd01::2"), (SERVER, "10.1.0.2")])
def test_connections_to_other_listeners_are_left_alone(hosts: Hosts, address: str, client: str) -> None:
    """`--listen`: a program at another port chose the profile's congestion control itself, and keeps it."""
    with hosts.connection(client) as (ours, _), hosts.connection(client) as (other, _):
        for one in (ours, other):
            set_reno(one)
        port = ours.getsockname()[1]
        listen = f"{address}:{port}" if address else str(port)
        assert counts(Place(netns=hosts.server, listen=listen), hosts.server) == (1, 1)
        assert congestion_control(ours) != "reno" and congestion_control(other) == "reno"
        assert counts(Place(netns=hosts.server, listen=f"10.9.9.9:{port}"), hosts.server) == (0, 0)


def test_connections_of_another_control_group_are_left_alone(hosts: Hosts) -> None:
    """`--cgroup`: only what a process of that group holds can have had a profile."""
    try:
        root = group(Place())
    except Missing as missing:
        pytest.skip(str(missing))
    ours = (root / Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip().strip("/")) / "cgroup.procs"
    apart = root / f"configtron-test-{os.getpid()}"
    place = Place(netns=hosts.server, cgroup=apart.name)
    apart.mkdir()
    try:
        with hosts.connection("10.1.0.2") as (one, _):
            set_reno(one)
            assert counts(place, hosts.server) == (0, 0) and congestion_control(one) == "reno"
            (apart / "cgroup.procs").write_text(str(os.getpid()))
            assert counts(place, hosts.server)[1] == 1 and congestion_control(one) != "reno"
            assert counts(Place(netns=hosts.server, cgroup=f"{apart.name}-gone"), hosts.server)[0] == 0
    finally:
        ours.write_text(str(os.getpid()))
        apart.rmdir()


def test_what_the_route_driver_cannot_take_back_is_counted(hosts: Hosts, driver: RouteDriver) -> None:
    rules = web(cwnd_clamp=2)
    driver.apply(difference(Rules(), rules))
    with hosts.connection("10.1.0.2"):
        restored = left(driver, rules)
    assert (restored.connections, restored.restored, dict(restored.left)) == (1, 0, {"cwnd_clamp": 1})
    assert restored.text == (
        "1 open connections had its profiles: 0 put back; until they end some may still carry 1 cwnd_clamp"
    )


def test_rules_that_come_back_are_given_and_what_no_connection_keeps_is_none(hosts: Hosts, driver: RouteDriver) -> None:
    driver.apply(difference(Rules(), RENO))
    with hosts.connection("10.1.0.2") as (four, _):
        assert congestion_control(four) == "reno"
        assert left(driver, RENO, web(tcp_congestion_control="cubic")).restored == 1
        assert congestion_control(four) == "cubic"
    driver.revert(driver.before())
    driver.apply(difference(Rules(), web(initcwnd=20)))
    with hosts.connection("10.1.0.2"):
        assert left(driver, web(initcwnd=20)) == Restored()


def test_by_the_sysctl_driver(hosts: Hosts) -> None:
    """A listener that was made under our default has it for good: it gets the default again as well."""
    driver, rules = SysctlDriver(Place(netns=hosts.server)), Rules(RENO.profiles, {}, "web")
    driver.apply(difference(Rules(), rules))
    with hosts.connection("10.1.0.2") as (four, _):
        assert congestion_control(four) == "reno"
        assert left(driver, rules) == Restored(1, 1) and congestion_control(four) != "reno"


def test_by_the_ebpf_driver() -> None:
    """The clamp too, which no option of a program reaches."""
    found = aside("sockets.py", "left")
    assert found["under"] == ["reno", 2, 7000, 3]
    assert found["after"][0] != "reno" and found["after"][2:] == [0, 0] and found["after"][1] > 2
    assert found["restored"] == [1, 1, {}] and found["other"] == found["other after"]
    # its rate is taken back, its pacing is not
    assert found["paced"] == [1, 0, {"pacing": 1}]
