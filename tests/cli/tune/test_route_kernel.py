# SPDX-License-Identifier: MIT
"""verify, status, watch and rollback by the driver route say what the kernel does, not what a journal or table says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from configtron.model.errors import CONDITION, DONE, REFUSED
from configtron.tune.drivers.route.table import TABLE
from tests.support.children import child
from tests.support.tune.routed import everything, hosts, ip
from tests.support.tune.two_hosts import SERVER, Hosts, congestion_control
from tests.support.tune_command import TuneCommand, rows, tune, wanted

__all__ = ["hosts", "tune", "wanted"]

pytestmark = pytest.mark.root


@pytest.fixture
def applied(wanted: TuneCommand, hosts: Hosts) -> TuneCommand:
    ip(hosts, "addr add 10.9.0.9/24 dev vs")
    ip(hosts, "route add default via 10.9.0.66 table 100")
    assert wanted("apply", "--driver", "route", "--netns", hosts.server, "--keep")[0] == DONE
    assert wanted("verify")[0] == DONE
    return wanted


DIVERTED = [
    (f"rule add from {SERVER} lookup 100 pref 1000", "lookup", "table 100, via 10.9.0.66 from 10.9.0.1"),
    (f"route replace 10.1.0.0/16 via 10.9.0.66 table {TABLE}", "profile", None),
    ("rule add to 10.1.0.0/16 lookup 100 pref 1000", "lookup", "table 100, via 10.9.0.66"),
]


@pytest.mark.parametrize(("words", "knob", "found"), DIVERTED)
def test_who_leads_clients_elsewhere_is_a_difference(
    applied: TuneCommand, hosts: Hosts, words: str, knob: str, found: str | None
) -> None:
    ip(hosts, words)
    code, out, message = applied("verify", "-f", "jsonl")
    differing = [(row["scope"], row["knob"], row["found"]) for row in rows(out)]
    assert code == CONDITION and ("10.1.0.0/16", knob, found) in differing
    (act,) = rows(applied("status", "-f", "jsonl")[1])
    assert "differences in the kernel: configtron tune verify" in str(act["about"])


@pytest.mark.parametrize("words", [words for words, _, _ in DIVERTED])
def test_a_watch_sees_it(applied: TuneCommand, hosts: Hosts, words: str) -> None:
    assert rows(applied("watch", "--for", "0.3", "-f", "jsonl")[1]) == []
    with child(["sh", "-c", f"sleep 0.5; ip -n {hosts.server} {words}"]):
        events = rows(applied("watch", "--for", "2", "-f", "jsonl")[1])
    assert any("10.1.0.0/16" in str(event["scope"]) for event in events)
    frozen = [row["scope"] for row in rows(applied("status", "-f", "jsonl")[1]) if row["kind"] == "frozen"]
    assert "10.1.0.0/16" in frozen


def test_a_longer_route_of_the_main_table_is_without_its_profile_until_a_watch_copies_it(
    applied: TuneCommand, hosts: Hosts
) -> None:
    ip(hosts, "route add 10.1.0.0/28 via 10.9.0.77")
    assert "via 10.9.0.77" in ip(hosts, "route get 10.1.0.5")
    code, out, _ = applied("verify", "-f", "jsonl")
    assert code == CONDITION and rows(out)[0]["scope"] == "10.1.0.0/28"
    assert rows(applied("watch", "--for", "0.3", "-f", "jsonl")[1]) == []
    assert applied("verify")[0] == DONE


def test_many_behind_one_changed_gateway_are_one_row(applied: TuneCommand, hosts: Hosts) -> None:
    assert applied("prefix", "set", *(f"172.16.{n}.0/24" for n in range(50)), "web")[0] == DONE
    assert applied("apply", "--netns", hosts.server, "--keep")[0] == DONE
    ip(hosts, "route replace default via 10.9.0.77")
    code, out, _ = applied("verify", "-f", "jsonl")
    assert code == CONDITION
    assert [(row["found"], str(row["scope"]).partition(",")[0]) for row in rows(out)] == [
        ("via 10.9.0.2", "52 prefixes")]  # fmt: skip


def test_a_rule_about_marks_is_named_and_is_no_difference(applied: TuneCommand, hosts: Hosts) -> None:
    ip(hosts, "rule add fwmark 7 lookup 100 pref 1000")
    code, out, message = applied("verify", "-f", "jsonl")
    (row,) = rows(out)
    assert code == DONE and row["kind"] == "unasked" and "rule 1000: from all fwmark lookup 100" in message


def test_a_rollback_names_what_others_put_among_ours(applied: TuneCommand, hosts: Hosts) -> None:
    ip(hosts, f"route replace 10.1.0.0/16 via 10.9.0.66 table {TABLE}")
    code, out, message = applied("rollback", "-f", "jsonl")
    left = [row["why"] for row in rows(out) if row["status"] == "left"]
    assert code == DONE and left == [f"a route of protocol 3: ip route del 10.1.0.0/16 table {TABLE} metric 0"]
    assert "left as it is, for it is not ours" in message and "10.9.0.66" in ip(hosts, f"route show table {TABLE}")


def test_an_export_played_by_hand_is_seen_and_taken_away(wanted: TuneCommand, hosts: Hosts, tmp_path: Path) -> None:
    bare, there = everything(hosts), ("--netns", hosts.server)
    for words in ((), ("-6",)):
        lines = wanted("export", "--as", "iproute2", *there, *words)[1]
        subprocess.run(["ip", *words, "-n", hosts.server, "-batch", "-"], input=lines, text=True, check=True)
    assert everything(hosts) != bare
    (row,) = rows(wanted("status", *there, "-f", "jsonl")[1])
    assert (row["kind"], row["driver"]) == ("unjournaled", "route") and "in no journal" in str(row["about"])
    code, out, message = wanted("rollback", *there, "-f", "jsonl")
    (row,) = rows(out)
    assert (code, row["act"], row["was"], row["status"]) == (DONE, None, "unjournaled", "undone")
    assert "routes in table" in str(row["why"]) and "nothing of ours" not in message
    assert everything(hosts) == bare
    assert "nothing of ours is in force here" in wanted("rollback", *there)[2]


def test_half_an_export_without_its_names_is_ours_all_the_same(wanted: TuneCommand, hosts: Hosts) -> None:
    bare, there = everything(hosts), ("--netns", hosts.server)
    lines = wanted("export", "--as", "iproute2", "-6", *there)[1]
    subprocess.run(["ip", "-6", "-n", hosts.server, "-batch", "-"], input=lines, text=True, check=True)
    assert len(rows(wanted("status", *there, "-f", "jsonl")[1])) == 1
    assert wanted("rollback", *there)[0] == DONE and everything(hosts) == bare


def test_what_another_database_holds_is_not_taken_away(applied: TuneCommand, hosts: Hosts, tmp_path: Path) -> None:
    before = everything(hosts)
    other = ("--db", str(tmp_path / "other.db"), "tune")
    from configtron.cli.outermost import run

    assert run([*other, "rollback", "--netns", hosts.server]) == DONE and everything(hosts) == before
    assert run([*other, "rollback", "--netns", hosts.server, "--driver", "route"]) == REFUSED
    assert everything(hosts) == before


def test_status_says_that_nothing_is_left(applied: TuneCommand, hosts: Hosts) -> None:
    (act,) = rows(applied("status", "-f", "jsonl")[1])
    assert (act["prefixes"], act["in_force"], act["about"]) == (2, 2, "")
    ip(hosts, f"route flush table {TABLE}")
    ip(hosts, f"-6 route flush table {TABLE}")
    (act,) = rows(applied("status", "-f", "jsonl")[1])
    assert act["in_force"] == 0 and "nothing of it is in force" in str(act["about"])
    (event,) = rows(applied("watch", "--for", "0.3", "-f", "jsonl")[1])
    assert event["scope"] == "place"


def test_an_act_that_names_an_interface_is_in_the_journal(wanted: TuneCommand, hosts: Hosts) -> None:
    there = ("--netns", hosts.server)
    assert wanted("apply", "--driver", "route", "--interface", "vs", *there, "--keep")[0] == DONE
    before = everything(hosts)
    assert [row["kind"] for row in rows(wanted("status", *there, "-f", "jsonl")[1])] == ["act"]
    assert wanted("rollback", *there, "--cgroup", "web")[0] == DONE and everything(hosts) == before


def test_a_rollback_puts_open_connections_back_and_says_so(applied: TuneCommand, hosts: Hosts) -> None:
    with hosts.connection("10.1.0.2") as (end, _):
        assert congestion_control(end) == "reno"
        code, out, message = applied("rollback", "-f", "jsonl")
        (row,) = rows(out)
        assert (code, row["connections"], row["restored"], row["carrying"]) == (DONE, 1, 1, {})
        assert "1 open connections had its profiles: 1 put back" in message
        assert congestion_control(end) != "reno"


def test_a_rollback_says_what_open_connections_carry(applied: TuneCommand, hosts: Hosts) -> None:
    assert applied("profile", "set", "web", "cwnd_clamp=2")[0] == DONE
    assert applied("apply", "--netns", hosts.server, "--keep")[0] == DONE
    with hosts.connection("10.1.0.2"):
        code, out, message = applied("rollback", "-f", "jsonl")
    (row,) = rows(out)
    assert (code, row["connections"], row["restored"], row["carrying"]) == (DONE, 1, 0, {"cwnd_clamp": 1})
    assert "may still carry 1 cwnd_clamp" in message
