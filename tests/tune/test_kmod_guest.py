# SPDX-License-Identifier: MIT
"""The module in a guest of the lab: real packets through netem in virtual time, every call, every cell, unloading."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from configtron.lab.uml.modules import ensure_tree, make_module
from configtron.lab.uml.recipes import LAB
from configtron.tune.drivers.kmod.abi import CALLS, KEYS
from configtron.tune.drivers.kmod.module_units import NEEDS_ECN, REACHES, REFUSED
from tests.support import ROOT
from tests.support.tune.kmod_device import EVERYTHING, OPTIONS
from tests.support.tune.kmod_wire import CONTROLS, WAYS, WINDOWS

pytestmark = pytest.mark.lab

Findings = dict[str, Any]
Guest = Callable[..., Findings]
PLANTED = ROOT / "tests" / "support" / "kmod" / "planted"

# What connections have of two profiles of `kmod_driver.py` while the module is switched off.
WIDE = [["tcp_congestion_control", "bbr", "reno"], ["initcwnd", "40", "10"]]
NARROW = ["initcwnd", "4", "10"]


@pytest.fixture(scope="module")
def schemes(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    tree = ensure_tree(lambda line: print(line, file=sys.stderr))
    built = make_module(PLANTED, tmp_path_factory.mktemp("planted") / "objects", tree, LAB.arch)
    return guest("kmod_device schemes", *(str(path) for path in built if path.name == "replacing.ko"))


@pytest.mark.proof
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("control", CONTROLS)
def test_first_flights_are_exact(guest: Guest, way: str, control: str) -> None:
    seen = guest("kmod_wire")["flights"]
    assert {window: seen[f"{way} {control} {window}"] for window in WINDOWS} == {n: float(n) for n in WINDOWS}
    assert len(seen) == len(list(product(WAYS, CONTROLS, WINDOWS)))


def test_pacing(guest: Guest) -> None:
    """(segments, milliseconds): 40 segments over some of a round trip of 100 ms, or at once."""
    spreads = guest("kmod_wire")["spreads"]
    assert all(spreads[name][0] == 40 for name in ("cubic", "cubic paced", "bbr", "bbr unpaced", "at 1 MB/s"))
    assert all(spreads[name][1] < 0.1 for name in ("cubic", "bbr unpaced"))
    assert all(20 < spreads[name][1] < 60 for name in ("cubic paced", "bbr", "at 1 MB/s"))
    assert spreads["clamped"][0] == 7


def test_the_window_after_a_pause(guest: Guest) -> None:
    """The kernel's own restart window, the profile's, or all of it, as far as the client's window lets it show."""
    idles = guest("kmod_wire")["idles"]
    assert all(window > 250 for window, _ in idles.values())
    assert (idles["cubic"][1], idles["cubic 30"][1]) == (10, 30)
    assert all(idles[f"{control} kept"][1] > 150 for control in ("cubic", "reno", "vegas"))


@pytest.mark.parametrize(
    ("name", "seconds", "within"),
    [("default", 0.31, 0.02), ("settled", 0.31, 0.02), ("settled, min_rto 20 ms", 0.13, 0.02),
     ("min_rto 1 s", 1.11, 0.04), ("data_rto 1.5 s", 1.5, 0.06), ("data_rto 150 ms", 0.15, 0.02)],
)  # fmt: skip
def test_timers(guest: Guest, name: str, seconds: float, within: float) -> None:
    """Seconds to the first repetition; ticks of 10 ms, a round trip of 0.1 s."""
    assert guest("kmod_wire")["timers"][name] == pytest.approx(seconds, abs=within)


def test_open_connections_of_a_prefix_get_another_profile_and_their_own_back(guest: Guest) -> None:
    """Congestion control, the module's profile, notsent_lowat, priority; other clients keep what they have."""
    retuned = guest("kmod_driver retuned")
    near, far, none = ["vegas", "near", 5000, 0], ["bbr", "far", 0, 3], ["cubic", "", 0, 0]
    begun = {"changes": near, "changes too": near, "another prefix": near, "no prefix": none}
    assert retuned["begun"] == begun and retuned["text"] == "2 of 2 open connections re-tuned"
    assert retuned["changed"] == {**begun, "changes": far, "changes too": far}
    assert (retuned["back"], retuned["after"]) == (2, begun)


