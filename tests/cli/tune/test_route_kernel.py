# SPDX-License-Identifier: MIT
"""verify, status, watch and rollback by the driver route say what the kernel does, not what a journal or table says."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.model.errors import CONDITION, DONE, REFUSED
from configtron.tune.drivers.route.table import TABLE
from configtron.tune.drivers.witness import UNSEEN, is_newer
from tests.support.children import child
from tests.support.tune.routed import everything, ip
from tests.support.tune.two_hosts import SERVER, TCP_CONGESTION, Hosts, congestion_control
from tests.support.tune_command import TuneCommand, rows

pytestmark = pytest.mark.root
JSONL = ("-f", "jsonl")


@pytest.fixture
def applied(wanted: TuneCommand, hosts: Hosts) -> TuneCommand:
    ip(hosts, "addr add 10.9.0.9/24 dev vs")
    ip(hosts, "route add default via 10.9.0.66 table 100")
    assert wanted("apply", "--driver", "route", "--netns", hosts.server, "--keep")[0] == DONE
    assert wanted("verify")[0] == DONE
    return wanted


@pytest.mark.parametrize(
    ("words", "knob", "found"),
    [
        (f"rule add from {SERVER} lookup 100 pref 1000", "lookup", "table 100, via 10.9.0.66 from 10.9.0.1"),
        (f"route replace 10.1.0.0/16 via 10.9.0.66 table {TABLE}", "profile", None),
    ],
)
def test_who_leads_clients_elsewhere_is_a_difference_and_a_watch_sees_it(
    applied: TuneCommand, hosts: Hosts, words: str, knob: str, found: str | None
) -> None:
    assert rows(applied("watch", "--for", "0.3", *JSONL)[1]) == []
    with child(["sh", "-c", f"sleep 0.5; ip -n {hosts.server} {words}"]):
        events = rows(applied("watch", "--for", "2", *JSONL)[1])
    assert any("10.1.0.0/16" in str(event["scope"]) for event in events)
    act, *others = rows(applied("status", *JSONL)[1])
    assert "differences in the kernel: configtron tune verify" in str(act["about"])
    assert "10.1.0.0/16" in [row["scope"] for row in others if row["kind"] == "frozen"]
    code, out, _ = applied("verify", *JSONL)
    differing = [(row["scope"], row["knob"], row["found"]) for row in rows(out)]
    assert code == CONDITION and ("10.1.0.0/16", knob, found) in differing


def test_many_behind_one_changed_gateway_are_one_row_and_a_rule_about_marks_is_no_difference(
    applied: TuneCommand, hosts: Hosts
) -> None:
    ip(hosts, "rule add fwmark 7 lookup 100 pref 1000")
    code, out, _ = applied("verify", *JSONL)
    row, unseen = rows(out)
    assert unseen["found"] == UNSEEN and unseen["kind"] == "unasked"
    assert code == DONE and row["kind"] == "unasked" and "rule 1000: from all fwmark lookup 100" in str(row)
    ip(hosts, "rule del pref 1000")
    assert applied("prefix", "set", *(f"172.16.{n}.0/24" for n in range(50)), "web")[0] == DONE
    assert applied("apply", "--netns", hosts.server, "--keep")[0] == DONE
    ip(hosts, "route replace default via 10.9.0.77")
    code, out, _ = applied("verify", *JSONL)
    row, _ = rows(out)
    assert (code, row["found"], str(row["scope"]).partition(",")[0]) == (CONDITION, "via 10.9.0.2", "52 prefixes")


@pytest.mark.parametrize("client", ["10.1.0.2", "fd01::2"])
def test_what_clients_have_is_read_from_their_connections(applied: TuneCommand, hosts: Hosts, client: str) -> None:
    """A program's own choice is named; where no connection of a prefix has what the rule gives, it is a difference."""
    again = ("apply", "--netns", hosts.server, "--keep")
    assert applied("prefix", "set", "fd01::/32", "web")[0] == applied(*again)[0] == DONE
    with (
        hosts.connection(client) as (one, _),
        hosts.connection(client, "cubic") as (two, peer),
        hosts.connection("10.2.0.2", "cubic"),
    ):
        assert "3 open connections looked at: 0 differences" in applied("verify")[2]
        two.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b"cubic")
        code, _, message = applied("verify")
        host, port = f"[{client}]" if ":" in client else client, peer.getsockname()[1]
        assert code == DONE and f"{host}:{port} to port {two.getsockname()[1]}: tcp_congestion_control cubic" in message
        one.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b"cubic")
        code, out, _ = applied("verify", *JSONL)
        differing = {(row["applied"], str(row["found"]).partition(":")[0]) for row in rows(out)}
        assert code == CONDITION and differing == {("reno", "cubic")} and len(rows(out)) == 2
        assert applied("prefix", "set", "10.3.0.0/16", "web")[0] == applied(*again)[0] == DONE
        code, out, _ = applied("verify", *JSONL)
        assert (code, [row["found"] for row in rows(out)]) == (DONE, [UNSEEN]), "opened before"


