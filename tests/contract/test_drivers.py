# SPDX-License-Identifier: MIT
"""Each driver keeps the contract of drivers (tests/support/tune/driver_contract.py), on this host's kernel.

kmod is checked in a guest, which has the module: tests/tune/test_kmod_guest.py.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from configtron.linux.netlink import Netlink
from configtron.linux.netns import inside
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place
from configtron.tune.drivers.memory import MemoryDriver
from configtron.tune.drivers.route.route_driver import RouteDriver
from configtron.tune.drivers.sysctl import BY_KNOB, FOLDER, SysctlDriver
from tests.support.tune.aside import aside
from tests.support.tune.driver_contract import BY_PREFIX, CHECKS, OF_NAMESPACE, Subject
from tests.support.tune.killed import at_any_write
from tests.support.tune.routed import everything, hosts
from tests.support.tune.two_hosts import Hosts

__all__ = ["hosts"]

OTHER = Profile("fast", (("initcwnd", 20),))
OTHER_OF_NAMESPACE = Profile("all", (("tcp_autocorking", 0),))


def of_memory() -> Subject:
    driver = MemoryDriver(Place())
    return Subject(lambda: driver, BY_PREFIX, OTHER, driver.read)


def of_route(hosts: Hosts) -> Subject:
    return Subject(lambda: RouteDriver(Place(netns=hosts.server)), BY_PREFIX, OTHER, lambda: everything(hosts))


def of_sysctl(hosts: Hosts) -> Subject:
    def state() -> dict[str, str]:
        with inside(hosts.server):
            files = {knob: FOLDER / switch.file for knob, switch in BY_KNOB.items()}
            return {knob: file.read_text() for knob, file in files.items() if file.exists()}

    return Subject(lambda: SysctlDriver(Place(netns=hosts.server)), OF_NAMESPACE, OTHER_OF_NAMESPACE, state)


@pytest.mark.parametrize("check", CHECKS)
def test_memory(check: Callable[[Subject], None]) -> None:
    check(of_memory())


@pytest.mark.root
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("subject", [of_route, of_sysctl])
def test_in_a_namespace(hosts: Hosts, subject: Callable[[Hosts], Subject], check: Callable[[Subject], None]) -> None:
    check(subject(hosts))


@pytest.mark.root
@pytest.mark.parametrize(("subject", "singly"), [(of_route, True), (of_sysctl, False)])
def test_killed_at_any_write_it_can_be_reverted(
    hosts: Hosts, subject: Callable[[Hosts], Subject], singly: bool
) -> None:
    """The ebpf driver's calls are cut short in tests/tune/test_ebpf_pins.py.

    singly  a batch is as many writes as it has requests; otherwise one message, which the kernel takes whole
    """
    one = subject(hosts)
    untouched, before = one.state(), one.make().before()

    def sound() -> None:
        one.make().read()
        one.make().revert(before)
        assert one.state() == untouched

    at_any_write(lambda writes: _apply_until(one, writes, singly), sound)


def _apply_until(one: Subject, writes: int, singly: bool) -> None:
    """Apply (few writes: twice), in a process that is killed before its next write to the kernel but so many."""
    left = iter(range(writes))
    send, write = Netlink._send, Path.write_text

    def last_write() -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    def sent(net: Netlink, batch: list[tuple[int, int, bytes]], first: int, forgiven: Sequence[int]) -> None:
        for part in [[request] for request in batch] if singly else [batch]:
            last_write()
            send(net, part, first, forgiven)

    def written(path: Path, text: str) -> int:
        last_write()
        return write(path, text)

    Netlink._send, Path.write_text = sent, written  # type: ignore[method-assign, assignment]
    driver = one.apply()
    if not singly:
        driver.apply(Changes({one.other.name: one.other}))


@pytest.mark.root
def test_ebpf() -> None:
    assert aside("driver_contract.py") == {}