@pytest.mark.parametrize("knob", EVERYTHING)
def test_each_cell_is_read_back(guest: Guest, knob: str) -> None:
    """From the profile, from the socket and its options, and unlike what a socket without a profile has."""
    cells = guest("kmod_device calls")["cells"]
    assert cells["profile's"][knob] == cells["socket"][knob] == EVERYTHING[knob] != cells["untouched"][knob]
    if knob in OPTIONS:  # TCP_NODELAY is the opposite of nagle
        assert cells["options"][knob] == (1 if knob == "nagle" else EVERYTHING[knob])


def test_the_rest_is_refused_in_words(guest: Guest) -> None:
    cells = guest("kmod_device calls")["cells"]
    reported = {name: (settable, words) for name, settable, words in cells["parameters"]}
    assert list(reported) == list(KEYS.values()) and OPTIONS and set(OPTIONS) <= EVERYTHING.keys()
    assert {name for name, (settable, _) in reported.items() if settable} == EVERYTHING.keys()
    assert {name for name, (settable, _) in reported.items() if not settable} == REFUSED.keys() & reported.keys()
    assert all(words for _, words in reported.values()) and cells["profile"]


def test_the_drivers_table_is_the_modules(guest: Guest) -> None:
    """On this kernel, where everything can be set; of congestion controls there are those that it has."""
    table = {knob: [list(reach.values), reach.least, reach.most, reach.note] for knob, reach in REACHES.items()}
    reported = dict(guest("kmod_device calls")["cells"]["reaches"])
    controls = set(reported["tcp_congestion_control"][0])
    assert {"bbr", "cubic", "reno", "vegas", "westwood"} <= controls and "dctcp" not in controls
    table["tcp_congestion_control"][0] = reported["tcp_congestion_control"][0]
    assert reported == table


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("range", "ERANGE"), ("above", "ERANGE"), ("half", "ERANGE"), ("impossible", "ENOTSUP"),
        ("no such control", "ENOENT"), ("ourselves", "EINVAL"), ("unknown key", "EINVAL"),
        ("no such profile", "ENOENT"), ("prefix of no profile", "ENOENT"), ("stray bits", "EINVAL"),
        ("mapped", "EINVAL"), ("too long", "EINVAL"), ("delete no profile", "ENOENT"),
        ("read before records", "ENODATA"), ("no such call", "ENOTTY"), ("unconnected", "ENOTCONN"),
        ("not TCP", "ENOPROTOOPT"), ("no descriptor", "EBADF"), ("delete with prefixes", "EBUSY"),
        ("delete the default", "EBUSY"),
        # a batch is taken whole or not at all
        ("settings kept", '{"1": 20}'),
    ],
)  # fmt: skip
def test_refusals(guest: Guest, what: str, error: str) -> None:
    assert guest("kmod_device calls")["refusals"][what] == error


def test_every_call_asks_for_the_capability(guest: Guest) -> None:
    found = dict(guest("kmod_device calls")["unprivileged"])
    assert found == {"open": "EACCES", **dict.fromkeys([*CALLS, "read"], "EPERM")}


LIVES = {
    "by prefix": ["bbr", 40], "older version lives": ["bbr", "reno"], "assigned": ["vegas", True],
    "given back": ["cubic", 0], "application chose": ["reno", 0], "application chose us": ["reno", True],
    "listener": "ENOTCONN", "listener of its own": ["reno", 0], "switches": ["cubic", "reno", "vegas"],
    "actives": [["cubic", False], ["vegas", True]], "reconnected": [1, 1, 1, 1],
}  # fmt: skip