@pytest.mark.parametrize(
    ("inode", "newest", "newer"),
    [
        (5, [], False), (1030, [1030], False), (1031, [1030], True), (2048, [1030], True), (1029, [1030], False),
        (2049, [1030, 9000], False), (9001, [1030, 9000], True), (9217, [1030, 9000], True),
        (3, [2**32 - 2000], True), (2**32 - 5, [3], False), (1024, [1025], False),
    ],
)  # fmt: skip
def test_which_socket_is_newer(inode: int, newest: list[int], newer: bool) -> None:
    """Each processor counts in a batch of its own; the numbers begin anew."""
    assert is_newer(inode, newest) == newer


def test_a_rollback_names_what_others_put_among_ours(applied: TuneCommand, hosts: Hosts) -> None:
    ip(hosts, f"route replace 10.1.0.0/16 via 10.9.0.66 table {TABLE}")
    code, out, message = applied("rollback", *JSONL)
    left = [row["why"] for row in rows(out) if row["status"] == "left"]
    assert code == DONE and left == [f"a route of protocol 3: ip route del 10.1.0.0/16 table {TABLE} metric 0"]
    assert "left as it is, for it is not ours" in message and "10.9.0.66" in ip(hosts, f"route show table {TABLE}")


@pytest.mark.parametrize("versions", [((), ("-6",)), (("-6",),)], ids=["whole", "half, without its names"])
def test_an_export_played_by_hand_is_seen_and_taken_away(
    wanted: TuneCommand, hosts: Hosts, versions: tuple[tuple[str, ...], ...]
) -> None:
    bare, there = everything(hosts), ("--netns", hosts.server)
    for words in versions:
        lines = wanted("export", "--as", "iproute2", *there, *words)[1]
        subprocess.run(["ip", *words, "-n", hosts.server, "-batch", "-"], input=lines, text=True, check=True)
    assert everything(hosts) != bare
    (row,) = rows(wanted("status", *there, *JSONL)[1])
    assert (row["kind"], row["driver"]) == ("unjournaled", "route") and "in no journal" in str(row["about"])
    code, out, message = wanted("rollback", *there, *JSONL)
    (row,) = rows(out)
    assert (code, row["act"], row["was"], row["status"]) == (DONE, None, "unjournaled", "undone")
    assert "routes in table" in str(row["why"]) and "nothing of ours" not in message
    assert everything(hosts) == bare and "nothing of ours is in force here" in wanted("rollback", *there)[2]


def test_what_another_database_holds_is_not_taken_away(applied: TuneCommand, hosts: Hosts, tmp_path: Path) -> None:
    before = everything(hosts)
    rollback = ("--db", str(tmp_path / "other.db"), "tune", "rollback", "--netns", hosts.server)
    assert [run([*rollback, *by]) for by in ((), ("--driver", "route"))] == [DONE, REFUSED]
    assert everything(hosts) == before


def test_status_says_that_nothing_is_left(applied: TuneCommand, hosts: Hosts) -> None:
    (act,) = rows(applied("status", *JSONL)[1])
    assert (act["prefixes"], act["in_force"], act["about"]) == (2, 2, "")
    ip(hosts, "route del default")
    (act,) = rows(applied("status", *JSONL)[1])
    assert act["in_force"] == 1, "the kernel has no route to one of them"
    for version in (4, 6):
        ip(hosts, f"-{version} route flush table {TABLE}")
    (act,) = rows(applied("status", *JSONL)[1])
    assert act["in_force"] == 0 and "nothing of it is in force" in str(act["about"])
    (event,) = rows(applied("watch", "--for", "0.3", *JSONL)[1])
    assert event["scope"] == "place"


def test_an_act_that_names_an_interface_is_in_the_journal(wanted: TuneCommand, hosts: Hosts) -> None:
    there = ("--netns", hosts.server)
    assert wanted("apply", "--driver", "route", "--interface", "vs", *there, "--keep")[0] == DONE
    before = everything(hosts)
    assert [row["kind"] for row in rows(wanted("status", *there, *JSONL)[1])] == ["act"]
    assert wanted("rollback", *there, "--cgroup", "web")[0] == DONE and everything(hosts) == before


@pytest.mark.parametrize(
    ("knobs", "restored", "carrying", "stated"),
    [
        (["initcwnd=20"], 1, {}, "1 open connections had its profiles: 1 put back"),
        (["cwnd_clamp=2"], 0, {"cwnd_clamp": 1}, "may still carry 1 cwnd_clamp"),
    ],
)
def test_a_rollback_puts_open_connections_back_or_says_what_they_carry(
    applied: TuneCommand, hosts: Hosts, knobs: list[str], restored: int, carrying: dict[str, int], stated: str
) -> None:
    assert applied("profile", "set", "web", *knobs)[0] == DONE
    assert applied("apply", "--netns", hosts.server, "--keep")[0] == DONE
    with hosts.connection("10.1.0.2") as (end, _):
        assert congestion_control(end) == "reno"
        code, out, message = applied("rollback", *JSONL)
        assert congestion_control(end) != "reno"
    (row,) = rows(out)
    assert (code, row["connections"], row["restored"], row["carrying"]) == (DONE, 1, restored, carrying)
    assert stated in message
