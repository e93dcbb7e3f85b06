# SPDX-License-Identifier: MIT
"""The driver sysctl in a namespace of its own: read from real connections, put back exactly, prefixes refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from configtron.lab.internet.links import sysctl
from configtron.linux.netns import inside
from configtron.model.errors import BadInput, Refused
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Changes, Place, Rules
from configtron.tune.drivers.sysctl import BY_KNOB, FOLDER, REACHES, SysctlDriver
from tests.support.tune.routed import hosts_of_module
from tests.support.tune.two_hosts import (
    CLIENTS,
    Hosts,
    congestion_control,
    corked,
    info,
    unsent,
    window_after_idle,
)

__all__ = ["hosts_of_module"]

pytestmark = pytest.mark.root
FILES = {knob: FOLDER / switch.file for knob, switch in BY_KNOB.items()}


@pytest.fixture
def driver(hosts: Hosts) -> Iterator[SysctlDriver]:
    made = SysctlDriver(Place(netns=hosts.server))
    before = made.before()
    yield made
    made.revert(before)


def texts(hosts: Hosts) -> dict[str, str]:
    with inside(hosts.server):
        return {knob: file.read_text().strip() for knob, file in FILES.items() if file.exists()}


def assign(driver: SysctlDriver, name: str = "all", **settings: Value) -> Profile:
    profile = Profile(name, tuple(settings.items()))
    assert driver.apply(Changes({name: profile}, default=name)) == Rules({name: profile}, {}, name)
    return profile


def control(hosts: Hosts) -> str:
    with hosts.connection(CLIENTS[0]) as (theirs, _):
        return congestion_control(theirs)


def rto_us(hosts: Hosts) -> int:
    with hosts.connection(CLIENTS[0]) as (theirs, _):
        return info(theirs).rto_us


def scaled(hosts: Hosts) -> bool:
    with hosts.connection(CLIENTS[0]) as (theirs, _):
        return bool(info(theirs).options & 4)  # TCPI_OPT_WSCALE


def restarted(hosts: Hosts) -> bool:
    """Whether the window after a pause is smaller."""
    grown, again = window_after_idle(hosts, CLIENTS[0])
    return again < grown


PROVED = pytest.param("tcp_congestion_control", marks=pytest.mark.proof)
# Each knob: what a connection shows of it, the value that is set, whether what was seen before and after it differ so.
Seen = Callable[[Hosts], object]
SEEN: dict[str, tuple[Seen, Value, Callable[[object, object], bool]]] = {
    "tcp_congestion_control": (control, "vary", lambda was, now: was != now),
    "min_rto": (rto_us, 1.5, lambda was, now: was < 1_500_000 <= now),  # type: ignore[operator]
    "notsent_lowat": (lambda at: unsent(at, CLIENTS[0]), 20_000, lambda was, now: now + 100_000 < was),  # type: ignore
    "tcp_window_scaling": (scaled, 0, lambda was, now: (was, now) == (True, False)),
    "tcp_slow_start_after_idle": (restarted, 0, lambda was, now: (was, now) == (True, False)),
    "tcp_autocorking": (lambda at: corked(at, CLIENTS[0]), 0, lambda was, now: was > 0 == now),  # type: ignore
}


@pytest.mark.parametrize("knob", [PROVED, *(knob for knob in REACHES if knob not in PROVED.values)])
def test_a_connection_shows_the_knob(hosts: Hosts, driver: SysctlDriver, knob: str) -> None:
    seen, value, differ = SEEN[knob]
    if knob not in driver.settable():
        pytest.skip("tcp_rto_min_us came with Linux 6.11")
    other = {}
    if knob == "tcp_slow_start_after_idle":  # bbr never restarts
        other = {"tcp_congestion_control": "reno"}
        assign(driver, **other)
    was = seen(hosts)
    if value == "vary":
        value = "reno" if was != "reno" else "cubic"
    assign(driver, **other, **{knob: value})
    assert differ(was, seen(hosts))


def test_what_stood_before_comes_back_exactly(hosts: Hosts, driver: SysctlDriver) -> None:
    sysctl(hosts.server, [("net/ipv4/tcp_notsent_lowat", "131072")])
    untouched, before = texts(hosts), driver.before()
    assert set(json.loads(before)) == set(driver.settable())
    assign(driver, notsent_lowat=20_000, tcp_autocorking=0, tcp_congestion_control="reno")
    later = SysctlDriver(Place(netns=hosts.server))
    assert later.before() == before, "asked while in force, it still says what was before"
    later.revert(before)
    assert texts(hosts) == untouched


def test_a_route_that_names_another_control_is_a_difference(hosts: Hosts, driver: SysctlDriver) -> None:
    driver.apply(Changes({"reno": Profile("reno", (("tcp_congestion_control", "reno"),))}, default="reno"))
    routes = [("198.51.100.64/26", "cubic"), ("203.0.113.7/32", "cubic"), ("2001:db8:7::/48", "cubic"),
              ("198.51.100.128/26", "reno")]  # fmt: skip
    assert driver.ask(driver.read()).differences == () and driver.ask(Rules()).differences == ()
    for act in ("add", "del"):
        # The first address of a route may be this host's own.
        subprocess.run(["ip", "-n", hosts.server, "address", act, "198.51.100.65/32", "dev", "lo"], check=True)
        for prefix, congctl in routes:
            subprocess.run(
                ["ip", "-n", hosts.server, "route", act, prefix, "dev", "lo", "congctl", congctl], check=True
            )
        found = {(one.scope, one.applied, one.found.split(",")[0]) for one in driver.ask(driver.read()).differences}
        assert found == ({(prefix, "reno", "cubic") for prefix, _ in routes[:3]} if act == "add" else set())


def test_a_knob_that_a_later_profile_leaves_out_goes_back(hosts: Hosts, driver: SysctlDriver) -> None:
    untouched, first_namespace = texts(hosts), {file.name: file.read_text() for file in FILES.values() if file.exists()}
    assign(driver, tcp_autocorking=0, tcp_slow_start_after_idle=0)
    assert {file.name: file.read_text() for file in FILES.values() if file.exists()} == first_namespace
    assign(driver, "second", tcp_slow_start_after_idle=0)
    assert texts(hosts) == untouched | {"tcp_slow_start_after_idle": "0"}
    driver.apply(Changes(default=""))
    assert texts(hosts) == untouched
    assert driver.read().default == "" and set(driver.read().profiles) == {"all", "second"}


def test_what_another_program_set_is_seen_and_let_be(hosts: Hosts, driver: SysctlDriver) -> None:
    untouched, before = texts(hosts), driver.before()
    assign(driver, tcp_autocorking=0, notsent_lowat=20_000)
    mark = driver.mark()
    sysctl(hosts.server, [("net/ipv4/tcp_notsent_lowat", "30000"), ("net/ipv4/tcp_slow_start_after_idle", "0")])
    assert driver.mark() != mark
    assert dict(driver.read().profiles["all"].settings) == {"tcp_autocorking": 0, "notsent_lowat": 30_000}
    assign(driver, "second", tcp_autocorking=0)
    theirs = {"notsent_lowat": "30000", "tcp_slow_start_after_idle": "0"}
    assert texts(hosts) == untouched | theirs | {"tcp_autocorking": "0"}
    assign(driver, "third", tcp_autocorking=0, notsent_lowat=20_000)
    sysctl(hosts.server, [("net/ipv4/tcp_notsent_lowat", "40000"), ("net/ipv4/tcp_autocorking", "1")])
    for _ in range(2):
        driver.revert(before)
        assert texts(hosts) == untouched | theirs | {"notsent_lowat": "40000"}
    sysctl(hosts.server, [(f"net/ipv4/{BY_KNOB[knob].file}", untouched[knob]) for knob in theirs])


def test_prefixes_are_refused(hosts: Hosts, driver: SysctlDriver) -> None:
    untouched = texts(hosts)
    with pytest.raises(BadInput, match="192.0.2.0/24: the driver sysctl sets a whole namespace"):
        driver.apply(Changes({"p": Profile("p", (("tcp_autocorking", 0),))}, {"192.0.2.0/24": "p"}, default="p"))
    with pytest.raises(BadInput, match="initcwnd=4 is out of reach of the driver sysctl: no sysctl for it"):
        driver.apply(Changes({"p": Profile("p", (("initcwnd", 4),))}))
    assert texts(hosts) == untouched


def test_what_the_kernel_refuses_is_put_back(
    hosts: Hosts, driver: SysctlDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "vegas" in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text():
        pytest.skip("this kernel has every congestion control of the papers")
    untouched, notes = texts(hosts), driver.read()
    profile = Profile("p", (("tcp_autocorking", 0), ("tcp_congestion_control", "vegas")))
    with pytest.raises(BadInput, match="=vegas is out of reach of the driver sysctl, which takes "):
        driver.apply(Changes({"p": profile}, default="p"))
    assert texts(hosts) == untouched and driver.read() == notes
    # A module may go between that look and the write: then the kernel itself refuses.
    monkeypatch.setattr("configtron.tune.drivers.sysctl.check_reach", lambda *_: None)
    with pytest.raises(Refused, match="tcp_congestion_control = vegas: .*available: "):
        driver.apply(Changes({"p": profile}, default="p"))
    assert texts(hosts) == untouched and driver.read() == notes