@pytest.mark.parametrize(
    ("program", "what", "expected"),
    [
        ("kmod_device lives", "lives", LIVES),
        ("kmod_device lives", "namespaces", {"apart": [2, 0, True], "inherited": "cubic", "stranger": "EXDEV"}),
        # what was opened was closed, no version is left but one a profile and namespace; EBUSY before, gone after
        ("kmod_device lives", "versions", 0),
        ("kmod_device lives", "busy", 11),
        ("kmod_driver rules", "default", ["configtron", "cubic", True]),
        ("kmod_driver rules", "by route", [0, ["10.1.2.0/24", "configtron", "reno, by a route (ip route: congctl)"]]),
        ("kmod_driver rules", "switched off", [10, True, True]),
        # as the rules say; by a route with congctl; switched off: a client's connection, then our own ones
        ("kmod_driver rules", "lacking", [[], [["initcwnd", "4", "5"]], [*WIDE, NARROW] * 2]),
        ("kmod_driver rules", "before", '{"tcp_congestion_control": "reno"}'),
        ("kmod_driver rules", "windows", {"10.1.0.9": 40, "10.1.2.9": 4, "10.7.0.9": 4}),
        ("kmod_driver rules", "many", {"read back": True, "moved": True, "read": True, "marked": True}),
        ("kmod_driver rules", "nothing left", ["reno", True, 0, {}]),
        # a handshake without a measured round trip is in no band
        ("kmod_driver plans", "bands", {"10 plain": [10, 1, "near"], "100 plain": [100, 2, "far"],
                                 "300 plain": [300, None, None],
                                 **{f"{ms} cookie without timestamps": [0, None, None] for ms in (10, 100, 300)}}),
        ("kmod_driver plans", "dropped", [14, 15, 16, 10]),
        ("kmod_driver plans", "nothing left", [0, [], {}]),
        ("kmod_driver plans", "lost", 0),
    ],
)  # fmt: skip
def test_found_exactly(guest: Guest, program: str, what: str, expected: object) -> None:
    assert guest(program)[what] == expected


def test_records(guest: Guest) -> None:
    """A reader that keeps four of five is informed of the fifth when it reads on."""
    records = guest("kmod_device calls")["records"]
    assert records["remotes"] == [f"10.5.0.{last}" for last in range(1, 5)]
    assert (records["lost"], records["left"], records["status"]) == ([0, 0, 0, 0, 1], [1], 1)
    assert records["again"] == "EEXIST" and records["woken"]
    first = records["first"]
    assert bytes.fromhex(first["cc"]) == b"bbr" and first["profile"] == records["profile"]
    assert first["bytes_acked"] in (5000, 5001) and first["segs_out"] == 4 and first["retrans"] == 0
    assert first["local"].startswith("c0000201") and first["local_port"] == 80
    # the last of four segments waits for a delayed ACK
    assert 100_000 <= first["min_rtt_us"] <= first["srtt_us"] < 300_000


def test_counters_balance_after_churn_and_a_watcher_sees_a_change_without_reading(guest: Guest) -> None:
    balance = guest("kmod_device lives")["balance"]
    assert sum(opened for opened, _ in balance) > 1000 and all(opened == closed for opened, closed in balance)
    assert guest("kmod_device lives")["generation"]["seen"] == [0, 1, 0]


def test_what_needs_ecn_is_refused_by_name(schemes: Findings) -> None:
    """To a profile and as the default of connections without one; nothing is written before that is known."""
    found = schemes["needs ecn"]
    assert (found["profile"], found["plain"], found["settings"]) == ("EPROTONOSUPPORT", "EPROTONOSUPPORT", {})
    assert found["driver"].startswith("BadInput: profile p: ") and found["driver"].endswith(NEEDS_ECN)
    words = (f"Refused: net.ipv4.tcp_congestion_control is dctcp, which the driver kmod cannot wrap: {NEEDS_ECN};"
             " or choose another first: sysctl net.ipv4.tcp_congestion_control=cubic")  # fmt: skip
    assert (found["default"], found["default stays"], found["nothing written"]) == (words, "dctcp", True)


