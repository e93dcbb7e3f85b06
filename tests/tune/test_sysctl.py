# SPDX-License-Identifier: MIT
"""The driver sysctl in a namespace of its own: read from real connections, put back exactly, prefixes refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.lab.internet.links import sysctl
from configtron.linux.netns import inside
from configtron.model.errors import BadInput, Refused
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Changes, Place, Rules
from configtron.tune.drivers.sysctl import BY_KNOB, FOLDER, REACHES, SysctlDriver
from tests.support.tune.two_hosts import (
    CLIENTS,
    Hosts,
    congestion_control,
    corked,
    info,
    two_hosts,
    unsent,
    window_after_idle,
)

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with two_hosts() as raised:
        yield raised


@pytest.fixture
def driver(hosts: Hosts) -> Iterator[SysctlDriver]:
    made = SysctlDriver(Place(netns=hosts.server))
    before = made.before()
    yield made
    made.revert(before)


def texts(hosts: Hosts) -> dict[str, str]:
    with inside(hosts.server):
        files = {knob: FOLDER / switch.file for knob, switch in BY_KNOB.items()}
        return {knob: file.read_text().strip() for knob, file in files.items() if file.exists()}


def assign(driver: SysctlDriver, name: str = "all", **settings: Value) -> Profile:
    profile = Profile(name, tuple(settings.items()))
    assert driver.apply(Changes({name: profile}, default=name)) == Rules({name: profile}, {}, name)
    return profile


@pytest.mark.proof
def test_tcp_congestion_control(hosts: Hosts, driver: SysctlDriver) -> None:
    def chosen() -> str:
        with hosts.connection(CLIENTS[0]) as (theirs, _):
            return congestion_control(theirs)

    other = "reno" if chosen() != "reno" else "cubic"
    assign(driver, tcp_congestion_control=other)
    assert chosen() == other


def test_min_rto(hosts: Hosts, driver: SysctlDriver) -> None:
    if "min_rto" not in driver.settable():
        pytest.skip("tcp_rto_min_us came with Linux 6.11")
    assign(driver, min_rto=1.5)
    with hosts.connection(CLIENTS[0]) as (theirs, _):
        assert info(theirs).rto_us >= 1_500_000


def test_notsent_lowat(hosts: Hosts, driver: SysctlDriver) -> None:
    untouched = unsent(hosts, CLIENTS[0])
    assign(driver, notsent_lowat=20_000)
    assert unsent(hosts, CLIENTS[0]) + 100_000 < untouched


def test_tcp_window_scaling(hosts: Hosts, driver: SysctlDriver) -> None:
    def scaled() -> bool:
        with hosts.connection(CLIENTS[0]) as (theirs, _):
            return bool(info(theirs).options & 4)  # TCPI_OPT_WSCALE

    assert scaled()
    assign(driver, tcp_window_scaling=0)
    assert not scaled()


def test_tcp_slow_start_after_idle(hosts: Hosts, driver: SysctlDriver) -> None:
    # bbr never restarts
    assign(driver, tcp_congestion_control="reno")
    grown, again = window_after_idle(hosts, CLIENTS[0])
    assert again < grown
    assign(driver, tcp_congestion_control="reno", tcp_slow_start_after_idle=0)
    grown, again = window_after_idle(hosts, CLIENTS[0])
    assert again >= grown


def test_tcp_autocorking(hosts: Hosts, driver: SysctlDriver) -> None:
    assert corked(hosts, CLIENTS[0]) > 0
    assign(driver, tcp_autocorking=0)
    assert corked(hosts, CLIENTS[0]) == 0


def test_every_knob_has_its_test() -> None:
    assert {name.removeprefix("test_") for name in globals() if name.startswith("test_")} >= set(REACHES)


def test_what_stood_before_comes_back_exactly(hosts: Hosts, driver: SysctlDriver) -> None:
    sysctl(hosts.server, [("net/ipv4/tcp_notsent_lowat", "131072")])
    untouched, before = texts(hosts), driver.before()
    assign(driver, notsent_lowat=20_000, tcp_autocorking=0, tcp_congestion_control="reno")
    later = SysctlDriver(Place(netns=hosts.server))
    assert later.before() == before, "asked while in force, it still says what was before"
    for _ in range(2):
        later.revert(before)
        assert texts(hosts) == untouched
    assert later.read() == Rules()


def test_a_knob_that_a_later_profile_leaves_out_goes_back(hosts: Hosts, driver: SysctlDriver) -> None:
    untouched = texts(hosts)
    assign(driver, tcp_autocorking=0, tcp_slow_start_after_idle=0)
    assign(driver, "second", tcp_slow_start_after_idle=0)
    assert texts(hosts) == untouched | {"tcp_slow_start_after_idle": "0"}
    driver.apply(Changes(default=""))
    assert texts(hosts) == untouched
    assert driver.read().default == "" and set(driver.read().profiles) == {"all", "second"}


def test_what_we_never_set_is_not_put_back(hosts: Hosts, driver: SysctlDriver) -> None:
    before = driver.before()
    assign(driver, tcp_autocorking=0)
    sysctl(hosts.server, [("net/ipv4/tcp_slow_start_after_idle", "0")])
    driver.revert(before)
    assert texts(hosts)["tcp_slow_start_after_idle"] == "0"
    sysctl(hosts.server, [("net/ipv4/tcp_slow_start_after_idle", "1")])


def test_a_foreign_hand_is_seen(hosts: Hosts, driver: SysctlDriver) -> None:
    assign(driver, tcp_autocorking=0)
    mark = driver.mark()
    assert driver.mark() == mark
    sysctl(hosts.server, [("net/ipv4/tcp_autocorking", "1")])
    assert driver.mark() != mark
    assert driver.read().profiles["all"] == Profile("all", (("tcp_autocorking", 1),))


def test_what_a_foreign_hand_set_is_let_be(hosts: Hosts, driver: SysctlDriver) -> None:
    untouched, before = texts(hosts), driver.before()
    assign(driver, tcp_autocorking=0, notsent_lowat=20_000, tcp_slow_start_after_idle=0)
    sysctl(hosts.server, [("net/ipv4/tcp_notsent_lowat", "30000")])
    assign(driver, "second", tcp_slow_start_after_idle=0)
    assert texts(hosts) == untouched | {"notsent_lowat": "30000", "tcp_slow_start_after_idle": "0"}
    assign(driver, "third", tcp_slow_start_after_idle=0, notsent_lowat=20_000)
    sysctl(hosts.server, [("net/ipv4/tcp_notsent_lowat", "40000")])
    for _ in range(2):
        driver.revert(before)
        assert texts(hosts) == untouched | {"notsent_lowat": "40000"}
    sysctl(hosts.server, [("net/ipv4/tcp_notsent_lowat", untouched["notsent_lowat"])])


def test_prefixes_are_refused(hosts: Hosts, driver: SysctlDriver) -> None:
    untouched = texts(hosts)
    with pytest.raises(BadInput, match="192.0.2.0/24: the driver sysctl sets a whole namespace"):
        driver.apply(Changes({"p": Profile("p", (("tcp_autocorking", 0),))}, {"192.0.2.0/24": "p"}, default="p"))
    with pytest.raises(BadInput, match="initcwnd=4: the driver sysctl cannot set it: no sysctl for it"):
        driver.apply(Changes({"p": Profile("p", (("initcwnd", 4),))}))
    assert texts(hosts) == untouched


def test_what_the_kernel_refuses_is_put_back(
    hosts: Hosts, driver: SysctlDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "vegas" in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text():
        pytest.skip("this kernel has every congestion control of the papers")
    untouched, notes = texts(hosts), driver.read()
    profile = Profile("p", (("tcp_autocorking", 0), ("tcp_congestion_control", "vegas")))
    with pytest.raises(BadInput, match="'vegas': out of reach of the driver sysctl, which takes "):
        driver.apply(Changes({"p": profile}, default="p"))
    assert texts(hosts) == untouched and driver.read() == notes
    # A module may go between that look and the write: then the kernel itself refuses.
    monkeypatch.setattr("configtron.tune.drivers.sysctl.check", lambda *_: None)
    with pytest.raises(Refused, match="tcp_congestion_control = vegas: .*available: "):
        driver.apply(Changes({"p": profile}, default="p"))
    assert texts(hosts) == untouched and driver.read() == notes


def test_the_first_namespace_is_not_touched(hosts: Hosts, driver: SysctlDriver) -> None:
    ours = {knob: (FOLDER / switch.file).read_text() for knob, switch in BY_KNOB.items()}
    assign(driver, tcp_autocorking=0, tcp_slow_start_after_idle=0, notsent_lowat=20_000)
    assert {knob: (FOLDER / switch.file).read_text() for knob, switch in BY_KNOB.items()} == ours
    assert set(json.loads(driver.before())) == set(driver.settable())
