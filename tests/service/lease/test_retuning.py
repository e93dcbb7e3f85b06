# SPDX-License-Identifier: MIT
"""Open connections of a prefix are re-tuned, socket by socket, and put back: connections of two namespaces."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from configtron.db.tuning import Tuning
from configtron.model.nouns import Profile
from configtron.model.tuning import Place
from configtron.service.lease.context import context_of
from configtron.service.lease.retuning import OpenRetuner
from configtron.tune.drivers.route.route_driver import RouteDriver
from tests.support import ROOT
from tests.support.tune.killed_retuning import FAR, NEAR, PROFILES, of
from tests.support.tune.routed import hosts
from tests.support.tune.two_hosts import TCP_CONGESTION, Hosts, congestion_control, window_clamp
from tests.support.waiting import PATIENCE_S

__all__ = ["hosts"]

pytestmark = pytest.mark.root

NOTSENT_LOWAT = (6, 25)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Tuning]:
    with Tuning(tmp_path / "tune.db") as found:
        yield found


def retuner(journal: Tuning, hosts: Hosts) -> OpenRetuner:
    place = Place(netns=hosts.server)
    return OpenRetuner(context_of(journal), RouteDriver(place), place)


def settings(end: socket.socket) -> tuple[str, int, int]:
    """Return congestion control, notsent_lowat, and the window clamp where it is one of ours."""
    clamp = window_clamp(end)
    return congestion_control(end), end.getsockopt(*NOTSENT_LOWAT), clamp if clamp == 20_000 else 0


def test_only_the_prefixs_connections_change_and_each_gets_back_its_own(hosts: Hosts, journal: Tuning) -> None:
    here = retuner(journal, hosts)
    with (
        hosts.connection("10.1.0.2") as (four, _), hosts.connection("10.1.0.2") as (own, _),
        hosts.connection("fd01::2") as (six, _), hosts.connection("10.2.0.2") as (other, _),
    ):  # fmt: skip
        untouched = settings(four)
        # The program chose it: neither its listener's nor a profile's.
        own.setsockopt(*NOTSENT_LOWAT, 1234)
        ended = ExitStack()
        ended_server, _ = ended.enter_context(hosts.connection("10.1.0.2"))
        first = here.retune(of("10.1.0.0/16", NEAR), PROFILES)
        assert (first.connections, first.changed, dict(first.left)) == (3, 3, {})
        assert settings(four) == ("reno", untouched[1], 20_000) and settings(own) == ("reno", 1234, 20_000)
        assert settings(ended_server)[0] == "reno"
        assert settings(six) == settings(other) == untouched
        # To another class: what the former profile set and this one does not is the listener's again.
        second = here.retune(of("10.1.0.0/16", FAR, "b", "c"), PROFILES)
        assert second.changed == 3 and settings(four) == ("reno", 7_000, 0) and settings(own) == ("reno", 1234, 0)
        ended.close()
        own.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, untouched[0].encode())
        four.setsockopt(*NOTSENT_LOWAT, 4321)
        back = here.put_back()
        # The connection that ended is not found; its address and port may be another's by now.
        assert (back.connections, back.put_back, dict(back.left)) == (3, 2, {})
        assert settings(four) == (untouched[0], 4321, 0), "the program has changed it since"
        assert settings(own) == (untouched[0], 1234, 0) and settings(other) == untouched
        assert here.put_back().connections == 0


def test_a_prefix_that_comes_back_to_its_class_gets_what_each_connection_had(hosts: Hosts, journal: Tuning) -> None:
    here = retuner(journal, hosts)
    with hosts.connection("10.1.0.2", "reno") as (one, _), hosts.connection("10.1.0.2") as (two, _):
        had = [settings(end) for end in (one, two)]
        assert had[0] != had[1]
        here.retune(of("10.1.0.0/16", NEAR, "a", "b"), PROFILES)
        assert [settings(end) for end in (one, two)] == [("reno", 0, 20_000)] * 2
        done = here.retune(of("10.1.0.0/16", FAR, "b", "a"), PROFILES)
        assert (done.put_back, done.changed) == (2, 0) and [settings(end) for end in (one, two)] == had
        assert here.put_back().connections == 0


def test_settings_without_a_socket_option_are_counted_by_name(hosts: Hosts, journal: Tuning) -> None:
    clamped = Profile("clamped", (("cwnd_clamp", 2), ("tcp_congestion_control", "reno")))
    with hosts.connection("10.1.0.2"), hosts.connection("10.1.0.2"):
        done = retuner(journal, hosts).retune(of("10.1.0.0/16", clamped), [clamped])
    assert done.text == "2 of 2 open connections re-tuned, 2 cwnd_clamp left"


def test_what_the_time_is_too_short_for_waits(hosts: Hosts, journal: Tuning) -> None:
    with ExitStack() as stack:
        ends = [stack.enter_context(hosts.connection("10.1.0.2"))[0] for _ in range(150)]
        done = retuner(journal, hosts).retune(of("10.1.0.0/16", NEAR), PROFILES, until_s=0.0)
        assert done.changed == 128 == sum(congestion_control(end) == "reno" for end in ends)
        assert len(done.later) == 22


@pytest.mark.parametrize("when", ["journaled", "set"])
def test_a_kill_leaves_a_journal_that_puts_all_back(hosts: Hosts, tmp_path: Path, when: str) -> None:
    """Killed between the journal's rows and the sockets, and after 128 sockets of 150."""
    database = tmp_path / "tune.db"
    with ExitStack() as stack:
        ends = [stack.enter_context(hosts.connection("10.1.0.2"))[0] for _ in range(150)]
        had = [settings(end) for end in ends]
        command = [sys.executable, "-m", "tests.support.tune.killed_retuning", str(database), hosts.server, when]
        done = subprocess.run(command, cwd=ROOT, timeout=PATIENCE_S)
        assert done.returncode == -signal.SIGKILL
        changed = sum(settings(end) == ("reno", 7_000, 0) for end in ends)
        assert changed == (0 if when == "journaled" else 128)
        with Tuning(database) as journal:
            back = retuner(journal, hosts).put_back()
        assert back.put_back == 128 and [settings(end) for end in ends] == had