def test_a_congestion_control_that_replaces_itself_is_left_to_itself(schemes: Findings) -> None:
    """The settings hold, the counters and the record say so, and every reference comes back."""
    found = schemes["rep_init"]
    assert (found["runs"], found["window"], found["profile"]) == ("rep_other", 33, False)
    assert found["open"] == found["closed"] == [5, 5, 5]
    assert found["witness"][0] == 5 and "replaced its own operations" in found["witness"][1]
    assert found["records"] == [["rep_other", 1]] and found["balanced"]
    # one that replaces itself at the end is released once
    found = schemes["rep_release"]
    assert (found["runs"], found["open"], found["closed"]) == ("rep_release", [5, 0, 0], [5, 5, 0])
    assert found["records"] == [["rep_release", 0]] and found["balanced"]
    assert schemes["held by no process"] == [0, 0]


def test_a_namespace_made_meanwhile_has_the_hosts_former_default(schemes: Findings) -> None:
    """Before and after rollback; the module goes while the namespace lives on."""
    assert schemes["by load"] == "bbr"
    assert schemes["namespaces"] == {
        "host": "configtron", "holds nothing": True, "made": "bbr", "plain": "bbr", "runs": ["bbr", "bbr"],
        "after": ["bbr", "bbr"],
    }  # fmt: skip


def test_no_one_waits_for_modprobe_but_who_asked_and_a_repeated_synack_keeps_its_window(schemes: Findings) -> None:
    """Seconds: modprobe takes five, and others ask after one. RFC 5681 section 3.1: one, whatever the profile says."""
    assert schemes["modprobe"] == {"tables": 1.0, "names": 1.0, "whole": pytest.approx(5.0, abs=0.5)}
    assert schemes["synack"] == {"usual": 40, "repeated": 1, "profile": 1}


def test_a_flush_is_killed_and_others_change_the_tables_while_one_runs(guest: Guest) -> None:
    """What is left is in the table, in the count of the profile and in that of the namespace; the next flush has it.
    In real time: in virtual time nothing interrupts a call that computes."""
    flush = guest("kmod_device flush", virtual_time=False)
    left, dumped, counted, removed, after = flush["killed"]
    assert 0 < left < flush["prefixes"] and left == dumped == counted == removed and after == 0
    meanwhile = flush["meanwhile"]
    assert meanwhile["calls"] >= 10
    assert (meanwhile["set meanwhile"], meanwhile["removed"]) == ("stays", flush["prefixes"])


def test_the_driver_with_and_without_the_module(guest: Guest) -> None:
    rules = guest("kmod_driver rules")
    missing, nothing, mark = rules["absent"]
    assert "configtron.lab module" in missing and nothing and mark == "nothing"
    assert rules["able"][:2] == ["", len(EVERYTHING)] and "no network namespace" in rules["able"][2]
    assert rules["as asked"] and rules["marked"]
    # it yields to other programs
    assert rules["overruled"] and rules["again"] and rules["frozen"][0] != rules["frozen"][1]


def test_the_driver_refuses_before_it_writes(guest: Guest) -> None:
    refusals = dict(guest("kmod_driver rules")["refusals"])
    assert refusals.pop("unchanged") == "True"
    assert all(words.startswith("BadInput: ") for words in refusals.values())
    assert "still has 2 prefixes" in refusals["used"]


def test_what_the_kernel_refuses_names_the_next_step(guest: Guest) -> None:
    steps = guest("kmod_driver rules")["next steps"]
    assert "the module speaks version 4, we 5; take its rules back" in steps["other version"]
    assert all(word in steps["other version"] for word in ("tune rollback", "rmmod configtron", "lab module", "insmod"))
    allowed = "net.ipv4.tcp_allowed_congestion_control"
    assert f'in the first one: sysctl {allowed}="$(sysctl -n {allowed}) configtron"' in steps["not allowed"]
    why, default, gone = steps["old default"]
    assert f'"$(sysctl -n {allowed}) reno"' in why and (default, gone) == ("configtron", True)
    assert steps["restored"] == "reno"
    assert "room for 1024 profiles and 1000000 prefixes" in steps["room"] and "tune rollback" in steps["room"]
    assert "driver route; or choose another first: sysctl" in steps["cannot be wrapped"]


def test_rules_for_some_ports_leave_the_others_alone(guest: Guest) -> None:
    """A default does not reach sshd; nor does a driver for every port take these rules for its own."""
    found = guest("kmod_driver rules")["listened"]
    assert found["windows"] == [40, 10] and found["read"] == [1, 0, 1, []] and found["found"] == "80"
    assert "are for local ports 80" in found["refused"] and found["still"] == 1
    assert found["left"] == [0, [], "reno"] and "not addresses" in found["addresses"]


def test_open_connections_are_moved_when_asked_to(guest: Guest) -> None:
    """Of any process; not those this host opened, nor those without a profile; unaccepted ones are counted."""
    moves = guest("kmod_driver moves")
    assert (moves["mover"], moves["nothing in force"]) == (True, [0, 0])
    ended = {"ended": ""}
    assert moves["untouched"] == dict.fromkeys(moves["untouched"], "cubic") | ended
    assert moves["after"] == {
        "by prefix": "bbr", "by longer prefix": "vegas", "without a profile": "cubic", "IPv6": "vegas",
        "mapped": "bbr", "held back": "cubic", "of another process": "bbr",
    } | ended  # fmt: skip
    assert (moves["moved"], moves["our own"]) == ([8, 6], "cubic")
    # what is right already is left alone: the counter of connections given to the profile says so
    given = moves["held"][2]
    assert moves["held"][:2] == [True, False] and given == 3
    assert moves["again"] == [[8, 6], given]
    assert moves["newer version"] == [[8, 6], "cubic", 2 * given]


def test_the_module_draws_what_python_draws(guest: Guest) -> None:
    """IPv4, mapped and IPv6 clients, two epochs: each one's first window and both of its records."""
    epochs = guest("kmod_driver plans")["epochs"]
    for number in ("7", "8"):
        assert epochs[number]["wrong"] == []
        counts = epochs[number]["counts"]
        assert counts["beginnings"] == counts["ends"] == counts["aborted"] == 400
        assert min(counts[arm] for arm in ("a", "b", "held")) > 20
    assert epochs["7"]["counts"]["a"] != epochs["8"]["counts"]["a"]


def test_a_lease_without_renewal_ends(guest: Guest) -> None:
    lease = guest("kmod_driver plans")["lease"]
    assert lease["others"] == [] and lease["renewed"]
    assert 4.0 < lease["last tuned"] <= 5.1 and 5.0 <= lease["first plain"] < 5.7


def test_a_close_record_says_how_it_ended(guest: Guest) -> None:
    closing = guest("kmod_driver plans")["closing"]
    assert {way: record["ending"] for way, record in closing.items()} == {
        "fins": "closed", "server first": "closed", "reset": "reset", "reset, read": "reset", "abort": "aborted",
    }  # fmt: skip
    for record in closing.values():
        assert (record["profile"], record["class"], record["arm"], record["rtt_ms"]) == ("alone", None, None, 100)
        assert 138 <= record["segments"] <= 145 and 0.0 <= record["app_limited"] <= 1.0
    # a second of waiting on either side of its own FIN, with nothing to send
    assert closing["fins"]["app_limited"] > 0.5 > closing["server first"]["app_limited"]


def test_plans_that_do_not_hold_together_are_refused(guest: Guest) -> None:
    plans = guest("kmod_driver plans")
    refusals = plans["refusals"]
    assert all("change only with the epoch" in refusals[f"other {what}"] for what in ("mixes", "holdback", "bands"))
    assert refusals["same again"] == ""
    assert "'unknown'" in refusals["no such profile"] and "'unknown'" in refusals["no such arm"]
    assert "no plan is loaded" in refusals["nothing loaded"] and "no plan is in force" in refusals["renew without"]
    assert "part of the plan" in refusals["profile in use"] and "no rules" in plans["not in force"]
